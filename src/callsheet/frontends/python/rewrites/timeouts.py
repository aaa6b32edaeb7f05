"""The clock of the event loop, and steady ones: the time of the plan, from which deadlines are reckoned."""

from __future__ import annotations

import ast
from typing import Final, cast

from callsheet.frontends.python.rewrites.inlining import Fresh, Replacing
from callsheet.frontends.python.source import Nodes, dotted
from callsheet.frontends.python.syntax import parsed

_STEADY: Final = {"time.monotonic", "time.perf_counter"}
"""Clocks of which only differences mean something."""
_LOOPS: Final = {"asyncio.get_running_loop", "asyncio.get_event_loop"}


def loop_times_as_moments(module: ast.Module, nodes: Nodes) -> bool:
    """Write the clock of the event loop, or a steady one, as the time of the plan; whether there was any.

    >>> module = ast.parse('''import asyncio
    ... async def main():
    ...     loop = asyncio.get_running_loop()
    ...     return loop.time() + 5''')
    >>> loop_times_as_moments(module, Nodes(module))
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
        for one in nodes.of(ast.Assign)
        if isinstance(one.targets[0], ast.Name) and is_event_loop(one.value)
    }
    times = [
        one
        for one in nodes.of(ast.Call)
        if isinstance(one.func, ast.Attribute)
        and one.func.attr == "time"
        and (
            is_event_loop(one.func.value)
            or (isinstance(one.func.value, ast.Name) and one.func.value.id in held)
        )
    ]
    alone = [one for one in nodes if isinstance(one, ast.Call) and dotted(one.func) in _STEADY]
    if not times and not alone:
        return False
    fresh = Fresh(nodes)
    alias = fresh("datetime")
    asked = {id(cast("ast.Attribute", one.func).value) for one in times}
    for one in (*times, *alone):
        moment = parsed(f"{alias}.datetime.now().timestamp()", one)
        one.func = cast("ast.Call", moment).func
    used = {one.id for one in nodes.of(ast.Name) if isinstance(one.ctx, ast.Load) and id(one) not in asked}
    places: dict[int, list[ast.stmt]] = {
        id(one): [ast.copy_location(ast.Pass(), one)] for name, one in held.items() if name not in used
    }
    replacing = Replacing(places)
    for one in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef):
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


def is_event_loop(node: ast.expr) -> bool:
    """Whether an expression gives the event loop."""
    return isinstance(node, ast.Call) and not node.args and dotted(node.func) in _LOOPS
