"""What the pages of cost, review and time compute: parts of costs and their reasons, net diffs, spans of time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.analysis.cost_reasons import CostReason, EnteredText, RequestContext, explain_request
    from unspool.page.analysis.cost_split import (
        KINDS, CostSplit, CostSum, SplitRequest, agent_of_file, sort_sums, split_request,
    )

__all__ = [
    "KINDS", "CostReason", "CostSplit", "CostSum", "EnteredText", "RequestContext", "SplitRequest", "agent_of_file",
    "explain_request", "sort_sums", "split_request",
]

__getattr__ = lazy_door(__name__, {
    "cost_reasons": "CostReason EnteredText RequestContext explain_request",
    "cost_split": "KINDS CostSplit CostSum SplitRequest agent_of_file sort_sums split_request",
})
