"""The area `ltp`: runs one case against a module with the documented API.

In: a case and the module. Out: its differences, one text each; none means that it passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

from tests.conformance import plans, runs, static
from tests.conformance.findings import difference, parts_differences, shown
from tests.conformance.form import Case
from tests.conformance.pace import OutOfTime, time_limit
from tests.conformance.world import TooManyCalls, World, conversation, scripted_error

_KNOWN = {
    "parse": plans.EXPECTATIONS,
    **static.EXPECTATIONS,
    "run": runs.EXPECTATIONS | static.COMMON,
    "micro": plans.EXPECTATIONS | runs.EXPECTATIONS | {"prompt_contains"},
}


Pace: TypeAlias = "Callable[[Case, World], AbstractContextManager[None]]"
"""Bounds the time of a case, and notes its waits."""


@contextmanager
def quick(case: Case, world: World) -> Generator[None]:
    """The pace of cases on this machine: waits take no time."""
    with time_limit(case.timeout), patch.object(asyncio, "sleep", world.quick_sleep):
        yield


def differences(case: Case, product: Any, pace: Pace = quick) -> list[str]:
    """The unmet expectations of a case; an empty list if it is met."""
    unknown = sorted(case.expect.keys() - _KNOWN[case.kind])
    if unknown:
        return [f"the expectation {key!r} is unknown for kind {case.kind}" for key in unknown]
    world = World.of(case)
    try:
        with pace(case, world):
            return _CHECKS[case.kind](case, world, product)
    except OutOfTime:
        return [f"it did not end within {case.timeout:g} s"]
    except TooManyCalls:
        return [f"it made more than {case.call_limit} calls"]
    except Exception as error:
        if case.expect.get("may_raise"):
            return []
        return [f"{type(error).__name__} was raised: {shown(str(error))}"]


def _parse(case: Case, world: World, product: Any) -> list[str]:
    return plans.plan_differences(product.LTPParser.parse(case.plan), case.expect, product)


def _with_plan(check: Callable[[Any, Case, World, Any], list[str]]) -> _Check:
    """A check of a plan that must parse first."""

    def of_case(case: Case, world: World, product: Any) -> list[str]:
        plan = product.LTPParser.parse(case.plan)
        if plan is None:
            return [] if case.expect.get("may_be_none") else [difference("plan", "a plan", None)]
        out: list[str] = []
        wanted = case.expect.get("parsed_steps", len(plan.steps))
        if len(plan.steps) != wanted:
            out.append(difference("number of steps", wanted, len(plan.steps)))
        return out + check(plan, case, world, product)

    return of_case


def _validate(plan: Any, case: Case, world: World, product: Any) -> list[str]:
    return static.validate_differences(plan, case.expect, product)


def _verify(plan: Any, case: Case, world: World, product: Any) -> list[str]:
    out = static.verify_differences(plan, case, product)
    if world.calls or world.model_calls:
        out.append("verifying the plan called something")
    return out


def _mermaid(plan: Any, case: Case, world: World, product: Any) -> list[str]:
    return static.mermaid_differences(plan, case.expect, product)


def _run(plan: Any, case: Case, world: World, product: Any) -> list[str]:
    result = asyncio.run(_execute(plan, case, world, product))
    return runs.run_differences(result, world, case.expect)


def _execute(plan: Any, case: Case, world: World, product: Any) -> Any:
    options: dict[str, Any] = {"namespace": case.namespace, "max_replans": case.max_replans}
    options = {name: value for name, value in options.items() if value is not None}
    if case.agent is not None:
        options["agent_fn"] = world.agent
    if case.progress:
        options["progress_callback"] = world.on_progress
    return product.LTPRuntime().execute(plan, tool_executor=world.tool, llm_fn=world.model, **options)


def _micro(case: Case, world: World, product: Any) -> list[str]:
    """A goal is compiled by a model that returns the plan of the case; then the plan runs."""
    out: list[str] = []
    asked: list[str] = []

    async def model(messages: list[dict[str, Any]]) -> str:
        asked.append(conversation(messages))
        if not all(isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in messages):
            out.append(difference("messages", "a role and a content each", messages))
        if isinstance(case.plan, dict):
            raise scripted_error(case.plan)
        return case.plan

    context = () if case.context is None else (case.context,)
    compiling: Awaitable[Any] = product.LTPCompiler(llm_fn=model).compile(case.goal, *context)
    plan = asyncio.run(_awaited(compiling))
    if len(asked) != 1:
        out.append(difference("model calls of the compiler", 1, len(asked)))
    out += parts_differences("prompt", "\n".join(asked), case.expect.get("prompt_contains", ()))
    out += plans.plan_differences(plan, case.expect, product)
    runs_too = plan is not None and not case.expect.get("none") and runs.EXPECTATIONS & case.expect.keys()
    return out + _run(plan, case, world, product) if runs_too else out


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


_Check = Callable[[Case, World, Any], list[str]]
_CHECKS: dict[str, _Check] = {
    "parse": _parse,
    "validate": _with_plan(_validate),
    "verify": _with_plan(_verify),
    "mermaid": _with_plan(_mermaid),
    "run": _with_plan(_run),
    "micro": _micro,
}
