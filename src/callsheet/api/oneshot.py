"""One plan, run once: `run` and `arun`, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

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
