"""The plugin for pytest: it collects the cases in `NAME.test.toml`, one item for each.

It is loaded with pytest wherever callsheet is installed, so it imports callsheet only where there are cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from callsheet.testing.case import Case, CaseFile
    from callsheet.testing.suite import FileResult

_ENDING = ".test.toml"


class CaseFailed(Exception):
    """A case is not as expected; its text has a line for each difference."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of cases."""
    if not file_path.name.endswith(_ENDING):
        return None
    return CaseCollector.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]


class CaseCollector(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each case; raises CollectError for a file that cannot be used."""
        from callsheet.diagnostics import CallsheetError, render_all  # noqa: PLC0415 - only where there are cases
        from callsheet.testing.case import read_cases  # noqa: PLC0415 - as above

        try:
            file = read_cases(self.path)
        except CallsheetError as error:
            raise self.CollectError(render_all(error.diagnostics, error.source)) from None
        for case in file.cases:
            yield CaseItem.from_parent(self, name=case.name, file=file, case=case)  # pyright: ignore[reportUnknownMemberType]


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, file: CaseFile, case: Case, **others: Any) -> None:
        super().__init__(**others)  # pyright: ignore[reportUnknownMemberType]
        self._file, self._case = file, case

    def runtest(self) -> None:
        """Run the case; raises CaseFailed with its differences."""
        from dataclasses import replace  # noqa: PLC0415 - as above

        from callsheet.testing.suite import run_file  # noqa: PLC0415 - as above

        done = run_file(replace(self._file, cases=(self._case,)))
        lines = [_line(done, number) for number in range(len(done.results[0].differences))]
        if lines:
            raise CaseFailed("\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The differences alone, for a case that is not as expected; what is wrong with its plan or tools."""
        from callsheet.diagnostics import CallsheetError, render_all  # noqa: PLC0415 - as above

        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        if isinstance(excinfo.value, CallsheetError):
            return render_all(excinfo.value.diagnostics, excinfo.value.source)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands."""
        return self.path, self._case.line - 1, self.name


def _line(done: FileResult, number: int) -> str:
    difference = done.results[0].differences[number]
    place = done.place(difference)
    return f"{place}: {difference.text}" if place else difference.text
