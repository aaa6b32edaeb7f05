"""Remarks on an outcome: that something was cut, or how the value was made.

Remarks change nothing in a run. They come from the ports with an outcome, are journaled with it, and are told
to observers.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, assert_never

TRACEBACK = "traceback"
"""The name of the fact that says where a tool's code raised an exception; its text has several lines."""
SAME_PLACE = "at the same place as "
"""How the text of a traceback begins that a call, named after it, has already."""
QUEUED = "queued"
"""The name of the fact that says how many seconds a call waited for others before it was sent."""
LABEL = "label"
"""The name of the fact that says which label a tool's server gives to a result."""
RESULT = "result"
"""The name of the fact that says what about a result may be taken for something else."""


class Cut(NamedTuple):
    """Something is shorter than it was.

    `what` names it, in words; of `whole` units (None where nobody counted) `kept` are left.
    """

    what: str
    kept: int
    whole: int | None
    unit: str


class Fact(NamedTuple):
    """How an outcome was made: a name and what it is, as `prompt` and `LLM_EXTRACT/2`."""

    name: str
    text: str


Remark: TypeAlias = "Cut | Fact"


def describe_remark(remark: Remark) -> str:
    """A remark in words.

    >>> describe_remark(Cut("input 1", 200_000, 250_000, "characters"))
    'input 1 cut to 200,000 of 250,000 characters'
    >>> describe_remark(Cut("facts", 10, None, "rows"))
    'facts cut to 10 rows'
    >>> describe_remark(Fact("prompt", "LLM_EXTRACT/2"))
    'prompt: LLM_EXTRACT/2'
    """
    match remark:
        case Cut(what=what, kept=kept, whole=None, unit=unit):
            return f"{what} cut to {kept:,} {unit}"
        case Cut(what=what, kept=kept, whole=whole, unit=unit):
            return f"{what} cut to {kept:,} of {whole:,} {unit}"
        case Fact(name=name, text=text):
            return f"{name}: {text}"
    assert_never(remark)
