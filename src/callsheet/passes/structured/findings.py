"""What the checks of a version 2 plan have found so far, and the words for expressions and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from callsheet.diagnostics import Diagnostic, Fix, Severity, Span
from callsheet.ir.expression import Expression, Field, Index
from callsheet.ir.tree import Statement
from callsheet.passes.finding import Advisor, Finding, Suggestion, ToolSignature
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes
from callsheet.passes.structured.shapes import Shape, Special, families


class Report:
    """The findings about one plan over `tools`, in the order in which they were made."""

    def __init__(self, tools: Mapping[str, ToolSignature] | None = None) -> None:
        self.found: list[Diagnostic] = []
        self.suggest = Advisor().suggest
        self._tools = tools or {}

    def telling(self, field: str) -> list[str]:
        """The tools that read whose declared results have a field, at most two."""
        found = (
            f"@{name}"
            for name, tool in self._tools.items()
            if tool.effect.only_reads and field in _fields(tool.result or {})
        )
        return list(islice(found, 2))

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


def _fields(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a record that a schema declares, or of the items of its list."""
    items: Any = result.get("items")
    record = cast("Mapping[str, Any]", items) if isinstance(items, dict) else result
    declared: Any = record.get("properties")
    return cast("Mapping[str, Any]", declared) if isinstance(declared, dict) else {}


def listed(names: Iterable[str], mark: str = "", most: int = 12) -> str:
    """Names for a message: `a, b and c`, and how many more there are.

    >>> listed(["a", "b", "c"], "$")
    '$a, $b and $c'
    """
    every = [mark + name for name in names]
    if len(every) > most:
        return f"{', '.join(every[:most])} and {len(every) - most} more"
    return every[0] if len(every) == 1 else f"{', '.join(every[:-1])} and {every[-1]}" if every else "none"


_MOST_TEXT = 60


def spelled(node: Expression) -> str:
    """An expression for a message."""
    from callsheet.frontends.expressions.printer import format_expression  # noqa: PLC0415 - for messages only

    try:
        text = format_expression(node)
    except ValueError:  # texts in texts in texts: no text says it
        text = "the value"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def optional(node: Expression) -> str:
    """A path with `?` behind it, for a message."""
    return f"{spelled(node)}?" if isinstance(node, Field | Index) else f"({spelled(node)} ?? {{}})"


def plain(shape: Shape) -> str:
    """A shape for a message, without null and with texts as str."""
    return shapes.text(shapes.widened(shape.without(Special.NULL)))


def article(words: str) -> str:
    """The words with an article.

    >>> article("int"), article("list[str]"), article("an empty list")
    ('an int', 'a list[str]', 'an empty list')
    """
    if words.startswith(("a ", "an ", "{", '"', "nothing", "null")):
        return words
    return f"an {words}" if words[:1] in "aeiou" else f"a {words}"


def count(number: int) -> str:
    """A number of arguments in words."""
    return "one argument" if number == 1 else f"{number} arguments"


def may_be_number(shape: Shape) -> bool:
    """Whether a value may be an index."""
    known = families(shape)
    return not known or bool(known & {of.NUM, of.TRUTH, of.UNKNOWN})


def conversion(one: Shape, two: Shape) -> str | None:
    """How values of two shapes are made comparable."""
    both = families(one) | families(two)
    for name, how in ((of.TIME, "datetime(…)"), (of.DAY, "date(…)"), (of.SPAN, 'duration("2d")')):
        if name in both:
            return f"convert the other to a {name}: {how}"
    if both == {of.TEXT, of.NUM}:
        return "convert one of them: int(…), float(…) or str(…)"
    return "convert one of them"
