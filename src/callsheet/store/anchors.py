"""Anchors: head hashes of runs kept outside the journal, to detect that a whole chain was rewritten.

A hash chain detects every change except a recomputation of the whole chain. An anchor file records, as JSON
Lines, which hash an event of a run had at what time. Keep it where those who can write the journal cannot
write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.ir.strict_json import read_json
from callsheet.store.errors import JournalError
from callsheet.store.reader import Reader
from callsheet.store.runs import RunInfo


class Anchor(NamedTuple):
    """The hash of a run at one of its events; `time` is in seconds since 1970."""

    run_id: str
    seq: int
    head: str
    time: float


def anchors_of(runs: Iterable[RunInfo], now: float) -> list[Anchor]:
    """The current head hashes of runs, without runs that have no events; `now` is in seconds since 1970."""
    return [
        Anchor(run.run_id, run.events, run.head_hash.hex(), now) for run in runs if run.head_hash is not None
    ]


def append_anchors(path: Path, anchors: Iterable[Anchor]) -> None:
    """Append anchors to a file, which is created if it does not exist; raises JournalError (JRN018)."""
    text = "".join(json.dumps(_anchor_json(anchor)) + "\n" for anchor in anchors)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error


def read_anchors(path: Path) -> list[Anchor]:
    """The anchors in a file; raises JournalError (JRN018) if it cannot be read or has none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or "it is not UTF-8 text") from error
    anchors: list[Anchor] = []
    for number, line in enumerate(lines, 1):
        try:
            data: Any = read_json(line)
            anchors.append(Anchor(str(data["run"]), int(data["seq"]), str(data["head"]), float(data["time"])))
        except (ValueError, KeyError, TypeError) as error:
            raise _unusable(path, f"line {number} is not an anchor") from error
    if not anchors:
        raise _unusable(path, "it contains no anchor")
    return anchors


def broken_anchor(reader: Reader, anchor: Anchor) -> str | None:
    """Why the journal does not match an anchor; None if it does.

    Only the anchored event is compared; the caller verifies the chain.
    """
    if reader.runs.get(anchor.run_id) is None:
        return "the run is no longer in this journal"
    recorded = reader.hash_at(anchor.run_id, anchor.seq)
    if recorded is None:
        return f"its event {anchor.seq} is missing, or is not the end of an entry"
    if recorded.hex() != anchor.head:
        return f"its event {anchor.seq} does not have the anchored hash"
    return None


def _anchor_json(anchor: Anchor) -> dict[str, Any]:
    return {"run": anchor.run_id, "seq": anchor.seq, "head": anchor.head, "time": anchor.time}


def _unusable(path: Path, reason: str) -> JournalError:
    return JournalError(
        "JRN018",
        f"the anchor file {path} cannot be used: {reason}",
        hint="name a file written by `callsheet runs heads --anchor FILE`",
    )
