"""A small world of tools, and programs run in it by CPython and by the reference interpreter."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import sys
import types
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, cast

from tests.reference_interpreter import Failed, Interpreter, Record

from benchmarks import python_programs
from callsheet.diagnostics import render_all
from callsheet.frontends.python import Signature, read_python
from callsheet.frontends.values.reader import ParseResult

_BUILT_IN_KINDS = {"TYPE": "TypeError", "VALUE": "ValueError", "KEY": "KeyError", "INDEX": "IndexError",
                   "ATTRIBUTE": "AttributeError", "ZERO": "ZeroDivisionError", "OVERFLOW": "OverflowError",
                   "TOOL": "ToolError", "REQUIRE": "AssertionError", "TIMEOUT": "TimeoutError"}  # fmt: skip


class ToolError(Exception):
    """What a tool raises."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    at = 0.0

    def time(self) -> float:
        return self.at

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.at = max(self.at, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class World:
    """Tools over a store in memory; `calls` is what was called, in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.store: dict[str, Any] = {}
        self.polls: dict[str, int] = {}

    def list_items(self, kind: str = "a", limit: int = 4) -> Any:
        """Records: id, name, tags, price, owner."""
        return [
            {"id": n, "name": f"{kind}{n}", "tags": ["x", "y"][: n % 3], "price": n * 1.5,
             "owner": None if n % 3 == 2 else {"mail": f"u{n}@x.org"}, "state": "open" if n % 2 else 1}
            for n in range(1, limit + 1)
        ]  # fmt: skip

    def page(self, number: int, size: int = 2) -> Any:
        """A page of numbers, and the next page's number."""
        rows = list(range((number - 1) * size, min(number * size, 7)))
        return {"rows": rows, "next": number + 1 if number * size < 7 else None}

    def get(self, key: str) -> Any:
        """What is stored."""
        if key not in self.store:
            raise ToolError(f"no {key}")
        return self.store[key]

    def put(self, key: str, value: Any) -> Any:
        """Store a value."""
        if key == "forbidden":
            raise ToolError("forbidden: not yours")
        self.store[key] = value
        return {"key": key, "old": None}

    def score(self, n: int) -> Any:
        """A number of a number; some fail."""
        if n in (3, 13):
            raise ToolError(f"no score of {n}")
        return n * n

    def poll(self, job: str) -> Any:
        """The state of a job: done at the third time."""
        seen = self.polls[job] = self.polls.get(job, 0) + 1
        return {"state": "done" if seen >= 3 else "running", "seen": seen}

    def word(self, text: str, times: int = 1) -> Any:
        """A text."""
        return text.upper() * times

    def note_it(self, text: str) -> Any:
        """Write a line."""
        return None

    def call(self, name: str, named: Mapping[str, Any]) -> Any:
        """Call a tool, and record it."""
        given = json.loads(json.dumps(dict(named)))
        entry = [name, given]
        self.calls.append(entry)
        try:
            return copy.deepcopy(getattr(self, name)(**given))
        except ToolError:
            entry.append("failed")
            raise


NAMES = ("list_items", "page", "get", "put", "score", "poll", "word", "note_it")
SIGNATURES = {
    "list_items": Signature(("kind", "limit")),
    "page": Signature(("number", "size"), frozenset({"number"})),
    "get": Signature(("key",), frozenset({"key"})),
    "put": Signature(("key", "value"), frozenset({"key", "value"})),
    "score": Signature(("n",), frozenset({"n"})),
    "poll": Signature(("job",), frozenset({"job"})),
    "word": Signature(("text", "times"), frozenset({"text"})),
    "note_it": Signature(("text",), frozenset({"text"})),
}


def wrapped(value: Any) -> Any:
    """JSON data, with fields as attributes too."""
    if isinstance(value, dict):
        return Record({key: wrapped(one) for key, one in cast("dict[str, Any]", value).items()})
    return [wrapped(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """A value as comparable data, with the types of numbers."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, cast("set[Any]", value)))
    return repr(value) if isinstance(value, float) else value


async def _bound(world: World, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    parameters = SIGNATURES[name].parameters
    given = dict(zip(parameters, args, strict=False)) | named
    await asyncio.sleep(0)
    result = world.call(name, given)
    await asyncio.sleep(0.001)
    return result


def cpython(source: str, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """What CPython does with a program: how it ends, and the calls."""
    world, loop = World(), VirtualLoop()
    module = types.ModuleType("program")
    module.__dict__["ToolError"] = ToolError

    def tool(name: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            return wrapped(await _bound(world, name, args, named))

        return call

    module.__dict__.update({name: tool(name) for name in NAMES})
    sys.modules["program"] = module
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
        ended: Any = ("returned", plain(loop.run_until_complete(module.main(**inputs))))
    except Exception as error:
        ended = ("raised", type(error).__name__, str(error) if isinstance(error, ToolError) else "")
    finally:
        del sys.modules["program"]
        loop.close()
    return ended, world.calls


@cache
def read(source: str) -> ParseResult:
    """A program as the compiler reads it; several tests ask something of each program."""
    return read_python(source, "program.py", tools=SIGNATURES)


def interpreted(source: str, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the plan of a program does; ("refused", text) if there is none."""
    result = read(source)
    if result.plan is None:
        return ("refused", render_all(result.diagnostics, result.source)), []
    world, loop = World(), VirtualLoop()

    def tool(name: str) -> Any:
        async def call(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            try:
                return await _bound(world, name, args, named)
            except ToolError as error:
                raise Failed("TOOL", str(error)) from None

        return call

    modules = {"program": types.ModuleType("program")}
    plan = Interpreter(result.plan, {name.upper(): tool(name) for name in NAMES}, modules=modules)
    try:
        ended: Any = ("returned", plain(loop.run_until_complete(plan.run(inputs))))
    except Failed as failure:
        name = _BUILT_IN_KINDS.get(failure.kind, failure.kind)
        ended = ("raised", name, failure.message if name == "ToolError" else "")
    finally:
        loop.close()
    return ended, world.calls


def on_machine(source: str) -> tuple[Any, Any]:
    """What the machine does with the plan of a program, its pure code run by the interpreter of the extra."""
    world, loop = World(), VirtualLoop()

    def tool(name: str) -> Any:
        async def call(**named: Any) -> Any:
            return await _bound(world, name, (), named)

        known = SIGNATURES[name]
        parameters = [
            inspect.Parameter(
                one,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if one in known.required else None,
            )
            for one in known.parameters
        ]
        vars(call)["__signature__"] = inspect.Signature(parameters)
        return call

    tools = {name: tool(name) for name in NAMES}
    try:
        got = loop.run_until_complete(python_programs.run(source, tools, {}, datetime(2026, 3, 2)))
    finally:
        loop.close()
    return (got["status"], plain(got.get("return", got.get("error")))), world.calls
