"""Runs plans inside a long-lived process: many at once, with a limit and a queue.

In: a setup, a journal, and requests. Out: runs in the journal, and their events as they come. The HTTP API
and the MCP server are built on it.
"""

from callsheet.apps.hosting.host import Host, Started
from callsheet.apps.hosting.recorded import RunState
from callsheet.apps.hosting.run_queue import HostedRun, Stage
from callsheet.apps.hosting.service import (
    ForkRequest,
    RerunRequest,
    ResumeOptions,
    RunRequest,
    UndoRequest,
)
from callsheet.apps.hosting.shared import SharedTools

__all__ = [
    "ForkRequest",
    "Host",
    "HostedRun",
    "RerunRequest",
    "ResumeOptions",
    "RunRequest",
    "RunState",
    "SharedTools",
    "Stage",
    "Started",
    "UndoRequest",
]
