"""`except*` as `except`: the errors of a group are told apart by their classes, one handler after another.

In: the tree of a file, which is changed in place. An error that is no group is one of itself; what no handler
takes is raised again, together with what the handlers themselves raise. A group inside of a group raises
NotImplementedError.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python.inlining import Fresh, blocks_in
from callsheet.frontends.python.source import walk

_NESTED: Final = "except* does not look into a group of errors inside of a group: "
_HINT: Final = "write except ExceptionGroup as group, and go through group.exceptions"


def group_handlers_as_plain(nodes: Sequence[ast.AST]) -> bool:
    """Write each `except*` of a file as `except`; whether there was any.

    >>> module = ast.parse('''try:
    ...     await work()
    ... except* ValueError as group:
    ...     await post(len(group.exceptions))''')
    >>> group_handlers_as_plain(list(ast.walk(module)))
    True
    >>> print(ast.unparse(module.body[0]).replace(_HINT, "…"))
    try:
        await work()
    except Exception as error_at_1:
        text_at_1 = str(error_at_1).rpartition(' (')[0] if isinstance(error_at_1, ExceptionGroup) else ''
        rest_at_1 = list(error_at_1.exceptions) if isinstance(error_at_1, ExceptionGroup) else [error_at_1]
        if [one for one in rest_at_1 if isinstance(one, ExceptionGroup)]:
            raise NotImplementedError('except* does not look into a group of errors inside of a group: …')
        some_at_1 = [one for one in rest_at_1 if isinstance(one, ValueError)]
        rest_at_1 = [one for one in rest_at_1 if not isinstance(one, ValueError)]
        if some_at_1:
            try:
                raise ExceptionGroup(text_at_1, some_at_1)
            except ExceptionGroup as group:
                await post(len(group.exceptions))
        if rest_at_1:
            raise ExceptionGroup(text_at_1, rest_at_1)
    """
    blocks = [
        block for one in nodes if isinstance(one, (ast.stmt, ast.Module)) for block in blocks_in(_stmt(one))
    ]
    found = [one for one in nodes if isinstance(one, ast.TryStar)]
    if not found:
        return False
    fresh = Fresh(nodes)
    for one in found:
        made = _plain(one, fresh)
        for block in [*blocks, *(each for other in found for each in blocks_in(other))]:
            for number, each in enumerate(block):
                if each is one:
                    block[number] = made
    return True


def _stmt(one: ast.AST) -> ast.stmt:
    return cast("ast.stmt", one)


def _plain(node: ast.TryStar, fresh: Fresh) -> ast.Try:
    error, text, rest = fresh("error"), fresh("text"), fresh("rest")
    lines = [
        f"{text} = str({error}).rpartition(' (')[0] if isinstance({error}, ExceptionGroup) else ''",
        f"{rest} = list({error}.exceptions) if isinstance({error}, ExceptionGroup) else [{error}]",
        f"if [one for one in {rest} if isinstance(one, ExceptionGroup)]:",
        f"    raise NotImplementedError({_NESTED + _HINT!r})",
    ]
    bodies: list[tuple[list[ast.stmt], bool]] = []
    raises = any(
        isinstance(one, ast.Raise) for each in node.handlers for part in each.body for one in walk(part)
    )
    raised = fresh("raised") if raises else ""
    if raises:
        lines.append(f"{raised} = []")
    for each in node.handlers:
        kind, some = ast.unparse(each.type or ast.Name("Exception", ast.Load())), fresh("some")
        name = f" as {each.name}" if each.name else ""
        lines += [
            f"{some} = [one for one in {rest} if isinstance(one, {kind})]",
            f"{rest} = [one for one in {rest} if not isinstance(one, {kind})]",
            f"if {some}:",
        ]
        inner = [
            "try:",
            f"    raise ExceptionGroup({text}, {some})",
            f"except ExceptionGroup{name}:",
            "    pass",
        ]
        if raises:
            again = fresh("again")
            inner = ["try:", *(f"    {one}" for one in inner), f"except Exception as {again}:"]
            inner += [f"    {raised}.append({again})"]
        lines += [f"    {one}" for one in inner]
        bodies.append((each.body, raises))
    if raises:
        lines += [f"if {raised}:", f"    raise ExceptionGroup('', {raised} + {rest})"]
    lines += [f"if {rest}:", f"    raise ExceptionGroup({text}, {rest})"]
    made = ast.parse("\n".join(lines)).body
    for one in made:
        for each in ast.walk(one):
            ast.copy_location(each, node.handlers[0])
    tests = [one for one in made if isinstance(one, ast.If) and isinstance(one.body[0], ast.Try)]
    for test, (body, is_guarded) in zip(tests, bodies, strict=True):
        held = cast("ast.Try", test.body[0])
        if is_guarded:
            held = cast("ast.Try", held.body[0])
        held.handlers[0].body = body
    kind_of_all = ast.copy_location(ast.Name("Exception", ast.Load()), node.handlers[0])
    handler = ast.copy_location(ast.ExceptHandler(kind_of_all, error, made), node.handlers[0])
    return ast.copy_location(ast.Try(node.body, [handler], node.orelse, node.finalbody), node)
