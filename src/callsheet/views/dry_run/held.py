"""Renders the verdict of a policy on each step of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Saying(Enum):
    """The kinds of remarks of a policy."""

    REFUSES = "refuses"
    ASKS = "asks"
    SEES_TO = "sees to"


class Said(NamedTuple):
    """One remark of a policy on a step.

    For a refusal, `code` is that of its diagnostic, `way` the path that the data would take.
    """

    kind: Saying
    text: str
    code: str = ""
    way: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """The verdict of a policy: its remarks on each step, by id, and on the plan as a whole."""

    policy: str
    is_refused: bool
    steps: Mapping[str, tuple[Said, ...]] = field(default_factory=dict[str, tuple[Said, ...]])
    plan: tuple[Said, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of the steps whose calls need a person's approval."""
        return tuple(step for step, said in self.steps.items() if any(s.kind is Saying.ASKS for s in said))


def lines_of(said: Said) -> tuple[str, ...]:
    """Returns the lines of a remark.

    >>> lines_of(Said(Saying.REFUSES, "private data would reach outside", "POL103", "S1 $a → S2 query"))
    ('refused (POL103): private data would reach outside', '  path: S1 $a → S2 query')
    """
    match said.kind:
        case Saying.REFUSES:
            head = f"refused ({said.code}): {said.text}"
        case Saying.ASKS:
            head = f"needs approval: {said.text}"
        case Saying.SEES_TO:
            head = f"enforced: {said.text}"
    return (head, f"  path: {said.way}") if said.way else (head,)
