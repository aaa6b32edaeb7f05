"""The public LCTL v3 library: creates, receives, acknowledges, checks and merges hand-offs between agents.

    from callsheet.lctl import Fact, Work, begin, receive, write

    block = write(begin("inv-7", Work(agent="reader", to="checker", instruction="Check the total",
                                      action="Read invoice 881", confidence=0.9,
                                      facts=[Fact("F1", "Invoice 881 totals 120.50 EUR", 0.96)])))
    got = receive(block)         # 1 parse, 2 load the trace, 3 check the confidence of the facts
    write(got.ack())             # 4 acknowledge
    got.instruction              # 5 carry it out
    got.hand_on(Work(...))       # 6 hand off to the next agent

`docs/lctl.md` describes its use.
"""

from __future__ import annotations

from callsheet.trace.lctl.check import Lost, Report, check
from callsheet.trace.lctl.confidence import Band, VerifiedRaise, band_of, effective
from callsheet.trace.lctl.diff import Diff, diff
from callsheet.trace.lctl.emit import Work, begin, free_ids, new_ids, rename_facts
from callsheet.trace.lctl.findings import Finding, LctlError
from callsheet.trace.lctl.graph import Cause, ChainGraph, graph_of, root_cause
from callsheet.trace.lctl.model import (
    Ack,
    Analysis,
    Chain,
    DebugDocument,
    Document,
    Entry,
    Fact,
    Handoff,
    Kind,
    Lists,
)
from callsheet.trace.lctl.reading import Reading, parse, read
from callsheet.trace.lctl.receive import Received, merge, receive
from callsheet.trace.lctl.rules.table import RULES, Level, Rule
from callsheet.trace.lctl.write import to_data, write

__all__ = [
    "RULES",
    "Ack",
    "Analysis",
    "Band",
    "Cause",
    "Chain",
    "ChainGraph",
    "DebugDocument",
    "Diff",
    "Document",
    "Entry",
    "Fact",
    "Finding",
    "Handoff",
    "Kind",
    "LctlError",
    "Level",
    "Lists",
    "Lost",
    "Reading",
    "Received",
    "Report",
    "Rule",
    "VerifiedRaise",
    "Work",
    "band_of",
    "begin",
    "check",
    "diff",
    "effective",
    "free_ids",
    "graph_of",
    "merge",
    "new_ids",
    "parse",
    "read",
    "receive",
    "rename_facts",
    "root_cause",
    "to_data",
    "write",
]
