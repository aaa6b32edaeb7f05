"""The ways of compiling that are compared, each a function from a goal to an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from benchmarks.compiling.goals import Goal, signatures_of
from benchmarks.compiling.prompts import BARE, DOCUMENTED, conversation

from callsheet.authoring.compiler.compile import Options, PlanForm, Request, compile_goal
from callsheet.diagnostics import Diagnostic
from callsheet.frontends.export import ExportOptions, Form, ToolShape, plan_lark
from callsheet.frontends.ltp import format_plan
from callsheet.ir import Plan, canonical_tool_name
from callsheet.passes import check
from callsheet.ports.models.model import Completion, Constraint, LanguageModel, ModelFailed, Syntax
from callsheet.ports.models.prompts import Messages
from callsheet.ports.tools import ToolSpec

MAX_TOKENS = 400
"""Of an answer that nothing holds, which may go on for ever; one that is held gets what compiling gives."""


class Made(NamedTuple):
    """An answer and its cost: tokens read, those of them not cached, tokens written, calls."""

    text: str
    input_tokens: int = 0
    fresh_tokens: int = 0
    output_tokens: int = 0
    calls: int = 1
    failed: str = ""


Mode: TypeAlias = Callable[[LanguageModel, Goal], Awaitable[Made]]


async def free(model: LanguageModel, goal: Goal) -> Made:
    """The language described in words, without examples and without constraints."""
    return await _asked(model, conversation(BARE, goal.tools, goal.goal))


async def documented(model: LanguageModel, goal: Goal) -> Made:
    """The documented worked examples, without constraints."""
    return await _asked(model, conversation(DOCUMENTED, goal.tools, goal.goal))


async def constrained(model: LanguageModel, goal: Goal) -> Made:
    """The same prompt as `documented`, constrained by a grammar."""
    shapes = [ToolShape(tool.name, tool.parameters) for tool in goal.tools]
    options = ExportOptions(form=Form.CANONICAL, max_steps=12, operations=OFFERED)
    grammar = Constraint(Syntax.LARK, plan_lark(shapes, options), "plan")
    messages = conversation(DOCUMENTED, goal.tools, goal.goal)
    return await _asked(model, messages, grammar, Options().max_tokens)


async def compiled(model: LanguageModel, goal: Goal) -> Made:
    """callsheet's own compiler, as `callsheet compile` uses it: a grammar, and one repair at most."""
    return await _compiled(model, goal, Options(form=PlanForm.LTP))


async def compiled_once(model: LanguageModel, goal: Goal) -> Made:
    """The same without the repair."""
    return await _compiled(model, goal, Options(form=PlanForm.LTP, repairs=False))


async def compiled_freely(model: LanguageModel, goal: Goal) -> Made:
    """The compiler without a grammar, as for a model that supports none."""
    return await _compiled(model, goal, Options(form=PlanForm.LTP, constrained=False))


async def compiled_as_json(model: LanguageModel, goal: Goal) -> Made:
    """The compiler with the flat JSON schema, as for a model that supports only schemas."""
    return await _compiled(_WithSchemas(model), goal, Options(form=PlanForm.LTP))


class _WithSchemas:
    """A model restricted to JSON schemas, whatever else it supports."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def accepts(self) -> Sequence[Syntax]:
        return (Syntax.JSON_SCHEMA,)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        return await self._model.complete(messages, constraint, max_tokens=max_tokens)


async def _compiled(model: LanguageModel, goal: Goal, options: Options) -> Made:
    tools = signatures_of(goal.catalogue)
    specs = tuple(
        ToolSpec(canonical_tool_name(t.name), t.name, t.description, t.parameters) for t in goal.tools
    )

    def checked(plan: Plan) -> tuple[Diagnostic, ...]:
        return tuple(check(plan, tools=tools))

    draft = await compile_goal(Request(goal.goal, specs), model, checked, options)
    usage = draft.accounting.usage
    said = "; ".join(f"{d.code} {d.message}" for d in draft.diagnostics if d.is_error)
    return Made(
        draft.answer if draft.plan is None else format_plan(draft.plan),
        usage.input_tokens,
        usage.input_tokens - usage.cached_tokens,
        usage.output_tokens,
        draft.accounting.calls,
        "" if draft.plan is not None else said,
    )


async def _asked(
    model: LanguageModel,
    messages: list[dict[str, str]],
    constraint: Constraint | None = None,
    most: int | None = MAX_TOKENS,
) -> Made:
    try:
        answer = await model.complete(messages, constraint, max_tokens=most)
    except ModelFailed as error:
        return Made("", failed=f"{error.kind}: {error}")
    usage = answer.usage
    fresh = usage.input_tokens - usage.cached_tokens
    return Made(answer.text, usage.input_tokens, fresh, usage.output_tokens)


OFFERED = frozenset(
    {
        "LLM_EXTRACT", "LLM_SUMMARIZE", "LLM_CLASSIFY", "LLM_ANALYZE", "LLM_GENERATE", "LLM_TRANSLATE",
        "LLM_EVALUATE",
    }
)  # fmt: skip
"""The operations that the documented prompt tells of."""

MODES: Mapping[str, Mode] = {
    "free": free,
    "documented": documented,
    "constrained": constrained,
    "compile": compiled,
    "compile-once": compiled_once,
    "compile-free": compiled_freely,
    "compile-json": compiled_as_json,
}
