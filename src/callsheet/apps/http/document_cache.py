"""Remembers the latest viewer documents of runs, so that a viewer is sent only what changed.

In: a function that makes the document of a run. Out: the document's name, and the changes or all of it. If a
document has been forgotten, the viewer is sent the whole new one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from callsheet.views.report.document import Print, changes, name_of, print_of
from callsheet.views.report.values import Numbers

_MOST_RUNS = 16
_MOST_PRINTS = 8


class _CachedRun:
    """The cached prints of a run by name, and the numbers of its values; `mutex` serializes its documents."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.prints: OrderedDict[str, Print] = OrderedDict()
        self.numbers: Numbers = {}


class DocumentCache:
    """The prints of the last viewed runs; thread-safe."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str | None], _CachedRun] = OrderedDict()
        self._mutex = threading.Lock()

    def changes_since(
        self, run: tuple[str, str | None], base: str | None, make: Callable[[Numbers], dict[str, Any]]
    ) -> tuple[str, dict[str, Any]]:
        """The name of a run's document, and its changes since the document `base`, or all of it.

        `run` is the id of the run and of the one with which it is compared.
        """
        watched = self._watched(run)
        with watched.mutex:
            document = make(watched.numbers)
            made = print_of(document)
            name, before = name_of(made), None if base is None else watched.prints.get(base)
            watched.prints[name] = made
            watched.prints.move_to_end(name)
            while len(watched.prints) > _MOST_PRINTS:
                watched.prints.popitem(last=False)
        if before is None:
            return name, document
        return name, {"base": base, **changes(before, made, document)}

    def _watched(self, run: tuple[str, str | None]) -> _CachedRun:
        with self._mutex:
            found = self._runs.setdefault(run, _CachedRun())
            self._runs.move_to_end(run)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        return found
