"""`except*` as `except`: the errors of a group are told apart by their classes, one handler after another.

In: the tree of a file, which is changed in place. An error that is no group is one of itself; what no handler
takes is raised again, together with what the handlers themselves raise. Of a group inside of a group each
handler gets a group of its part; a third one inside of that raises NotImplementedError.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python.error_values import marked_group
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.source import dotted, walk

_NESTED: Final = "except* looks into groups inside of a group, and no deeper: "
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
            raise NotImplementedError('except* looks into groups inside of a group, and no deeper: …')
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
    groups = [(dotted(one) or "").rpartition(".")[2] for one in nodes if isinstance(one, ast.expr)]
    is_nested = groups.count("TaskGroup") > 1 or "ExceptionGroup" in groups
    for one in found:
        made = _plain(one, fresh, is_nested=is_nested)
        for block in [*blocks, *(each for other in found for each in blocks_in(other))]:
            for number, each in enumerate(block):
                if each is one:
                    block[number] = made
    return True


def _stmt(one: ast.AST) -> ast.stmt:
    return cast("ast.stmt", one)


def _words(error: str) -> str:
    return f"str({error}).rpartition(' (')[0]"


def _parts(rest: str, kind: str, *, is_taken: bool) -> str:
    """The errors that a handler takes, or those that it leaves; of groups among them their parts."""
    word = "" if is_taken else "not "
    inner = f"[each for each in one.exceptions if {word}isinstance(each, {kind})]"
    is_group, part = "isinstance(one, ExceptionGroup)", marked_group(_words("one"), inner)
    if is_taken:
        made = f"one if isinstance(one, {kind}) else {part}"
        return f"[{made} for one in {rest} if isinstance(one, {kind}) or ({is_group} and {inner})]"
    made = f"{part} if {is_group} else one"
    test = f"not isinstance(one, {kind}) and (not {is_group} or {inner})"
    return f"[{made} for one in {rest} if {test}]"


def _plain(node: ast.TryStar, fresh: Fresh, *, is_nested: bool) -> ast.Try:
    error, text, rest = fresh("error"), fresh("text"), fresh("rest")
    inner_groups = "[each for each in one.exceptions if isinstance(each, ExceptionGroup)]"
    deeper = f" and {inner_groups}" if is_nested else ""
    lines = [
        f"{text} = {_words(error)} if isinstance({error}, ExceptionGroup) else ''",
        f"{rest} = list({error}.exceptions) if isinstance({error}, ExceptionGroup) else [{error}]",
        f"if [one for one in {rest} if isinstance(one, ExceptionGroup){deeper}]:",
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
        taken = f"[one for one in {rest} if isinstance(one, {kind})]"
        left = f"[one for one in {rest} if not isinstance(one, {kind})]"
        if is_nested:
            taken, left = _parts(rest, kind, is_taken=True), _parts(rest, kind, is_taken=False)
        lines += [f"{some} = {taken}", f"{rest} = {left}", f"if {some}:"]
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
