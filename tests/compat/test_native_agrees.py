"""The documented API and the library run a plan alike: the same calls, arguments, variables and answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from zlib import crc32

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.compat.worlds import plan_of
from tests.plans import plan_texts

from callsheet import Limits, Runtime, tool
from callsheet.compat import LTPRuntime
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro
from callsheet.ir import JSON, Goto, Plan
from callsheet.passes import check

_ABSENT = "(absent)"
_VALUES: tuple[JSON, ...] = (
    "", "1", 2, 2.5, None, True, "text $a ${b.0}", [1, "2", [3]], [], {"k": "v", "0": [4]}, '["x", "y"]',
)  # fmt: skip
_sleep = asyncio.sleep
Call = tuple[str, str]


async def _at_once(seconds: float = 0, result: Any = None) -> Any:
    await _sleep(0)
    return result


class World:
    """Answers each call by its arguments and by how often it was made, and records it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.calls: Counter[Call] = Counter()

    def answer(self, name: str, args: dict[str, Any]) -> JSON:
        call = (name, json.dumps(args, sort_keys=True))
        self.calls[call] += 1
        dice = crc32(f"{self._seed}:{call}:{self.calls[call]}".encode())
        if dice % 5 == 0:
            raise ValueError(f"no {dice % 7}")
        return _VALUES[dice // 16 % len(_VALUES)]


def by_documented_api(text: str, seed: int) -> tuple[Any, ...]:
    world = World(seed)

    async def call(name: str, args: dict[str, Any], namespace: str) -> Any:
        return {"success": True, "output": world.answer(name, args)}

    async def model(messages: list[dict[str, str]]) -> str:
        raise AssertionError(messages)

    result = asyncio.run(LTPRuntime().execute(plan_of(text), call, model))
    return world.calls, dict(result["variables"]), result["response"], result["terminated"], result["status"]


def by_library(text: str, seed: int) -> tuple[Any, ...]:
    world = World(seed)

    def tool_called(name: str) -> Callable[..., Any]:
        async def called(arg0: Any = _ABSENT, arg1: Any = _ABSENT, x: Any = _ABSENT) -> Any:
            """Answers, in the order of the calls: threads would count equal ones in any."""
            args = {"arg0": arg0, "arg1": arg1, "x": x}
            return world.answer(name, {key: value for key, value in args.items() if value != _ABSENT})

        called.__name__ = name
        return tool(effect="unsafe")(called)

    tools = [tool_called(name) for name in ("read", "keep", "write", "faulty")]
    result = Runtime(tools, limits=Limits(max_repeats=None)).run_sync(text)
    return world.calls, result.variables, result.response, result.terminated, str(result.status)


def runs_here(plan: Plan) -> bool:
    """Whether the library runs a plan: it has no error, and no jump back, which the two limit differently."""
    if any(finding.is_error for finding in check(plan)):
        return False
    numbers = {step.id: number for number, step in enumerate(plan.steps)}
    for number, step in enumerate(plan.steps):
        jumps = [step.action, *([step.on_fail.then] if step.on_fail is not None else [])]
        if any(isinstance(jump, Goto) and numbers[jump.target] <= number for jump in jumps):
            return False
    return True


@given(plan_texts().filter(lambda text: "RE-PLAN" not in text and "LLM_" not in text), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_plan_runs_alike_in_documented_api_and_library_and_in_each_text(text: str, seed: int) -> None:
    plan = parse(text).require()
    assume(runs_here(plan))
    with patch.object(asyncio, "sleep", _at_once):
        expected = by_library(text, seed)
        assert by_documented_api(text, seed) == expected
        assert by_library(format_plan(plan), seed) == expected
        assert by_library(format_micro(plan), seed) == expected
