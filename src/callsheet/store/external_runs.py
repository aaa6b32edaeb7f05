"""Tells which runs of a journal are executed by an external engine; the journal then has copies of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.store.start import Start

ENGINE = "engine"
"""The key in a run's launch data that describes the engine."""


def engine_of(journal: Journal, run_id: str) -> Mapping[str, Any] | None:
    """The description of the engine that executes a run; None if it is executed here."""
    start = next(iter(journal.events(run_id, lenient=True)), None)
    launch: Mapping[str, Any] = (start.body or {}).get("launch") or {} if start is not None else {}
    return launch.get(ENGINE)


def is_run_by_engine(start: Start) -> bool:
    """Whether an external engine executes a run with this start."""
    return ENGINE in start.launch


def check_here(journal: Journal, run_id: str) -> None:
    """Raise JournalError (TMP007) if an external engine executes the run, which alone can change it."""
    engine = engine_of(journal, run_id)
    if engine is not None:
        name = str(engine.get("name", "")).title()
        raise JournalError(
            "TMP007",
            f"run {run_id} is executed by {name}; this journal has a copy of it",
            hint="the commands resume, decide, approve and cancel send their request to the engine",
        )
