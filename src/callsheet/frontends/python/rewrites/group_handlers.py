"""`except*` as `except`: the errors of a group are told apart by their classes, one handler after another.

In: the tree of a file, which is changed in place. An error that is no group is one of itself. What no handler
takes is raised again, with what `raise` gives back in the place that it had, and together with what the
handlers themselves raise. Of a group inside of a group each handler gets a group of its part; a third one
inside of that raises NotImplementedError.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from callsheet.frontends.python.error_values import GROUP, marked_group
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.source import SCOPES, Nodes, Refused, dotted, leaves, own_nodes, walk
from callsheet.frontends.python.syntax import parsed_lines

_NESTED: Final = "except* looks into groups inside of a group, and no deeper: "
_HINT: Final = "write except ExceptionGroup as group, and go through group.exceptions"
_PLAIN_CALLS: Final = frozenset(
    {"str", "repr", "len", "print", "isinstance", "type", "append", "extend", "add"}
)
"""Functions and methods that do not fail for what handlers give them."""
_FALLIBLE: Final = (
    *(ast.Raise, ast.Assert, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Subscript, ast.BinOp),
    *(ast.AugAssign, ast.Import, ast.ImportFrom),
)
_Test = Callable[[str], str]
"""What gives the text of a test of a variable."""


def group_handlers_as_plain(nodes: Nodes) -> bool:
    """Write each `except*` of a file as `except`; whether there was any.

    Raises Refused (PYT001, PYT021) for one that leaves its handler, or raises again inside of another `try`.

    >>> module = ast.parse('''try:
    ...     await work()
    ... except* ValueError as group:
    ...     print(len(group.exceptions))''')
    >>> group_handlers_as_plain(Nodes(module))
    True
    >>> print(ast.unparse(module.body[0]).replace(_HINT, "…"))
    try:
        await work()
    except Exception as error_at_1:
        text_at_1 = str(error_at_1).rpartition(' (')[0] if isinstance(error_at_1, ExceptionGroup) else ''
        errors_at_1 = list(error_at_1.exceptions) if isinstance(error_at_1, ExceptionGroup) else [error_at_1]
        if [one for one in errors_at_1 if isinstance(one, ExceptionGroup)]:
            raise NotImplementedError('except* looks into groups inside of a group, and no deeper: …')
        taken_at_1 = [one for one in errors_at_1 if isinstance(one, ValueError)]
        if taken_at_1:
            try:
                raise ExceptionGroup(text_at_1, taken_at_1)
            except ExceptionGroup as group:
                print(len(group.exceptions))
        left_at_1 = [one for one in errors_at_1 if not isinstance(one, ValueError)]
        if left_at_1:
            if not taken_at_1:
                raise
            raise ExceptionGroup(text_at_1, left_at_1)
    """
    found = {id(one) for one in nodes.of(ast.TryStar)}
    blocks = [block for one in nodes if hasattr(one, "body") for block in blocks_in(cast("ast.stmt", one))]
    fresh, is_nested = Fresh(nodes), _has_groups_in_groups(nodes)
    for block in blocks:
        for number, one in enumerate(block):
            if id(one) in found:
                block[number] = _Handlers(cast("ast.TryStar", one), fresh, is_nested=is_nested).plain()
    return True


def _has_groups_in_groups(nodes: Nodes) -> bool:
    """Whether what fails in a group of tasks may itself be a group, or the program makes groups itself.

    No function is a task of its own groups unless it calls itself.
    """
    functions = nodes.of(ast.AsyncFunctionDef, ast.Module)
    with_groups = [one for one in functions if any(map(_is_task_group, own_nodes(one)))]
    opened = [
        sum(map(_is_task_group, walk(one)))
        for one in nodes.of(ast.AsyncWith)
        if any(_is_task_group(each.context_expr) for each in one.items)
    ]
    names = {(dotted(one) or "").rpartition(".")[2] for one in nodes if isinstance(one, ast.expr)}
    return GROUP in names or len(with_groups) > 1 or any(number > 1 for number in opened)


def _is_task_group(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] == "TaskGroup"


def _is_group(variable: str) -> str:
    return f"isinstance({variable}, {GROUP})"


def _words(error: str) -> str:
    return f"str({error}).rpartition(' (')[0]"


class _Handlers:
    """The handlers of one statement."""

    def __init__(self, node: ast.TryStar, fresh: Fresh, *, is_nested: bool) -> None:
        self.node, self.fresh, self.is_nested = node, fresh, is_nested
        self.text, self.errors = fresh("text"), fresh("errors")
        self.failed = ""

    def plain(self) -> ast.Try:
        """The statement with one handler that does what all of them do."""
        node, error = self.node, self.fresh("error")
        is_group, kind = _is_group(error), ast.Name("Exception", ast.Load())
        deeper = f" and [each for each in one.exceptions if {_is_group('each')}]" if self.is_nested else ""
        made = self._written(
            f"{self.text} = {_words(error)} if {is_group} else ''",
            f"{self.errors} = list({error}.exceptions) if {is_group} else [{error}]",
            f"if [one for one in {self.errors} if {_is_group('one')}{deeper}]:",
            f"    raise NotImplementedError({_NESTED + _HINT!r})",
        )
        if any(map(_may_fail, node.handlers)):
            self.failed = self.fresh("failed")
            made += self._written(f"{self.failed} = []")
        kinds: list[str] = []
        returned: list[str] = []
        all_taken: list[str] = []
        for one in node.handlers:
            kinds.append(ast.unparse(one.type or kind))
            taken, again = self.fresh("taken"), _Again(one, self.fresh)
            made += self._written(f"{taken} = {self._selected(_only(kinds))}")
            returned.append(again.flag)
            all_taken.append(taken)
            if again.flag:
                made += self._written(f"{again.flag} = False")
            test = ast.If(ast.Name(taken, ast.Load()), self._handled(one, taken, again.flag), [])
            made.append(ast.copy_location(ast.fix_missing_locations(ast.copy_location(test, one)), one))
        made += self._end(_left(kinds, returned), all_taken)
        ast.copy_location(kind, node.handlers[0])
        handler = ast.copy_location(ast.ExceptHandler(kind, error, made), node.handlers[0])
        return ast.copy_location(ast.Try(node.body, [handler], node.orelse, node.finalbody), node)

    def _written(self, *lines: str) -> list[ast.stmt]:
        return parsed_lines(lines, self.node.handlers[0])

    def _selected(self, test: _Test, *, has_inner_alone: bool = False) -> str:
        """The errors that meet a test; of groups the parts that meet it, unless they meet it themselves."""
        if not self.is_nested:
            return f"[one for one in {self.errors} if {test('one')}]"
        inner = f"[each for each in one.exceptions if {test('each')}]"
        part, is_group = marked_group(_words("one"), inner), _is_group("one")
        if has_inner_alone:
            made, wanted = f"{part} if {is_group} else one", f"{inner} if {is_group} else {test('one')}"
        else:
            made, wanted = f"one if {test('one')} else {part}", f"{test('one')} or ({is_group} and {inner})"
        return f"[{made} for one in {self.errors} if ({wanted})]"

    def _handled(self, handler: ast.ExceptHandler, taken: str, flag: str) -> list[ast.stmt]:
        """What a handler does with the errors that it takes."""
        body = handler.body
        if handler.name:
            made = self._written(
                "try:",
                f"    raise {GROUP}({self.text}, {taken})",
                f"except {GROUP} as {handler.name}:",
                "    pass",
            )
            cast("ast.Try", made[0]).handlers[0].body, body = body, made
        if not _may_fail(handler):
            return body
        again = self.fresh("again")
        lines = [f"if not {flag}:", f"    {self.failed}.append({again})"]
        kept = lines if flag else [f"{self.failed}.append({again})"]
        made = self._written(
            "try:", "    pass", f"except Exception as {again}:", *(f"    {one}" for one in kept)
        )
        cast("ast.Try", made[0]).body = body
        return made

    def _end(self, is_left: _Test, taken: Sequence[str]) -> list[ast.stmt]:
        """What is raised in the end."""
        left, failed = self.fresh("left"), self.failed
        made = self._written(f"{left} = {self._selected(is_left, has_inner_alone=True)}")
        if failed:
            made += self._written(
                f"if {failed}:",
                f"    if {left}:",
                f"        {failed}.append({marked_group(self.text, left)})",
                f"    if len({failed}) > 1:",
                f"        raise {GROUP}('', {failed})",
                f"    raise {failed}[0]",
            )
        return made + self._written(
            f"if {left}:",
            f"    if {' and '.join(f'not {one}' for one in taken)}:",
            "        raise",
            f"    raise {GROUP}({self.text}, {left})",
        )


def _only(kinds: Sequence[str]) -> _Test:
    """The test whether the last of some handlers takes an error."""
    *before, last = kinds

    def test(one: str) -> str:
        others = (f" and not isinstance({one}, {kind})" for kind in before)
        return f"isinstance({one}, {last})" + "".join(others)

    return test


def _left(kinds: Sequence[str], flags: Sequence[str]) -> _Test:
    """The test whether no handler takes an error, or the one that does gives it back."""

    def test(one: str) -> str:
        made = ""
        for kind, flag in reversed([*zip(kinds, flags, strict=True)]):
            is_of = f"isinstance({one}, {kind})"
            if flag:
                made = f"({flag} if {is_of} else {made or True})"
            else:
                made = f"not {is_of} and {made}" if made else f"not {is_of}"
        return made

    return test


def _may_fail(handler: ast.ExceptHandler) -> bool:
    for one in own_nodes(*handler.body):
        if isinstance(one, _FALLIBLE):
            return True
        if isinstance(one, ast.Call):
            name = one.func.attr if isinstance(one.func, ast.Attribute) else dotted(one.func)
            if name not in _PLAIN_CALLS:
                return True
    return False


class _Again(ast.NodeTransformer):
    """The `raise` of a handler that gives back what it took; `flag` is a variable that tells of it."""

    def __init__(self, handler: ast.ExceptHandler, fresh: Fresh) -> None:
        self.flag, self.fresh = "", fresh
        for one in handler.body:
            if leaves(one):
                raise Refused(
                    "PYT001",
                    one,
                    "this is no Python: break, continue and return cannot appear in an except* block",
                    "set a variable in the handler, and leave after it",
                )
        handler.body = [made for one in handler.body for made in self._several(one)]

    def _several(self, one: ast.stmt) -> Iterator[ast.stmt]:
        made = self.visit(one)
        yield from made if isinstance(made, list) else [cast("ast.stmt", made)]

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """A node of the handler; other functions and handlers inside of it have errors of their own."""
        if type(node) in SCOPES or isinstance(node, (ast.expr, ast.ExceptHandler)):
            return node
        if isinstance(node, ast.Try) and node.handlers:
            before = self.flag
            made = self.generic_visit(node)
            if self.flag != before:
                raise Refused(
                    "PYT021",
                    node,
                    "a raise that gives back the errors of an except* block stands inside of another try",
                    "raise after that try",
                )
            return made
        if isinstance(node, ast.Raise) and node.exc is None:
            self.flag = self.flag or self.fresh("given")
            mark = ast.Assign([ast.Name(self.flag, ast.Store())], ast.Constant(True))
            return [ast.fix_missing_locations(ast.copy_location(mark, node)), node]
        return self.generic_visit(node)
