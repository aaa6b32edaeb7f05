"""Time-outs of a program: timers end in time, and what takes longer fails when it ends.

A deadline is a variable. Inside the limited block each timer is cut to what is left, and after each call the
time is compared. A call is never broken off, since nobody could say then what it has done; the failure comes
when it ends.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.inlining import Fresh, Replacing
from callsheet.frontends.python.source import dotted
from callsheet.frontends.python.syntax import assigned, constant, name_of, parsed
from callsheet.ir.failing import Failing

SECONDS = "seconds_"
"""The parameter of a copy of a function that says how long it may take."""


def limited(block: core.Block, seconds: str, fresh: Callable[[str], str], node: ast.AST) -> core.Block:
    """A block that fails once the seconds in a variable are over."""
    deadline = fresh("deadline")
    start = assigned(deadline, parsed(f"now().timestamp() + {seconds}", node), node)
    return [start, *_within(block, deadline, fresh)]


def _within(block: core.Block, deadline: str, fresh: Callable[[str], str]) -> core.Block:
    made: core.Block = []
    for one in block:
        match one:
            case core.Wait():
                made += _timer(one, deadline, fresh)
                continue
            case core.Choice():
                one.then = _within(one.then, deadline, fresh)
                one.otherwise = _within(one.otherwise, deadline, fresh)
            case core.Loop() if not one.together:
                one.body = _within(one.body, deadline, fresh)
            case core.While():
                one.body = _within(one.body, deadline, fresh)
            case core.Attempt():
                one.body = _within(one.body, deadline, fresh)
                for each in one.handlers:
                    each.body = _within(each.body, deadline, fresh)
            case _:
                pass
        made.append(one)
        if isinstance(one, (core.Call, core.Together)) or (isinstance(one, core.Loop) and one.together):
            made.append(_check(one.node, deadline))
    return made


def _over(node: ast.AST) -> core.Fail:
    return core.Fail(constant("", node), Failing.TIMEOUT.value, node)


def _check(node: ast.AST, deadline: str) -> core.Core:
    return core.Choice(parsed(f"now().timestamp() >= {deadline}", node), [_over(node)], [], node)


def _timer(one: core.Wait, deadline: str, fresh: Callable[[str], str]) -> core.Block:
    left, wanted = fresh("left"), fresh("seconds")
    node = one.node
    rest = core.Wait(parsed(f"max({left}, 0)", node), node)
    return [
        assigned(wanted, one.seconds, node),
        assigned(left, parsed(f"{deadline} - now().timestamp()", node), node),
        core.Choice(
            parsed(f"{wanted} < {left}", node),
            [core.Wait(name_of(wanted, node), node)],
            [rest, _over(node)],
            node,
        ),
    ]


def with_limit(function: ast.AsyncFunctionDef, name: str) -> ast.AsyncFunctionDef:
    """A copy of an async function, under another name, that is told how many seconds it may take."""
    made = copy.deepcopy(function)
    made.name = name
    made.args.kwonlyargs.append(ast.copy_location(ast.arg(SECONDS), function))
    made.args.kw_defaults.append(None)
    call = ast.Call(ast.Name("timeout", ast.Load()), [ast.Name(SECONDS, ast.Load())], [])
    vars(call)["is_timeout"] = True
    made.body = [ast.AsyncWith([ast.withitem(call, None)], made.body)]
    return ast.fix_missing_locations(made)


_LOOPS = {"asyncio.get_running_loop", "asyncio.get_event_loop"}


def loop_times_as_moments(module: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Write the clock of the event loop as the time of the plan; whether there was any.

    >>> module = ast.parse('''import asyncio
    ... async def main():
    ...     loop = asyncio.get_running_loop()
    ...     return loop.time() + 5''')
    >>> loop_times_as_moments(module, list(ast.walk(module)))
    True
    >>> print(ast.unparse(module))
    import datetime as datetime_at_1
    import asyncio
    <BLANKLINE>
    async def main():
        pass
        return datetime_at_1.datetime.now().timestamp() + 5
    """
    held = {
        one.targets[0].id: one
        for one in nodes
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and _is_loop(one.value)
    }
    times = [
        one
        for one in nodes
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "time"
        and (_is_loop(one.func.value) or (isinstance(one.func.value, ast.Name) and one.func.value.id in held))
    ]
    if not times:
        return False
    fresh = Fresh(nodes)
    alias = fresh("datetime")
    asked = {id(cast("ast.Attribute", one.func).value) for one in times}
    for one in times:
        moment = ast.parse(f"{alias}.datetime.now().timestamp()", mode="eval").body
        for each in ast.walk(moment):
            ast.copy_location(each, one)
        one.func = cast("ast.Call", moment).func
    used = {
        one.id
        for one in nodes
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and id(one) not in asked
    }
    places: dict[int, list[ast.stmt]] = {
        id(one): [ast.copy_location(ast.Pass(), one)] for name, one in held.items() if name not in used
    }
    replacing = Replacing(places)
    for one in nodes:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            one.body = replacing.block(one.body)
    made = ast.Import([ast.alias("datetime", alias)])
    module.body.insert(_after_heading(module), ast.copy_location(made, module.body[0]))
    ast.fix_missing_locations(module)
    return True


def _after_heading(module: ast.Module) -> int:
    """The place after the text about the file and its imports from `__future__`."""
    number = int(ast.get_docstring(module, clean=False) is not None)
    while number < len(module.body):
        one = module.body[number]
        if not isinstance(one, ast.ImportFrom) or one.module != "__future__":
            break
        number += 1
    return number


def _is_loop(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and not node.args and dotted(node.func) in _LOOPS
