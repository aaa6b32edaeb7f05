"""Finds fields that there are not in the Python of a COMPUTE, and names in texts that nothing replaces.

In: the source and the shapes of the variables that it reads. Out: CHK120, CHK121 and CHK123. Looked at are
names that the source binds once, to an item of a known value or to a part of one, and keys that it neither
sets nor tests; what is not known, and what the source tells apart itself, is not complained about. CHK034:
names in the texts of a statement that look like references.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from callsheet import lazy
from callsheet.diagnostics import Severity, WordFix
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Bound, Expression, Hole, Index, Text, Variable, children
from callsheet.ir.tree import Act, Compute, Statement, operands
from callsheet.passes.calls import CODE_ARGUMENTS
from callsheet.passes.finding import Suggestion
from callsheet.passes.structured import operations as of
from callsheet.passes.structured.findings import Report, spelled
from callsheet.passes.structured.shapes import ANY, Fields, Shape, Special, families
from callsheet.passes.structured.subexpressions import dated, lacks, not_by_name
from callsheet.passes.structured.typing import Typer
from callsheet.passes.texts import OWN_BRACES


def look_over(typer: Typer, one: Compute) -> Mapping[str, Shape]:
    """Report the fields that the source reads and that there are not.

    Gives the shapes of the records that it takes out of known values, and whose fields it leaves alone.
    """
    try:
        nodes = list(ast.walk(ast.parse(one.source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # compiling it says so
        return {}
    times = Counter(name for node in nodes for name in _names_bound(node))
    given = frozenset(name for name in one.names if not times[name] and name not in one.into)
    for target, source, is_item in (each for node in nodes for each in _bindings(node)):
        path = _path(source, given, typer)
        if path is None or times[target] != 1 or target in one.names:
            continue
        shape = typer.quietly(path)
        if is_item:
            shape = of.items_of(shape.without(Special.NULL)) or ANY
        typer.bound[target] = shape
    own = _own_keys(nodes)
    if own is None:
        return {}
    for name in {name for node in nodes for name in _names_told_apart(node)}:
        given -= {name}
        typer.bound.pop(name, None)
    for node in nodes:
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as name), ctx=ast.Load()) if (
                name not in own
            ):
                path = _path(value, given, typer)
                if path is not None:
                    _check(typer, Index(path, Literal(name)), name)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                for side, other in ((left, right), (right, left)):
                    path, value = _path(side, given, typer), _value(other, given, typer)
                    if path is not None and value is not None:
                        dated(typer, path, path, typer.quietly(value))
            case _:
                pass
    if any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in nodes):
        return {}
    return {name: shape for name, shape in typer.bound.items() if name in one.into and _is_record(shape)}


def _is_record(shape: Shape) -> bool:
    return len(shape.kinds) == 1 and isinstance(shape.kinds[0], Fields)


def _value(node: ast.expr, given: frozenset[str], typer: Typer) -> Expression | None:
    """A text, or a part of a known value."""
    match node:
        case ast.Constant(value=str() as text):
            return Literal(text)
        case _:
            return _path(node, given, typer)


def _check(typer: Typer, node: Index, name: str) -> None:
    target = typer.quietly(node.target).without(Special.NULL)
    lacking = [
        kind
        for kind in target.kinds
        if isinstance(kind, Fields) and not kind.is_open and name not in kind.fields
    ]
    if lacking and len(lacking) == len(target.kinds):
        lacks(typer, node, lacking[0], name)
    elif target.kinds and families(target) <= {of.LIST, of.TUPLE, of.TEXT}:
        not_by_name(typer, node, target, typer.quietly(node.index))


def _own_keys(nodes: Iterable[ast.AST]) -> set[str] | None:
    """The keys that the source sets or tests itself; None if it may set or lack any."""
    keys: set[str] = set()
    for node in nodes:
        match node:
            case ast.Subscript(slice=ast.Constant(value=str() as key), ctx=ast.Store() | ast.Del()):
                keys.add(key)
            case ast.Compare(left=ast.Constant(value=str() as key), ops=[ast.In() | ast.NotIn()]):
                keys.add(key)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str() as key), *_]):
                keys.add(key)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Try() | ast.AugAssign(op=ast.BitOr()):
                return None
            case ast.Attribute(attr="update" | "setdefault"):
                return None
            case _:
                pass
    return keys


def _names_told_apart(node: ast.AST) -> Iterator[str]:
    """The names whose values the source tells apart by what they are: it knows more than the shapes do."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "type" | "hasattr"), args=[value, *_]):
            yield from _names_in(value)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[value]) | ast.Match(subject=value):
            yield from _names_in(value)
        case _:
            pass


def _names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _names_bound(node: ast.AST) -> Iterator[str]:
    """The names that a node gives a value, or further items."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert"):
            yield name
        case _:
            pass


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr, bool]]:
    """The names that a node binds to a part of a value, or with True to each of its items."""
    match node:
        case ast.For(target=ast.Name(id=name), iter=source):
            yield name, source, True
        case ast.comprehension(target=ast.Name(id=name), iter=source):
            yield name, source, True
        case ast.Assign(targets=[ast.Name(id=name)], value=source):
            yield name, source, False
        case _:
            pass


_DEEPEST = 20
"""The most keys of a path that is looked at."""


def _path(node: ast.expr, given: frozenset[str], typer: Typer, most: int = _DEEPEST) -> Expression | None:
    """A variable, or a part of one by literal keys, as an expression of the plan; None for anything else."""
    match node:
        case ast.Name(id=name) if name in given:
            return Variable(name)
        case ast.Name(id=name) if name in typer.bound:
            return Bound(name)
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)) if most:
            target = _path(value, given, typer, most - 1)
            return None if target is None else Index(target, Literal(key))
        case _:
            return None


_BRACES = lazy.pattern(r"(?<![\w$])(\{\{ *|\{)([A-Za-z_]\w*)((?:\.\w+)*)( *\}\}|\})")
_NOT_READ = frozenset({*OWN_BRACES, "query"})
_PATH = lazy.pattern(r"(?:\[(?:\w+|\"[^\"]*\"|'[^']*')\]|\.[A-Za-z_]\w*)+")
_INDEX = lazy.pattern(r"\[(?:(?:\w+|\"[^\"]*\"|'[^']*')\]|\Z)")


def names_left_alone(one: Statement, report: Report, is_known: Callable[[str], bool]) -> None:
    """CHK034 for names in the texts of a statement that look like references and are none."""
    if all(map(_is_plain, operands(one))):  # by far the most frequent case
        return
    for node in _read_by_people(one):
        if _is_plain(node):
            continue
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
                words = (
                    f"write ${{{name[1:]}{index}}} for the part of the value, ${{{name[1:]}}} for the whole"
                )
                help_ = words if index == "[…]" else Suggestion(words, _with_braces(name, text))
                message = f"{name} ends before {after[0][:1]}, which is literal text"
                report.add("CHK034", message, one, span=part.span, help=help_, severity=Severity.WARNING)


def _with_braces(name: str, text: str) -> WordFix:
    """Braces for a reference with the index after it: around the fields behind that, and without them."""
    ends = [found.end() for pattern in (_PATH, _INDEX) if (found := pattern.match(text)) is not None]
    whole = text[: ends[0]]
    meant = dict.fromkeys(f"${{{name[1:]}{text[:end]}}}{whole[end:]}" for end in ends)
    return WordFix(f"{name}{whole}", tuple(meant))


def _read_by_people(one: Statement) -> Sequence[Expression]:
    """The expressions of a statement that may have texts, without code and queries."""
    if not isinstance(one, Act):
        return [value for value in operands(one) if not isinstance(value, Variable)]
    code = CODE_ARGUMENTS.get(one.tool)
    named = [(name.lower(), value) for name, value in one.named if not isinstance(value, Variable)]
    read = [value for name, value in named if name not in _NOT_READ and name != code]
    return [*(one.positional if code is None else one.positional[1:]), *read]


def _is_plain(node: Expression) -> bool:
    """Whether it is certain that no text in an expression looks like a reference, as is usual."""
    if isinstance(node, Literal):
        return not (isinstance(node.value, str) and "{" in node.value)
    if not isinstance(node, Text):
        return isinstance(node, Variable)
    for part in node.parts:
        if isinstance(part, str):
            if "{" in part or part.startswith("["):
                return False
        elif not isinstance(part.expression, Variable):
            return False
    return True


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
