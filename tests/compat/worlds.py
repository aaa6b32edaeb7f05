"""Scripted callbacks of the documented runtime, and a run over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.compat import LTPParser, LTPPlan, LTPRuntime


def plan_of(text: str) -> LTPPlan:
    plan = LTPParser.parse(text)
    assert plan is not None
    return plan


class Callbacks:
    """Tools that answer by name and a model that answers in order; records all requests."""

    def __init__(self, tools: Mapping[str, Any] | None = None, model: tuple[Any, ...] = ()) -> None:
        self.tools = dict(tools or {})
        self.answers = list(model)
        self.calls: list[tuple[str, dict[str, Any], str]] = []
        self.asked: list[list[dict[str, str]]] = []

    async def tool(self, name: str, args: dict[str, Any], namespace: str) -> Any:
        self.calls.append((name, dict(args), namespace))
        answer = self.tools.get(name, {"success": True, "output": f"out of {name}"})
        if isinstance(answer, BaseException):
            raise answer
        return answer(args) if callable(answer) else answer

    async def model(self, messages: list[dict[str, str]]) -> Any:
        self.asked.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def run(self, plan: LTPPlan | str, audit: Any = None, **options: Any) -> dict[str, Any]:
        plan = plan_of(plan) if isinstance(plan, str) else plan
        return await LTPRuntime(audit).execute(plan, self.tool, self.model, **options)
