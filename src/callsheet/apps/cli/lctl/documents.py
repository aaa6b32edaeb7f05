"""The argument FILE... of `callsheet lctl`: reads the documents of a chain and their order."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from callsheet.apps.cli.options import Decorator, grouped
from callsheet.diagnostics import CallsheetError
from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.check import check as check_chain
from callsheet.trace.lctl.confidence import VerifiedRaise
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.reading import Reading, read
from callsheet.trace.lctl.yaml_text import MOST_BYTES

STDIN = "-"


class Documents:
    """The documents named on the command line, in the order of their chain."""

    def __init__(
        self, files: tuple[str, ...], follows: tuple[str, ...] = (), verified_raise: str = "cap"
    ) -> None:
        if files.count(STDIN) > 1:
            raise click.UsageError("only one document can come from standard input")
        self._files = files
        self._parents = dict(_parse_follows(text, len(files)) for text in follows)
        self._verified_raise = VerifiedRaise(verified_raise)

    def check(self) -> Report:
        """Read and check the documents. Raises CallsheetError (CFG012) for a file that cannot be read."""
        readings = [read_block(name) for name in self._files]
        return check_chain(readings, self._parents, verified_raise=self._verified_raise)

    def report(self) -> Report:
        """As `check`, but raises `LctlError` for a text that is not a document."""
        report = self.check()
        for place, reading in enumerate(report.readings):
            if reading.document is None:
                raise LctlError.of(report.of(place), reading.source)
        return report


def read_block(name: str) -> Reading:
    """The document of a file, or of standard input for `-`. Raises CallsheetError (CFG012)."""
    shown = "<stdin>" if name == STDIN else name
    try:
        if name != STDIN:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        elif sys.stdin is None:
            raise OSError("it is closed")
        else:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        help_text = "give a file, or - for standard input"
        raise CallsheetError.single("CFG012", f"{shown} cannot be read: {reason}", help=help_text) from error
    return read(data, shown)


def _parse_follows(text: str, count: int) -> tuple[int, tuple[int, ...]]:
    """The positions, from 0, of `--follows N=A,B`."""
    child, equals, above = text.partition("=")
    try:
        place, parents = int(child) - 1, tuple(int(part) - 1 for part in above.split(",") if part.strip())
    except ValueError:
        equals, place, parents = "", 0, ()
    if not equals or not 0 <= place < count or not all(0 <= parent < place for parent in parents):
        message = (
            f"--follows {text[:40]!r}: write N=A,B with numbers of documents, from 1, that come before N"
        )
        raise click.UsageError(message)
    return place, parents


documents: Decorator = grouped(
    "documents",
    Documents,
    files=click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    follows=click.option(
        "--follows",
        multiple=True,
        metavar="N=A,B",
        help="Document N (from 1) follows, and merges, A and B; default: the previous one. "
        "May be repeated; N= follows none.",
    ),
    verified_raise=click.option(
        "--verified-raise",
        type=click.Choice([str(word) for word in VerifiedRaise]),
        default=str(VerifiedRaise.CAP),
        show_default=True,
        help="How a raised confidence that is listed in facts_modified counts: capped or not.",
    ),
)
"""The documents of a chain, as `documents`."""
