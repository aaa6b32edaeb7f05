"""The comparison that compiling has to beat: a plain Python program over stubs of all tools, run as it is.

The model is asked once, in three sentences, without a grammar, a check or a repair, and its program is run by
Python with a few builtins and modules. What it does in a world is judged as what a plan does.
"""

from __future__ import annotations

import asyncio
import builtins
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Any

from benchmarks.compiling.worlds import Declared, World

from callsheet.authoring.compiler.answers import program_in
from callsheet.ports.models.prompts import Messages
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import Types
from callsheet.views.stubs import function_name, stub_of

_ASKED = """\
You are given a Python module of async functions. Write one more, `async def main():`, which does what the \
user asks by awaiting them, and returns the answer for the user. Answer with `main` alone; the functions \
exist already."""
_MODULES = ("asyncio", "collections", "datetime", "json", "math", "re", "typing")
_HIDDEN = ("open", "input", "exec", "eval", "compile", "breakpoint", "exit", "quit", "__import__")
_LONGEST = 20


def sandbox_question(goal: str, tools: Iterable[ToolSpec]) -> Messages:
    """The conversation that asks for a program: all tools first, the goal last."""
    return [
        {"role": "system", "content": f"{_ASKED}\n\n```python\n{_module(tools)}\n```"},
        {"role": "user", "content": goal},
    ]


def _module(tools: Iterable[ToolSpec]) -> str:
    """The tools as a module of typed functions with docstrings, the records of their results first."""
    types = Types()
    functions = [
        f'{stub_of(one.name, one, types).head}:\n    """{one.description}"""\n    ...' for one in tools
    ]
    records = ["\n".join(one.lines(tuple(types.records))) for one in types.records.values()]
    return "\n\n".join((*records, *functions))


async def run_in_sandbox(answer: str, world: World) -> str:
    """What the program in an answer returns after it ran in a world, as text; raises what it raises."""
    names: dict[str, Any] = {function_name(tool.name): _function(tool, world) for tool in world.tools}
    allowed = {name: each for name, each in vars(builtins).items() if name not in _HIDDEN}
    names["__builtins__"] = {**allowed, "__import__": _imported}
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_LONGEST)
    try:
        exec(compile(program_in(answer), "<answer>", "exec"), names)  # the program of the model, as it is
        return str(await names["main"]())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _function(tool: Declared, world: World) -> Any:
    order = list(tool.parameters.get("properties", {}))

    async def call(*positional: Any, **named: Any) -> Any:
        await asyncio.sleep(0)
        if len(positional) > len(order) or named.keys() & set(order[: len(positional)]):
            raise TypeError(f"{function_name(tool.name)}() takes each of {', '.join(order)} once")
        return world.call(tool, {**dict(zip(order, positional, strict=False)), **named})

    return call


def _imported(name: str, *rest: Any) -> Any:
    if name.partition(".")[0] not in _MODULES:
        raise ImportError(f"{name} is not in the sandbox")
    return builtins.__import__(name, *rest)


def _too_long(_: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"the program still runs after {_LONGEST} seconds")
