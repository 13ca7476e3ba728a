"""What every page of the server uses: the folder it shows, answers, events, open sessions, background tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.web.serving.open_sessions import OpenSessions
    from unspool.web.serving.site import Site
    from unspool.web.serving.sql_engine import KeptEngine
    from unspool.web.serving.telemetry import TelemetryTask, telemetry_command

__all__ = ["KeptEngine", "OpenSessions", "Site", "TelemetryTask", "telemetry_command"]

__getattr__ = lazy_door(__name__, {
    "open_sessions": "OpenSessions",
    "site": "Site",
    "sql_engine": "KeptEngine",
    "telemetry": "TelemetryTask telemetry_command",
})
