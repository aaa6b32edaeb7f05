"""One plan, run once, and one goal compiled: `run`, `arun` and `compile`, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions, Verify
from callsheet.api.kit import RuntimeOptions
from callsheet.api.plan import PlanLike
from callsheet.api.result import RunResult
from callsheet.api.runtime import Runtime


def run(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    **options: Unpack[RuntimeOptions],
) -> RunResult:
    """Run a plan, its text or its file, and wait for its end.

    `options` are what `Runtime` takes (`tools`, `mcp`, `builtins`, `model`, `journal`, …). Raises
    what `Runtime.run` raises, and RuntimeError inside a running event loop.

    >>> run('S1: @CALC ("$a + 1") > $b\\nS2: @RESPOND ("b is $b")', {"a": 1}).response
    'b is 2'
    """
    return Runtime(**options).run_sync(plan, inputs, run_id=run_id)


async def arun(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    **options: Unpack[RuntimeOptions],
) -> RunResult:
    """As `run`, to be awaited."""
    return await Runtime(**options).run(plan, inputs, run_id=run_id)


async def compile(  # noqa: A001 - it is called callsheet.compile
    goal: str,
    context: str = "",
    *,
    inputs: Mapping[str, Any] | None = None,
    verify: Verify | None = None,
    compiling: CompileOptions | None = None,
    **options: Unpack[RuntimeOptions],
) -> Compiled | CompileFailed:
    """A plan for a goal, or what is wrong with the model's answer; nothing is run.

    `options` are what `Runtime` takes: `model`, and the tools that the plan may call. Raises what
    `Runtime.compile` raises.

    >>> import asyncio
    >>> made = asyncio.run(compile("Say hello", model=lambda prompt: 'S1: @respond ("Hello")'))
    >>> made.ok, made.require().steps[0].action
    (True, Respond(values=(Literal(value='Hello'),)))
    """
    runtime = Runtime(**options)
    return await runtime.compile(goal, context, inputs=inputs, verify=verify, options=compiling)
