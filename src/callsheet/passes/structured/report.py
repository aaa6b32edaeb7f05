"""What the checks of a version 2 plan have found so far: diagnostics at statements, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callsheet.diagnostics import Diagnostic, Fix, Severity, Span
from callsheet.ir.tree import Statement
from callsheet.passes.finding import Advisor, Finding, Suggestion


class Report:
    """The findings about one plan, in the order in which they were made."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.suggest = Advisor().suggest

    def add(
        self,
        code: str,
        message: str,
        statement: Statement | None = None,
        *,
        span: Span | None = None,
        help: str | Suggestion | None = None,  # noqa: A002 - the name of the field
        severity: Severity = Severity.ERROR,
        fix: Fix | None = None,
    ) -> None:
        """Note a finding; without a `span` it is at the statement as a whole."""
        words, swap = (help.words, help.swap) if isinstance(help, Suggestion) else (help, None)
        place = span or (None if statement is None else statement.span)
        step = None if statement is None else statement.id
        self.found.append(Diagnostic(code, severity, message, place, words, fix, step, swap))

    def add_finding(self, finding: Finding, statement: Statement) -> None:
        """Note what a check that both versions share has found about a statement."""
        self.add(
            finding.code,
            finding.message,
            statement,
            span=finding.span,
            help=finding.help,
            severity=finding.severity,
        )

    def near(self, word: str, known: Iterable[str], otherwise: str, mark: str = "") -> Suggestion | str:
        """A "did you mean", or else the other help."""
        return self.suggest(word, known, mark) or otherwise

    def mark(self) -> int:
        """A point to which `forget` goes back."""
        return len(self.found)

    def forget(self, mark: int) -> None:
        """Drop all findings since a point, because their assumption was wrong."""
        del self.found[mark:]

    def sorted(self, order: Mapping[str, int]) -> tuple[Diagnostic, ...]:
        """All findings by the place of their statement in the text; those about no statement first."""
        return tuple(sorted(self.found, key=lambda one: order.get(one.step or "", -1)))


def listed(names: Iterable[str], mark: str = "", most: int = 12) -> str:
    """Names for a message: `a, b and c`, and how many more there are.

    >>> listed(["a", "b", "c"], "$")
    '$a, $b and $c'
    """
    every = [mark + name for name in names]
    if len(every) > most:
        return f"{', '.join(every[:most])} and {len(every) - most} more"
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}" if every else "none"
