"""The origin of a run that was branched off another, as `show` and `runs diff` report it.

In: the body of the run's first event. Out: text, or JSON data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.apps.rendering.values import preview


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The run and event that a run was branched off at, the command (`verb`), its author and the edits."""

    run_id: str
    event: int
    verb: str
    place: str
    by: str
    edits: tuple[Mapping[str, Any], ...]

    def describe(self) -> str:
        """The origin as text."""
        what = f"rerun from {self.place}" if self.verb == "rerun" else "forked"
        who = f" by {self.by}" if self.by else ""
        edits = "".join(f"; {_edit(edit)}" for edit in self.edits)
        return f"{self.run_id} after event {self.event}, {what}{who}{edits}"

    def to_json(self) -> dict[str, Any]:
        """The origin as JSON data."""
        return {
            "run_id": self.run_id,
            "event": self.event,
            "verb": self.verb,
            "step": self.place or None,
            "by": self.by,
            "edits": [dict(edit) for edit in self.edits],
        }


def origin_of(start: Mapping[str, Any] | None) -> ForkOrigin | None:
    """The origin in the body of a first event; None for a run that was not branched off."""
    fork = (start or {}).get("fork")
    if fork is None:
        return None
    return ForkOrigin(
        str(fork["run"]),
        int(fork["event"]),
        str(fork["verb"]),
        str(fork.get("from", "")),
        str(fork.get("by", "")),
        tuple(fork.get("edits", ())),
    )


def _edit(edit: Mapping[str, Any]) -> str:
    if "set" in edit:
        return f"${edit['set']} set"
    if "args" in edit:
        return f"{edit['args']} = {preview(edit['value'], 60)}"
    return f"{edit['replace']} replaced: {preview(edit['line'], 60)}"
