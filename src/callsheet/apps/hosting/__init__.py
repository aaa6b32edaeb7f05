"""Runs inside a process that lives long: many at once, a bounded number under way, the rest queued.

In: a setup, a journal, and what people ask for over a face. Out: runs in the journal, their events as they
come. The HTTP API and the MCP server are built on it.
"""

from callsheet.apps.hosting.carried import Carried, Stage
from callsheet.apps.hosting.host import Host, Started
from callsheet.apps.hosting.orders import ForkOrder, Order, RerunOrder, Resumption
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.hosting.watching import Standing

__all__ = [
    "Carried",
    "ForkOrder",
    "Host",
    "Order",
    "RerunOrder",
    "Resumption",
    "SharedTools",
    "Stage",
    "Standing",
    "Started",
]
