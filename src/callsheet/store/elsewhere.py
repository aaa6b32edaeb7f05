"""Which runs of a journal another engine carries on: their events are a copy of what it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.store.records import Start

ENGINE = "engine"
"""The entry of a run's launch that tells of the engine."""


def engine_of(journal: Journal, run_id: str) -> Mapping[str, Any] | None:
    """What a run's start says of the engine that carries it on; None for a run of this machine."""
    start = next(iter(journal.events(run_id, lenient=True)), None)
    launch: Mapping[str, Any] = (start.body or {}).get("launch") or {} if start is not None else {}
    return launch.get(ENGINE)


def goes_on_elsewhere(start: Start) -> bool:
    """Whether another engine carries on a run that was started so."""
    return ENGINE in start.launch


def check_here(journal: Journal, run_id: str) -> None:
    """Refuse what only the engine of a run can do; raises JournalError (TMP007)."""
    engine = engine_of(journal, run_id)
    if engine is not None:
        name = str(engine.get("name", "")).title()
        raise JournalError(
            "TMP007",
            f"run {run_id} is carried on by {name}; this journal has a copy of it",
            way_out="the commands resume, decide, approve and cancel tell the engine",
        )
