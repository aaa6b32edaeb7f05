"""Errors that are values of a program: where there are some, and what its own exceptions carry.

An error that is kept in a variable, a list or a tuple is a record of its failure with a mark (`MARK`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from typing import Final

from callsheet.frontends.python import core
from callsheet.frontends.python.exceptions import Exceptions, kind_of
from callsheet.frontends.python.rewrites.first_done import IS_FIRST
from callsheet.frontends.python.source import Nodes, Refused, children, dotted, last_name, own_nodes, walk
from callsheet.frontends.python.syntax import MARK, assigned, marked_failure, name_of, parsed

GROUP: Final = "ExceptionGroup"
CAUSE: Final = "__cause__"
OF_TASKS: Final = "'unhandled errors in a TaskGroup'"
"""The text of the words of a TaskGroup's failure."""
_TASKS: Final = frozenset({"create_task", "ensure_future", "as_completed"})
_ASKS: Final = frozenset({"str", "repr", "type", "isinstance", "print", "note"})
"""Functions that ask something of an error and do not keep it."""
_REPEATABLE: Final = (
    ast.Name, ast.Constant, ast.Subscript, ast.Attribute, ast.Slice, ast.UnaryOp, ast.BinOp, ast.operator,
    ast.unaryop, ast.expr_context,
)  # fmt: skip


def uses_errors(nodes: Nodes, exceptions: Exceptions) -> bool:
    """Whether a program keeps errors as values: results of gather, tasks, caught errors, new ones."""
    raised = {id(one.exc) for one in nodes.of(ast.Raise)}
    return (
        nodes.has("return_exceptions", "ExceptionGroup", "__cause__", *_TASKS)
        or any(
            IS_FIRST in vars(one) or (id(one) not in raised and made_error(one, exceptions))
            for one in nodes.of(ast.Call)
        )
        or any(keeps(each, one.name) for one in nodes.of(ast.ExceptHandler) if one.name for each in one.body)
    )


def keeps(node: ast.AST, name: str) -> bool:
    """Whether a tree uses a caught error as a value."""
    match node:
        case ast.Name(id=known, ctx=ast.Load()):
            return known == name
        case ast.Call(func=func, args=[ast.Name(id=known), *rest]) if known == name:
            function = dotted(func) or ""
            asks = function in _ASKS
            return not asks or any(keeps(one, name) for one in rest if not isinstance(one, ast.Name))
        case ast.Call(func=func) if dotted(func) == "print":
            return any(keeps(one, name) for one in children(node) if not isinstance(one, ast.Name))
        case ast.FormattedValue(value=ast.Name(id=known)) | ast.Attribute(value=ast.Name(id=known)) if (
            known == name
        ):
            return False
        case ast.Raise(exc=exc):
            return exc is not None and not isinstance(exc, ast.Name) and keeps(exc, name)
        case _:
            return any(keeps(one, name) for one in children(node))


def made_error(node: ast.AST | None, exceptions: Exceptions) -> str | None:
    """The class of the exception that a call makes; None for any other call, and for a group.

    >>> made_error(ast.parse("KeyError('k')", mode="eval").body, Exceptions({}))
    'KeyError'
    """
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return name if name != GROUP and exceptions.is_exception(name) else None


def collections_of_errors(function: ast.AST, exceptions: Exceptions) -> set[str]:
    """The variables of a function that collect errors themselves, whose text would be that of records.

    >>> function = ast.parse('''async def f(results):
    ...     failed = [one for one in results if isinstance(one, ValueError)]
    ...     both = await gather(g(), g(), return_exceptions=True)
    ...     try: await g()
    ...     except ValueError as error: seen.append(error)''')
    >>> sorted(collections_of_errors(function, Exceptions({})))
    ['both', 'failed', 'seen']
    """
    nodes = list(walk(function))
    stores = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    caught = {one.name for one in nodes if isinstance(one, ast.ExceptHandler)}

    def is_error(value: ast.expr) -> bool:
        is_caught = isinstance(value, ast.Name) and value.id in caught
        return is_caught or made_error(value, exceptions) is not None

    def asks_for_error(test: ast.expr) -> bool:
        match test:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                return exceptions.is_exception(last_name(kind))
            case _:
                return False

    found: set[str] = set()
    for one in nodes:
        match one:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add"), args=[value]):
                found |= {name} if is_error(value) else set[str]()
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
                found |= {name} if is_error(value) else set[str]()
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.ListComp(
                    elt=ast.Name(id=item), generators=[ast.comprehension(target=target, ifs=ifs)]
                ),
            ) if isinstance(target, ast.Name) and target.id == item:
                found |= {name} if any(map(asks_for_error, ifs)) else set[str]()
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Await(value=ast.Call(keywords=words))):
                gathers = any(word.arg == "return_exceptions" for word in words)
                found |= {name} if gathers and stores[name] == 1 else set[str]()
            case _:
                pass
    return found


def error_fields(nodes: Nodes, exceptions: Exceptions) -> tuple[str, ...]:
    """The fields that the program's own exceptions give themselves, by name."""
    found: dict[str, None] = {}
    for node in nodes.of(ast.ClassDef):
        if node.name in exceptions.own or _is_error(node, exceptions):
            found |= dict.fromkeys(_fields(node))
    if uses_groups(nodes):
        found["exceptions"] = None
    if nodes.has(CAUSE):
        found[CAUSE] = None
    return tuple(found)


def made_of_others(nodes: Nodes, exceptions: Exceptions) -> ast.AST | None:
    """The first that makes an error of several values, or of one that may be no text.

    Of such an error a plan keeps the text alone. A KeyError keeps its key.

    >>> made = "async def f(name: str, n): raise {}"
    >>> for text in ("ValueError(name)", "ValueError(f'{n}')", "ValueError(n)", "ValueError(name, n)"):
    ...     nodes = Nodes(ast.parse(made.format(text)))
    ...     print(text, made_of_others(nodes, Exceptions({})) is None)
    ValueError(name) True
    ValueError(f'{n}') True
    ValueError(n) False
    ValueError(name, n) False
    """
    classes = nodes.of(ast.ClassDef)
    with_init = {
        one.name for one in classes for each in one.body if getattr(each, "name", None) == "__init__"
    }
    texts: Set[str] | None = None
    for one in nodes.of(ast.Call):
        match one:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")):
                given = one.args
            case ast.Call(args=given) if made_error(one, exceptions) not in (None, *with_init, "KeyError"):
                pass
            case _:
                continue
        texts = _texts(nodes) if texts is None else texts
        if len(given) > 1 or not all(_is_text(each, texts) for each in given):
            return one
    return None


_TEXT_METHODS: Final = frozenset(
    {"format", "join", "strip", "lower", "upper", "title", "capitalize", "isoformat", "strftime"}
)


def _texts(nodes: Nodes) -> Set[str]:
    """The names that hold texts wherever a file gives them a value."""
    given: dict[str, list[ast.expr | None]] = {}
    for one in nodes:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                given.setdefault(name, []).append(value)
            case (
                ast.arg(arg=name, annotation=annotation)
                | ast.AnnAssign(target=ast.Name(id=name), annotation=annotation)
            ):
                is_text = annotation is not None and dotted(annotation) == "str"
                given.setdefault(name, []).append(ast.Constant("") if is_text else None)
            case ast.Name(id=name, ctx=ast.Store()):
                given.setdefault(name, [])
            case _:
                pass
    stored = Counter(one.id for one in nodes.of(ast.Name) if isinstance(one.ctx, ast.Store)) + Counter(
        one.arg for one in nodes.of(ast.arg)
    )
    texts: set[str] = set()
    before = -1
    while len(texts) > before:  # of texts others are made, mostly in the order of the file
        before = len(texts)
        for name, values in given.items():
            if len(values) == stored[name] and all(one and _is_text(one, texts) for one in values):
                texts.add(name)
    return texts


def _is_text(node: ast.expr, texts: Container[str]) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr() | ast.Call(func=ast.Name(id="str" | "repr")):
            return True
        case ast.Name(id=name):
            return name in texts
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in _TEXT_METHODS
        case ast.BinOp(left=left, op=ast.Mod()):
            return _is_text(left, texts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_text(left, texts) or _is_text(right, texts)
        case ast.IfExp(body=first, orelse=second):
            return _is_text(first, texts) and _is_text(second, texts)
        case _:
            return False


def has_cause(node: ast.Raise) -> bool:
    """Whether an error is raised from another one."""
    return node.cause is not None and not (isinstance(node.cause, ast.Constant) and node.cause.value is None)


def check_causes(nodes: Nodes) -> None:
    """Raises Refused (PYT021) where a pure function raises an error from another, if causes are asked for."""
    if not nodes.has(CAUSE):
        return
    for function in nodes.of(ast.FunctionDef):
        for one in own_nodes(*function.body):
            if isinstance(one, ast.Raise) and has_cause(one):
                raise Refused(
                    "PYT021",
                    one,
                    f"what {function.name} raises this error from is not known outside of it",
                    f"write async def {function.name}, and await it; or put what the cause says into the"
                    " message",
                )


def raised_with_cause(nodes: Nodes) -> tuple[str, ...]:
    """The kinds that `raise X(…) from error` raises in a program that asks for `__cause__`."""
    if not nodes.has(CAUSE):
        return ()
    raised = [one.exc for one in nodes.of(ast.Raise) if one.cause is not None]
    kept = {one.id for one in raised if isinstance(one, ast.Name)}
    for one in nodes:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if name in kept:
                raised.append(value)
            case _:
                pass
    made = [one.func if isinstance(one, ast.Call) else one for one in raised]
    names = [last_name(one) for one in made if one is not None]
    return tuple(dict.fromkeys(kind_of(one) for one in names if one))


def uses_groups(nodes: Nodes) -> bool:
    """Whether a program names groups of errors, and what is in them."""
    return any(one.attr == "exceptions" for one in nodes.of(ast.Attribute)) and any(
        one.id == GROUP for one in nodes.of(ast.Name)
    )


def group_record(message: str, errors: str) -> str:
    """The text of the record of a group of errors, for those of its words and of a list of errors."""
    count = f"len({errors})"
    words = f"{message} + ' (' + str({count}) + ' sub-exception' + ('' if {count} == 1 else 's') + ')'"
    return f'{{"kind": {GROUP!r}, "message": {words}, "step": "", "fields": {{"exceptions": {errors}}}}}'


def marked_group(message: str, errors: str) -> str:
    """The text of a group of errors that is a value, as `group_record`."""
    return f"{{**{group_record(message, errors)}, {MARK!r}: True}}"


def as_group(node: ast.AST, fresh: Callable[[str], str], own: Sequence[str]) -> core.Caught:
    """The handler of what fails alone in a TaskGroup, which is raised as an ExceptionGroup.

    `own` are the exceptions of the program that carry more than their words.
    """
    binds, record = fresh("error"), fresh("failure")
    held = ast.unparse(marked_failure(binds, node, own))
    value = parsed(group_record(OF_TASKS, f"[{held}]"), node)
    return core.Caught((), binds, [assigned(record, value, node), core.Fail(None, None, node, record)], node)


def _is_error(node: ast.ClassDef, exceptions: Exceptions) -> bool:
    return any(exceptions.is_exception(last_name(base)) for base in node.bases)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.FunctionDef(args=ast.arguments(args=[ast.arg(arg=itself), *_])):
                for each in walk(one):
                    match each:
                        case ast.Attribute(value=ast.Name(id=known), attr=attr, ctx=ast.Store()) if (
                            known == itself
                        ):
                            yield attr
                        case _:
                            pass
            case _:
                pass


def fields_of(held: str, fields: Iterable[str]) -> str:
    """The text of a dict of what an exception in a variable carries.

    >>> fields_of("e", ["code"])
    "{'code': getattr(e, 'code', None)}"
    """
    own = [one for one in fields if one != CAUSE]
    return "{" + ", ".join(f"{one!r}: getattr({held}, {one!r}, None)" for one in own) + "}"


def is_repeatable(node: ast.expr) -> bool:
    """Whether evaluating an expression twice is the same as once."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            if not (isinstance(one.func, ast.Attribute) and one.func.attr in {"get", "result", "exception"}):
                return False
        elif not isinstance(one, _REPEATABLE):
            return False
    return True


def is_marked(value: ast.expr) -> ast.expr:
    """The test whether a value is an error that is kept."""
    is_dict = ast.Call(ast.Name("isinstance", ast.Load()), [value, ast.Name("dict", ast.Load())], [])
    return ast.BoolOp(ast.And(), [is_dict, ast.Compare(ast.Constant(MARK), [ast.In()], [value])])


def classes_as_types(nodes: Nodes) -> bool:
    """Write `x.__class__.__name__` as `type(x).__name__`; whether there was any.

    >>> module = ast.parse("print(error.__cause__.__class__.__name__)")
    >>> classes_as_types(list(ast.walk(module))), ast.unparse(module)
    (True, 'print(type(error.__cause__).__name__)')
    """
    found = False
    for one in nodes:
        match one:
            case ast.Attribute(value=ast.Attribute(value=value, attr="__class__") as kind, attr="__name__"):
                one.value = ast.copy_location(ast.Call(name_of("type", kind), [value], []), kind)
                found = True
            case _:
                pass
    return found
