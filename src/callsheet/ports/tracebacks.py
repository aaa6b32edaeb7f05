"""Makes the remark on an outcome that says where a tool's Python code raised an exception.

In: the exception. Out: its traceback as text of bounded length, without the frames of callsheet and of the
event loop, which are the same for every call.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from callsheet.machine import Fact
from callsheet.machine.remarks import SAME_PLACE, TRACEBACK

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_CARRIERS = tuple(str(Path(traceback.__file__).parent / name) for name in ("asyncio", "concurrent"))
"""The standard library's own frames between callsheet and a function that runs in a thread or a task."""
_MOST_FRAMES = 30
_MOST_CHARACTERS = 6_000


class Tracebacks:
    """The remarks on the exceptions of one run; one that was raised at the same place before refers to it."""

    def __init__(self) -> None:
        self._first: dict[tuple[tuple[str, int], ...], str] = {}

    def remark(self, error: BaseException, key: str) -> Fact:
        """The remark on an exception that ended the call with this key."""
        place = tuple((frame.filename, frame.lineno or 0) for frame in _own_frames(_summary(error)))
        first = self._first.setdefault(place, key)
        return Fact(TRACEBACK, traceback_text(error) if first == key else f"{SAME_PLACE}{first}")


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception and of its causes, the start left out if it is too long."""
    try:
        shown = traceback.TracebackException.from_exception(error, limit=-_MOST_FRAMES)
        for part in _chain(shown):
            part.stack = traceback.StackSummary.from_list(_own_frames(part.stack))
        text = "".join(shown.format()).strip()
    except Exception:  # of a class whose own methods fail
        text = f"{type(error).__name__}: its traceback is not available"
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"… ({len(text) - _MOST_CHARACTERS:,} characters before this left out)\n{text[-_MOST_CHARACTERS:]}"


def _summary(error: BaseException) -> traceback.StackSummary:
    """The frames of an exception, without reading any source."""
    frames = traceback.walk_tb(error.__traceback__)
    return traceback.StackSummary.extract(frames, limit=-_MOST_FRAMES, lookup_lines=False)


def _chain(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """The exception with its causes, the contexts in which it was raised, and the members of groups."""
    stack: list[traceback.TracebackException] = [shown]
    while stack:
        part = stack.pop()
        yield part
        stack += [each for each in (part.__cause__, part.__context__) if each is not None]
        stack += getattr(part, "exceptions", None) or ()


def _own_frames(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames of the tool: those from its first on that are not callsheet's; all if they all are."""
    of_others = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    while of_others and of_others[0].filename.startswith(_CARRIERS):
        del of_others[0]
    return of_others or list(frames)
