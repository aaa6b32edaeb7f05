"""What the tools of a run that is hosted here report about their open calls. Nothing of it is recorded.

In: news of calls, from any thread. Out: the latest reports by call, and a number that changes with them.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import NamedTuple

from callsheet.ports.calls import CallProgress

_MOST_CALLS = 50
_MOST_LINES = 10


class CallReport(NamedTuple):
    """How far an open call is, and the last messages of its tool, the newest last."""

    key: str
    progress: CallProgress
    lines: tuple[str, ...] = ()


class LiveCalls:
    """A `CallListener` that keeps the latest report of each open call; `version` counts the changes."""

    def __init__(self) -> None:
        self.version = 0
        self._mutex = Lock()
        self._open: set[str] = set()
        self._latest: dict[str, CallProgress] = {}
        self._lines: dict[str, deque[str]] = {}

    def began(self, key: str) -> None:
        """A call is sent; what it waited for is over."""
        self._open.add(key)
        if key in self._latest:
            self._forget(key)

    def queued(self, key: str) -> None:
        """A call waits for others of its tool."""
        self.progressed(key, CallProgress(0, None, "waiting for other calls of its tool", waits=True))

    def ended(self, key: str, *, succeeded: bool) -> None:
        """A call has an outcome."""
        self._open.discard(key)
        if key in self._latest:
            self._forget(key)

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress; a report that comes after the outcome is dropped."""
        with self._mutex:
            if key not in self._open or (key not in self._latest and len(self._latest) >= _MOST_CALLS):
                return
            before = self._latest.get(key)
            if progress.done is None and before is not None and not before.waits:
                self._latest[key] = before._replace(message=progress.message)
            else:
                self._latest[key] = progress
            lines = self._lines.setdefault(key, deque(maxlen=_MOST_LINES))
            if progress.message and not progress.waits and (not lines or lines[-1] != progress.message):
                lines.append(progress.message)
            self.version += 1

    def reports(self) -> list[CallReport]:
        """The latest reports, of the calls that reported first."""
        with self._mutex:
            return [CallReport(key, each, tuple(self._lines[key])) for key, each in self._latest.items()]

    def _forget(self, key: str) -> None:
        with self._mutex:
            self._latest.pop(key, None)
            self._lines.pop(key, None)
            self.version += 1
