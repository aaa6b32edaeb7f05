"""Finds names in texts that nothing is inserted for: `"Hello {name}"`, and `"$rows[0]"` without braces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from callsheet import lazy
from callsheet.diagnostics import Severity, WordFix
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Hole, Text, Variable, children
from callsheet.ir.tree import Act, Statement, operands
from callsheet.passes.calls import CODE_ARGUMENTS
from callsheet.passes.finding import Suggestion
from callsheet.passes.structured.findings import Report, spelled
from callsheet.passes.texts import OWN_BRACES

_BRACES = lazy.pattern(r"(?<![\w$])(\{\{ *|\{)([A-Za-z_]\w*)((?:\.\w+)*)( *\}\}|\})")
_NOT_READ = frozenset({*OWN_BRACES, "query"})
_INDEX = lazy.pattern(r"\[(?:(?:\w+|\"[^\"]*\"|'[^']*')\]|\Z)")


def names_left_alone(one: Statement, report: Report, is_known: Callable[[str], bool]) -> None:
    """CHK034 for names in the texts of a statement that look like references and are none."""
    for node in _read_by_people(one):
        for part, text, hole in _texts(node):
            found = _BRACES.search(text) if "{" in text else None
            if found is not None and is_known(found[2]):
                meant = f"${{{found[2]}{found[3]}}}"
                help_ = Suggestion(f"write {meant} for the value", WordFix(found[0], (meant,)))
                message = f"{found[0]} is literal text: nothing is inserted there"
                report.add("CHK034", message, one, span=part.span, help=help_, severity=Severity.WARNING)
            after = None if hole is None else _INDEX.match(text)
            if after is not None and hole is not None:
                name = spelled(hole.expression)
                index = after[0] if after[0].endswith("]") else "[…]"
                help_ = (
                    f"write ${{{name[1:]}{index}}} for the part of the value, ${{{name[1:]}}} for the whole"
                )
                message = f"{name} ends before {after[0][:1]}, which is literal text"
                report.add("CHK034", message, one, span=part.span, help=help_, severity=Severity.WARNING)


def _read_by_people(one: Statement) -> Sequence[Expression]:
    """The expressions of a statement that may have texts, without code and queries."""
    found = [value for value in operands(one) if not isinstance(value, Variable)]
    if not found or not isinstance(one, Act):
        return found
    code = CODE_ARGUMENTS.get(one.tool)
    named = [value for name, value in one.named if name.lower() not in _NOT_READ and name.lower() != code]
    return [*(one.positional if code is None else one.positional[1:]), *named]


def _texts(node: Expression) -> Iterator[tuple[Literal | Text, str, Hole | None]]:
    """Each text in an expression: the node, the text, and the reference without braces right before it."""
    if isinstance(node, Literal):
        if isinstance(node.value, str):
            yield node, node.value, None
    elif isinstance(node, Text):
        before: Hole | None = None
        for part in node.parts:
            if isinstance(part, str):
                yield node, part, before
            before = part if isinstance(part, Hole) and part.is_open else None
            if isinstance(part, Hole) and not isinstance(part.expression, Variable):
                yield from _texts(part.expression)
    else:
        for inner in children(node):
            yield from _texts(inner)
