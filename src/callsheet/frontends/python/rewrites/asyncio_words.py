"""Words of asyncio for what a plan has under other names: threads, held semaphores, limits that ran out.

In: the tree of a file, which is changed in place. A function that runs in a thread is called where it is
awaited, as nothing in it can be seen before its end; a semaphore or a queue has an assignment of its own;
`acquire` with a `release` in `finally` is `async with`; whether a time limit ran out is a variable, which is
true if the block ended with a TimeoutError that did not come from inside it.
"""

from __future__ import annotations

import ast
from typing import cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of, rewrite_blocks
from callsheet.frontends.python.rewrites.parameters import SEMAPHORES, makes_semaphore
from callsheet.frontends.python.rewrites.queue_users import QUEUES, is_queue
from callsheet.frontends.python.rewrites.timeouts import is_event_loop
from callsheet.frontends.python.source import Nodes, among, dotted, is_named, names_read, walk
from callsheet.frontends.python.syntax import parsed_lines, placed


def asyncio_words_as_plain(module: ast.Module, nodes: Nodes) -> bool:
    """Write these words as plain Python; whether there were any.

    >>> module = ast.parse('''async def main(rows):
    ...     await limit.acquire()
    ...     try:
    ...         return await asyncio.to_thread(total, rows)
    ...     finally:
    ...         limit.release()''')
    >>> asyncio_words_as_plain(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main(rows):
        async with limit:
            return total(rows)
    """
    words = {one.attr for one in nodes.of(ast.Attribute)}
    found = nodes.has(*SEMAPHORES, *QUEUES) and rewrite_blocks(blocks_of(nodes), _taken_apart)
    if words & {"to_thread", "run_in_executor"}:
        threads = _Threads()
        threads.visit(module)
        found = threads.found or found
        if threads.found:
            _drop_loops(module)
    if {"acquire", "release"} <= words:
        found = _held(nodes) or found
    if "expired" in words:
        found = _limits(nodes) or found
    return found


def _taken_apart(one: ast.stmt) -> list[ast.stmt] | None:
    """`limit, rows = asyncio.Semaphore(5), []` as two assignments."""
    match one:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if (
            len(names) == len(values)
            and all(isinstance(each, (ast.Name, ast.Attribute)) for each in names)
            and any(map(_is_made_alone, values))
            and not {each.id for name in names for each in among(walk(name), ast.Name)} & names_read(*values)
        ):
            return [placed(ast.Assign([a], b), one) for a, b in zip(names, values, strict=True)]
        case _:
            return None


def _is_made_alone(value: ast.expr) -> bool:
    """Whether a value is one that has to have an assignment of its own."""
    return makes_semaphore(value) or (isinstance(value, ast.Call) and is_queue(value.func))


def _in_thread(node: ast.expr) -> ast.Call | None:
    """The call that a thread makes, but for remarks, which a thread would make at any time."""
    if isinstance(node, ast.Call) and any(dotted(one) == "print" for one in node.args):
        return None
    match node:
        case ast.Call(func=func, args=[function, *args]) if dotted(func) == "asyncio.to_thread":
            return ast.copy_location(ast.Call(function, args, node.keywords), node)
        case ast.Call(func=ast.Attribute(attr="run_in_executor"), args=[_, function, *args]):
            return ast.copy_location(ast.Call(function, args, node.keywords), node)
        case _:
            return None


class _Threads(ast.NodeTransformer):
    found = False

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """An await of a thread, or of several."""
        self.generic_visit(node)
        call = _in_thread(node.value)
        if call is not None:
            self.found = True
            return call
        waited = node.value
        if not (
            isinstance(waited, ast.Call) and dotted(waited.func) == "asyncio.gather" and not waited.keywords
        ):
            return node
        parts: list[ast.expr] = []
        for one in waited.args:
            many = one.value if isinstance(one, ast.Starred) else None
            if (
                isinstance(many, (ast.ListComp, ast.GeneratorExp))
                and (made := _in_thread(many.elt)) is not None
            ):
                inner = ast.copy_location(ast.ListComp(made, many.generators), many)
                parts.append(ast.copy_location(ast.Starred(inner, ast.Load()), one))
            elif (made := _in_thread(one)) is not None:
                parts.append(made)
            else:
                return node
        self.found = True
        if len(parts) == 1 and isinstance(parts[0], ast.Starred):
            return parts[0].value
        return placed(ast.List(parts, ast.Load()), node)


def _drop_loops(module: ast.Module) -> None:
    """Leave out the variables for the event loop that nothing reads any more."""
    read = {one.id for one in among(walk(module), ast.Name) if isinstance(one.ctx, ast.Load)}

    def dropped(one: ast.stmt) -> list[ast.stmt] | None:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in read and is_event_loop(
                value
            ):
                return [placed(ast.Pass(), one)]
            case _:
                return None

    rewrite_blocks(blocks_of(walk(module)), dropped)


def _held(nodes: Nodes) -> bool:
    """Write `await x.acquire()` before `try: … finally: x.release()` as a block; whether there was any."""
    found = False
    for block in reversed(blocks_of(nodes)):  # the inner first
        for number in reversed(range(len(block) - 1)):
            match block[number : number + 2]:
                case [
                    ast.Expr(
                        value=ast.Await(
                            value=ast.Call(func=ast.Attribute(value=held, attr="acquire"), args=[])
                        )
                    ),
                    ast.Try(
                        body=body,
                        finalbody=[
                            *rest,
                            ast.Expr(value=ast.Call(func=ast.Attribute(value=let, attr="release"), args=[])),
                        ],
                    ) as attempt,
                ] if ast.dump(held) == ast.dump(let):
                    if attempt.handlers or attempt.orelse or rest:
                        attempt.finalbody = rest
                        body = [attempt]
                    inner: list[ast.stmt] = [*body]
                    made = placed(ast.AsyncWith([ast.withitem(held, None)], inner), block[number])
                    block[number : number + 2] = [made]
                    found = True
                case _:
                    pass
    return found


def _limits(nodes: Nodes) -> bool:
    """Let a variable say whether a time limit ran out, if nothing else is asked; whether there was any."""
    fresh, found = Fresh(nodes), False
    for function in nodes.of(ast.AsyncFunctionDef):
        inner_first = reversed(blocks_of(walk(function)))
        found |= rewrite_blocks(inner_first, lambda one, around=function: _limit(one, around, fresh))
    return found


def _limit(one: ast.stmt, function: ast.AsyncFunctionDef, fresh: Fresh) -> list[ast.stmt] | None:
    match one:
        case ast.AsyncWith(
            items=[ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name(id=name)) as item]
        ) if (dotted(func) or "") in {"asyncio.timeout", "asyncio.timeout_at"}:
            pass
        case _:
            return None
    asked = [
        each
        for each in among(walk(function), ast.Call)
        if isinstance(each.func, ast.Attribute)
        and each.func.attr == "expired"
        and is_named(each.func.value, name)
    ]
    uses = sum(is_named(each, name) for each in walk(function))
    if not asked or uses != len(asked) + 1:
        return None
    flag, inside = fresh("expired"), {id(each) for part in one.body for each in walk(part)}
    for each in asked:
        _become(each, ast.Constant(False) if id(each) in inside else ast.Name(flag, ast.Load()))
    item.optional_vars = None
    begin, attempt, late = parsed_lines(
        [
            f"{flag} = False",
            "try:",
            "    pass",
            "except TimeoutError:",
            f"    {flag} = None",
            "    raise",
            "try:",
            "    pass",
            "except TimeoutError:",
            f"    {flag} = {flag} is not None",
            "    raise",
        ],
        one,
    )
    cast("ast.Try", attempt).body, one.body = one.body, [attempt]
    cast("ast.Try", late).body = [one]
    return [begin, late]


def _become(call: ast.Call, answer: ast.expr) -> None:
    """Let a question be what answers it, in the place of the call."""
    call.func = ast.copy_location(ast.Name("bool", ast.Load()), call)
    call.args = [ast.copy_location(answer, call)]
