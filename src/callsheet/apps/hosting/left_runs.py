"""Finds the runs that a host left when its process ended: to continue, or waiting for people.

In: a journal, and the name that a host records with its runs. Out: run ids, oldest first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.forking import HOST
from callsheet.runtime.inbox import asks_of
from callsheet.store import Journal, RunStatus
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.runs import RunInfo

_log = logging.getLogger("callsheet.hosting")


class LeftRuns(NamedTuple):
    """The runs that a host left: to resume at once, those it died of, and those that wait, with questions."""

    interrupted: Sequence[str] = ()
    given_up: Sequence[str] = ()
    waiting: Mapping[str, Sequence[PendingAsk]] = {}


def runs_left_by(name: str, journal: Journal) -> LeftRuns:
    """The runs that hosts of this name left in a journal; none for an empty name."""
    if not name:
        return LeftRuns()
    place = place_of(journal.path)
    interrupted = [
        info.run_id
        for info in journal.runs(status=RunStatus.RUNNING)
        if not is_owned(place, info.run_id) and _is_of(name, journal, info)
    ]
    waiting = {
        info.run_id: _asks(journal, info)
        for info in journal.runs(status=RunStatus.WAITING)
        if _is_of(name, journal, info)
    }
    return LeftRuns(interrupted[::-1], waiting=waiting)


def _is_of(name: str, journal: Journal, info: RunInfo) -> bool:
    try:
        start = next(iter(journal.events(info.run_id, lenient=True)), None)
    except CallsheetError as error:
        _log.warning("run %s cannot be looked at: %s", info.run_id, error)
        return False
    launch: dict[str, object] = {} if start is None or start.body is None else start.body.get("launch") or {}
    return launch.get(HOST) == name


def _asks(journal: Journal, info: RunInfo) -> Sequence[PendingAsk]:
    try:
        return asks_of(journal, info.run_id)
    except CallsheetError as error:
        _log.warning("the inbox of run %s cannot be read: %s", info.run_id, error)
        return ()
