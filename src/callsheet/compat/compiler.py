"""The documented compiler: one model call from a goal to a plan in Micro-CLI or LTP text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from callsheet.authoring.answer import read_answer_plan
from callsheet.authoring.prompt import compile_messages
from callsheet.compat.callbacks import to_async
from callsheet.compat.models import LTPPlan
from callsheet.diagnostics import render_all

_log = logging.getLogger(__name__)


class LTPCompiler:
    """Compiles goals with `llm_fn`, which takes messages and returns the model's text."""

    def __init__(self, llm_fn: Callable[[list[dict[str, str]]], Awaitable[str]]) -> None:
        self._llm_fn = to_async(llm_fn)

    async def compile(self, goal: str, context: str = "") -> LTPPlan | None:
        """The plan for a goal; None, with the reason in the log, if the model gives none.

        `context` is given to the model as data. Raises only asyncio.CancelledError, if the caller itself is
        cancelled.
        """
        try:
            answer = await self._llm_fn(compile_messages(goal, context))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log.warning("the model function raised CancelledError")
            return None
        except Exception:
            _log.warning("the model call failed", exc_info=True)
            return None
        result = read_answer_plan(answer)
        if result.plan is None:
            _log.warning(
                "the model's answer is not a plan:\n%s", render_all(result.diagnostics, result.source)
            )
            return None
        return LTPPlan.of(result.plan, result.diagnostics)
