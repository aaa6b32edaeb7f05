"""The diagnostic: code, span, message, help and fix of a problem; exceptions carry diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from callsheet.diagnostics.source import Source, Span


class Severity(StrEnum):
    """How much a finding matters: an error stops the plan, a warning and a hint do not."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair that a machine can make: what it does, in words, and the edits."""

    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class WordFix:
    """A word inside a diagnostic's span, or right before it, and the words that were likely meant."""

    word: str
    meant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that is wrong, or could be better, and where.

    `code` names an entry of `diagnostics.codes`; `message` says what is wrong in one line;
    `help` says the way out; `step` is the id of the step concerned, where there is one. `fix` is the
    repair, where whoever found it knew the text; `swap` what it would change, where only the plan was known.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    help: str | None = None
    fix: Fix | None = None
    step: str | None = None
    swap: WordFix | None = None

    @property
    def is_error(self) -> bool:
        """Whether this finding stops the plan."""
        return self.severity is Severity.ERROR


class CallsheetError(Exception):
    """A user's mistake or a refused wish, said in diagnostics.

    `diagnostics` holds at least one; `source` is the text that their spans point into, if any.
    Faces print them with `diagnostics.render_all` and never show a traceback for this class.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], source: Source | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__(_in_one_line(self.diagnostics))

    @classmethod
    def single(cls, code: str, message: str, *, help: str | None = None) -> CallsheetError:  # noqa: A002 - as the field is called
        """An error of one diagnostic without a place in a text."""
        return cls([Diagnostic(code, Severity.ERROR, message, help=help)])


def _in_one_line(diagnostics: Sequence[Diagnostic]) -> str:
    """All diagnostics with their codes; one whose message the one before it ends with is told once."""
    parts: list[str] = []
    before = ""
    for one in diagnostics:
        if before.endswith(f": {one.message}"):
            parts[-1] = f"{parts[-1].removesuffix(one.message)}{one.code}: {one.message}"
        else:
            parts.append(f"{one.code}: {one.message}")
        before = one.message
    return "; ".join(parts)
