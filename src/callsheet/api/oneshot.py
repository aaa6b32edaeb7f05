"""Functions for scripts that need no `Runtime` object: `run`, `arun`, `verify`, `compile`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions, Verify
from callsheet.api.configuration import RuntimeOptions
from callsheet.api.loops import refuse_running_loop
from callsheet.api.plan import PlanLike, as_plan
from callsheet.api.result import RunResult
from callsheet.api.runtime import Runtime
from callsheet.diagnostics.wrong_type import wanted_names
from callsheet.policy.model import Policy

if TYPE_CHECKING:
    from callsheet.api.proving import Proof


def run(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    **options: Unpack[RuntimeOptions],
) -> RunResult:
    """Run a plan, given as `Plan`, text or path, and wait for its end.

    `options` are the arguments of `Runtime` (`tools`, `mcp`, `builtins`, `model`, `journal`, …). Raises
    what `Runtime.run` raises, and RuntimeError inside a running event loop.

    >>> run('S1: @CALC ("$a + 1") > $b\\nS2: @RESPOND ("b is $b")', {"a": 1}).response
    'b is 2'
    """
    refuse_running_loop("callsheet.run", "await callsheet.arun(…)")
    return Runtime(**options).run_sync(plan, inputs, run_id=run_id)


async def arun(
    plan: PlanLike,
    inputs: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    **options: Unpack[RuntimeOptions],
) -> RunResult:
    """Like `run`, for use in an event loop."""
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
    """Ask a model for a plan for a goal; nothing is run.

    `options` are the arguments of `Runtime`: `model`, and the tools that the plan may call; `compiling` are
    those of the compiler. Returns and raises what `Runtime.compile` does.

    >>> import asyncio
    >>> made = asyncio.run(compile("Say hello", model=lambda prompt: 'S1: @respond ("Hello")'))
    >>> made.ok, made.require().steps[0].action
    (True, Respond(values=(Literal(value='Hello'),)))
    """
    runtime = Runtime(**options)
    return await runtime.compile(goal, context, inputs=inputs, verify=verify, options=compiling)


def verify(
    plan: PlanLike,
    policy: Policy | str | os.PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    approved: Iterable[str] = (),
    can_ask: bool = True,
) -> Proof:
    """Prove that no run of a plan does what a policy forbids; nothing is run.

    `policy` is `strict`, `workspace`, `open`, the path of a file, or a Policy. `inputs` are the variables
    that the run will get; `approved` are ids of steps that a person has approved. With `can_ask=False`
    nobody can be asked during the run, and calls that need approval are refused. Raises PlanError for a
    text that is not a plan, CallsheetError (POL001 to POL006) for an invalid policy.

    >>> text = 'S1: @READ_FILE (path="notes.txt") > $a\\nS2: @FETCH_PAGE (url="https://x.example/?$a") > $b'
    >>> [(v.step, v.flow) for v in verify(text, "workspace").verdict.violations]
    [('S2', ('S1 $a', 'S2 url', 'x.example'))]
    """
    from callsheet.api.policies import load_policy  # noqa: PLC0415 - only where plans are proved
    from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - as above

    given = wanted_names("inputs", inputs)
    loaded = policy if isinstance(policy, Policy) else load_policy(policy)
    assumed = Assumptions(inputs=given, approved=approved, can_ask=can_ask)
    return prove(as_plan(plan, given.keys()).ir, loaded, assumed=assumed)
