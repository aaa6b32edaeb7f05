"""Checks the servers of a run against a file of pins, and records servers seen for the first time.

In: open servers. Out: a judgement for each. Blocks on the file: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ports.mcp.servers import McpServerConfig
from callsheet.ports.mcp.trust.file import PinFile
from callsheet.ports.mcp.trust.identity import identity_of
from callsheet.ports.mcp.trust.judging import Judgement, SeenServer, judge
from callsheet.ports.mcp.trust.records import Pins


def now() -> str:
    """The current time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PinKeeper:
    """A file of pins and how strictly it is applied.

    With `pinned` only tools approved by a person may be called, and nothing is recorded automatically.
    Otherwise a server seen for the first time is accepted and recorded; from then on its tools must be
    declared as recorded. `records` says whether anything may be written.
    """

    def __init__(self, file: PinFile, *, pinned: bool, records: bool = True) -> None:
        self._file = file
        self._pinned = pinned
        self._records = records and not pinned

    def judge(self, servers: Sequence[SeenServer]) -> tuple[Judgement, ...]:
        """A judgement for each server, in their order; raises CallsheetError (CFG114) for an invalid file."""
        judgements = self._judged(servers, self._file.read())
        if not self._records or all(each.first_seen is None for each in judgements):
            return judgements
        again = judgements

        def keep(pins: Pins) -> Pins:
            nonlocal again
            again = self._judged(servers, pins)  # another process may have been first
            for each in again:
                pins = pins if each.first_seen is None else pins.having(each.first_seen)
            return pins

        try:
            self._file.change(keep)
        except OSError as error:
            return tuple(
                each if each.first_seen is None else self._unkept(each, error) for each in judgements
            )
        return again

    def known(self, configs: Sequence[McpServerConfig]) -> list[tuple[McpServerConfig, Mapping[str, Any]]]:
        """The recorded declarations of these servers' tools, each with its server."""
        pins = self._file.read()
        pinned = ((config, pins.find(identity_of(config))) for config in configs)
        return [(c, tool.declaration) for c, server in pinned if server for tool in server.tools.values()]

    def _judged(self, servers: Sequence[SeenServer], pins: Pins) -> tuple[Judgement, ...]:
        moment = now()
        return tuple(judge(server, pins, pinned=self._pinned, now=moment) for server in servers)

    def _unkept(self, judgement: Judgement, error: OSError) -> Judgement:
        notice = Diagnostic(
            "TOL023",
            Severity.WARNING,
            f"the declarations of a server's tools cannot be stored in {self._file.path}:"
            f" {error.strerror or error}",
            help="later changes would not be detected; name a writable file in CALLSHEET_PINS",
        )
        return replace(judgement, notices=(*judgement.notices, notice))
