"""Strong models over HTTP: a right program is accepted as it is and asked for once, from whatever server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from os.path import commonprefix
from typing import Any

import pytest
from benchmarks.compiling.goals import Goal, further, goals, held_out

from callsheet.authoring.compiler.compile import compile_goal
from callsheet.authoring.compiler.request import Draft, Request
from callsheet.frontends.export import ToolShape, is_sentence, program_grammar
from callsheet.ir import canonical_tool_name
from callsheet.passes import ToolSignature, check
from callsheet.ports.models.model import LanguageModel, Syntax
from callsheet.ports.models.opening import open_model
from callsheet.ports.models.settings import ModelSettings
from callsheet.ports.tools import ToolSpec
from compiled_goals import CONDITIONAL, GOALS, TOOLS
from providers import Behaviour, Handler, Provider, answer, serving

OTHERS = (*goals(), *further(), *held_out())
KINDS = ("vllm:m", "llama.cpp:m", "ollama:m", "openai:gpt-5-mini", "anthropic:claude-opus-5")
"""Servers that take grammars of both kinds, GBNF, JSON schemas alone, and providers by their libraries."""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-s3cret-key")


def model_at(spec: str, provider: Provider) -> LanguageModel:
    path = "" if spec.startswith("anthropic") else "/v1"
    return open_model("", ModelSettings(model=spec, url=provider.url + path, timeout=60.0, retries=0))


def drafted(spec: str, provider: Provider, goal: str, tools: tuple[ToolSpec, ...]) -> Draft:
    known = {tool.name: ToolSignature.from_schema(tool.parameters, tool.effect) for tool in tools}
    model = model_at(spec, provider)
    return asyncio.run(compile_goal(Request(goal, tools), model, lambda plan: check(plan, tools=known)))


def tools_of(goal: Goal) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(canonical_tool_name(tool.name), tool.name, tool.description, tool.parameters)
        for tool in goal.tools
    )


def program_of(goal: Goal) -> str:
    """A program with the expected calls, in the control flow of the goal's kind."""
    schemas = {tool.name: tool.parameters for tool in goal.tools}
    calls = [f"await {_call(name, schemas.get(name))}" for name in goal.expected]
    lines = [f"r{n} = {call}" for n, call in enumerate(calls)]
    last = lines[-1]
    match goal.kind:
        case "condition":
            lines[-1:] = ["if len(str(goal)) > 3:", f"    {last}", "else:", "    note('not done')"]
            lines.insert(0, "goal = 'a condition'")
        case "foreach":
            lines[-1:] = ["for one in ['a', 'b']:", f"    {last}"]
        case "parallel":
            together = ", ".join(call.removeprefix("await ") for call in calls)
            lines = [f"done = await asyncio.gather({together})"]
        case "on_fail":
            lines[-1:] = [
                "try:",
                f"    {last}",
                "except ToolError as error:",
                "    return f'Failed: {error}'",
            ]
        case _:
            pass
    body = "\n".join(f"    {line}" for line in (*lines, "return 'Done.'"))
    return f"import asyncio\n\nasync def main():\n{body}\n"


def _call(name: str, schema: Mapping[str, Any] | None) -> str:
    """A call of a tool, or of an operation of callsheet."""
    if schema is None:
        return f"llm('{name}')"
    given = (f"{one}={_value(schema['properties'][one])}" for one in schema.get("required", ()))
    return f"{name}({', '.join(given)})"


def _value(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return repr(schema["enum"][0])
    values = {"integer": "1", "number": "1.5", "boolean": "True", "array": "[]", "object": "{}"}
    return values.get(str(schema.get("type")), "'some text'")


def is_asked_once(provider: Provider, draft: Draft, program: str, tools: tuple[ToolSpec, ...]) -> bool:
    asked = json.dumps([one.body for one in provider.asked])
    return (
        draft.plan is not None
        and draft.source.text.endswith(program)
        and draft.accounting.calls == len(provider.asked) == 1
        and not draft.accounting.repaired
        and not draft.doubts
        and not draft.errors
        and all(f"async def {tool.executor}(" in asked for tool in tools)
        and not any(word in asked for word in ("grammar", "json_schema", "response_format"))
    )


@pytest.mark.parametrize("spec", KINDS)
def test_right_program_is_accepted_unchanged_and_asked_once(spec: str) -> None:
    """Ten languages and three paragraphs at one server; a language a server at the others."""
    n = KINDS.index(spec)
    with serving(always=answer(CONDITIONAL)) as provider:
        assert len(model_at(spec, provider).accepts) >= 1
        for goal in GOALS[n::n] if n else GOALS:
            provider.asked.clear()
            draft = drafted(spec, provider, goal, TOOLS)
            assert is_asked_once(provider, draft, CONDITIONAL, TOOLS), (goal, draft.diagnostics)


@pytest.mark.parametrize(("spec", "first"), [(spec, n) for n, spec in enumerate(KINDS[:3])])
def test_right_programs_over_other_tools_are_accepted_unchanged_and_asked_once(spec: str, first: int) -> None:
    """Each third goal at one of the servers."""
    with serving() as provider:
        for goal in OTHERS[first::9]:
            provider.asked.clear()
            program, tools = program_of(goal), tools_of(goal)
            provider.always = answer(program)
            draft = drafted(spec, provider, goal.goal, tools)
            assert is_asked_once(provider, draft, program, tools), (goal.id, program, draft.diagnostics)


def counting(text: str, seen: list[str], marked: list[int]) -> Behaviour:
    """Answers, and counts as cached what begins like an earlier request, as providers do."""

    def behave(request: Handler) -> None:
        body = request.asked.body
        system: Any = body.get("system")
        whole = json.dumps([system, body["messages"]])
        marked.append(sum("cache_control" in part for part in system) if isinstance(system, list) else 0)
        shared = max((_shared(whole, other) for other in seen), default=0)
        seen.append(whole)
        answer(text, read=len(whole) // 4, cached=shared // 4)(request)

    return behave


def _shared(one: str, other: str) -> int:
    return len(commonprefix((one, other)))  # noqa: RUF071 - of characters


@pytest.mark.parametrize("spec", ["vllm:m", "anthropic:claude-opus-5"])
def test_rules_and_tools_come_from_the_cache_of_a_provider(spec: str) -> None:
    seen: list[str] = []
    marked: list[int] = []
    with serving(always=counting(CONDITIONAL, seen, marked)) as provider:
        used = [drafted(spec, provider, goal, TOOLS).accounting.usage for goal in GOALS]
    assert used[0].cached_tokens == 0
    assert all(one.cached_tokens >= 0.9 * one.input_tokens for one in used[1:]), used
    assert set(marked) == ({1} if spec.startswith("anthropic") else {0})
    assert all(_shared(one, other) > 0.9 * len(one) for one, other in pairwise(seen))


def test_strong_model_may_think_for_as_long_as_its_settings_say() -> None:
    with serving(always=answer(CONDITIONAL)) as provider:
        drafted("vllm:m", provider, GOALS[0], TOOLS)
    assert provider.asked[0].body["max_tokens"] == ModelSettings().max_tokens


def test_servers_take_the_constraints_that_are_not_used() -> None:
    """What a server takes says nothing about its model."""
    with serving() as provider:
        taken = {spec: tuple(model_at(spec, provider).accepts) for spec in KINDS}
    assert taken["vllm:m"][0] is Syntax.GBNF
    assert taken["openai:gpt-5-mini"][0] is Syntax.LARK


def test_right_programs_are_sentences_of_the_grammar_of_all_tools() -> None:
    """A small model is kept from nothing that is right, however many tools there are."""
    for goal in OTHERS[::4]:
        shapes = [ToolShape(tool.name, tool.parameters) for tool in goal.tools]
        assert is_sentence(program_grammar(shapes), program_of(goal).rstrip("\n")), goal.id
