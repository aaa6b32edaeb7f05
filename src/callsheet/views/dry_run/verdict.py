"""Renders the verdict of a policy on each step of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class RemarkKind(Enum):
    """The kinds of remarks of a policy."""

    REFUSES = "refuses"
    NEEDS_APPROVAL = "asks"
    ENFORCES = "sees to"


class Remark(NamedTuple):
    """One remark of a policy on a step.

    For a refusal, `code` is that of its diagnostic, `path` the path that the data would take.
    """

    kind: RemarkKind
    text: str
    code: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The verdict of a policy: its remarks on each step, by id, and on the plan as a whole."""

    policy: str
    is_refused: bool
    steps: Mapping[str, tuple[Remark, ...]] = field(default_factory=dict[str, tuple[Remark, ...]])
    plan: tuple[Remark, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of the steps whose calls need a person's approval."""
        return tuple(
            step
            for step, remarks in self.steps.items()
            if any(remark.kind is RemarkKind.NEEDS_APPROVAL for remark in remarks)
        )


def lines_of(remark: Remark) -> tuple[str, ...]:
    """Returns the lines of a remark.

    >>> lines_of(Remark(RemarkKind.REFUSES, "private data would reach outside", "POL103", "S1 $a → S2 query"))
    ('refused (POL103): private data would reach outside', '  path: S1 $a → S2 query')
    """
    match remark.kind:
        case RemarkKind.REFUSES:
            head = f"refused ({remark.code}): {remark.text}"
        case RemarkKind.NEEDS_APPROVAL:
            head = f"needs approval: {remark.text}"
        case RemarkKind.ENFORCES:
            head = f"enforced: {remark.text}"
    return (head, f"  path: {remark.path}") if remark.path else (head,)
