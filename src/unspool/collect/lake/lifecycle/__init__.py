"""What happens to the content of a lake later: sessions, projects, devices and users are forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.lake.lifecycle.forget import ForgetReport, Forgetting, measure_plan, preview_filter
    from unspool.collect.lake.lifecycle.forget_filter import has_forgotten, read_forget_filter
    from unspool.collect.lake.lifecycle.plan import ForgetPlan, ForgetRequest, make_plan
    from unspool.collect.lake.lifecycle.pseudonyms import PseudonymKey, mark_lake, open_pseudonyms, reveal_users

__all__ = [
    "ForgetPlan", "ForgetReport", "ForgetRequest", "Forgetting", "PseudonymKey", "has_forgotten",
    "make_plan", "mark_lake", "measure_plan", "open_pseudonyms", "preview_filter", "read_forget_filter", "reveal_users",
]

__getattr__ = lazy_door(__name__, {
    "forget": "ForgetReport Forgetting measure_plan preview_filter",
    "forget_filter": "has_forgotten read_forget_filter",
    "plan": "ForgetPlan ForgetRequest make_plan",
    "pseudonyms": "PseudonymKey mark_lake open_pseudonyms reveal_users",
})
