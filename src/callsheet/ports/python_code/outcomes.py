"""How a piece of pure code may end, and the limits on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from callsheet.frontends.pure_code import Place


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What one piece of code may use: memory in bytes, time in seconds, calls inside calls, bytes printed.

    Time is processor time of the worker: waiting for a free worker is not counted. Whoever records outcomes
    replays them, so a limit on time never makes a replay differ.
    """

    memory: int = 256 << 20
    seconds: float = 10.0
    depth: int = 1000
    printed: int = 1 << 20


class Limit(StrEnum):
    """A limit that was reached."""

    MEMORY = "memory"
    TIME = "time"
    DEPTH = "depth"
    PRINTED = "printed"


class Outputs(NamedTuple):
    """The code ended: the values of the names that were asked for and have one, and what it printed."""

    values: Mapping[str, Any]
    printed: str = ""


class Raised(NamedTuple):
    """The code raised an exception that nothing in it caught.

    `kind` is the name of its class, as CPython has it, and `bases` are those that would catch it, nearest
    first, itself included. `fields` are the attributes of an exception whose class is the program's.
    """

    kind: str
    message: str
    bases: tuple[str, ...]
    place: Place | None
    fields: Mapping[str, Any]


class LimitReached(NamedTuple):
    """The code used more than its limits allow, and was stopped; nothing in it can catch that."""

    limit: Limit
    message: str
    place: Place | None


class NotUnderstood(NamedTuple):
    """The code says what the interpreter cannot do, or gives what is no value; `rewrite` is the way out."""

    message: str
    place: Place | None
    rewrite: str


class WorkerDied(NamedTuple):
    """The worker process ended in the middle of the code; the next piece gets another one.

    Pure code changes nothing, so it may be run again.
    """

    message: str


Outcome = Outputs | Raised | LimitReached | NotUnderstood | WorkerDied
"""How a piece of code ended."""
