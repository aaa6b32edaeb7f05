"""The page of policies by example: each plan passes, asks or is refused as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from callsheet.api.policies import policies_beside
from callsheet.api.proving import prove
from callsheet.diagnostics import Source
from callsheet.frontends.ltp import parse
from callsheet.policy.calls import Duty
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Registry, Tool, ToolSpec

PAGE = Path(__file__).parents[2] / "docs" / "policy-examples.md"
_BLOCK = re.compile(r"^```(toml|ltp)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TOOL = re.compile(r"`(\w+)\(([^`)]*)\)`")


class Example(NamedTuple):
    policy: str
    plan: str
    tools: Registry


async def _nothing(args: dict[str, Any], context: CallContext) -> None:
    return None


def registry(listed: str) -> Registry:
    """The tools that a section lists; `server__tool(…)` is one of an MCP server."""
    made = Registry()
    for name, parameters in _TOOL.findall(listed):
        server, _, own = name.rpartition("__")
        names = [each for each in re.split(r"[,\s]+", parameters) if each]
        schema = {"type": "object", "properties": {each: {} for each in names}}
        if server == "files" and own == "write_file":  # a plan calls it by its full name, as it is built in
            spec = ToolSpec(name.upper(), own, parameters=schema, origin=f"mcp:{server}")
            made.add(Tool(spec, _nothing))
        elif server:
            spec = ToolSpec(own.upper(), own, parameters=schema, origin=f"mcp:{server}")
            made.add(Tool(spec, _nothing), alias=name.upper())
        else:
            made.add(Tool(ToolSpec(name.upper(), name, parameters=schema, origin="python:mail.py"), _nothing))
    return made


def examples() -> list[Example]:
    """Each plan of the page, with the policy and the tools before it."""
    found: list[Example] = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        tools, policy = registry(section.partition("```")[0].partition("Tools:")[2]), ""
        for kind, text in _BLOCK.findall(section):
            if kind == "toml":
                own = text.replace('extends = "the one above"\n', "")
                policy = own if own == text else policy + own
            else:
                found.append(Example(policy, text, tools))
    return found


EXAMPLES = examples()


def policy_of(text: str) -> Policy:
    return read_policy(Source("ours.toml", text), policies_beside(Path()))


def test_page_has_its_examples() -> None:
    assert len(EXAMPLES) == 12
    assert all(len(example.policy.splitlines()) <= 40 for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.plan.split()[1:6]))
def test_plan_passes_asks_or_is_refused_as_the_page_says(example: Example) -> None:
    said = [line.removeprefix("# ") for line in example.plan.splitlines() if line.startswith("# ")]
    proof = prove(
        parse(f"PLAN_START\n{example.plan}\nPLAN_END").require(), policy_of(example.policy), example.tools
    )
    refused = [d.code for d in proof.diagnostics if d.is_error]
    asked = [(each.step, each.detail) for each in proof.obligations if each.kind is Duty.APPROVE]
    if said[0].startswith("refused: "):
        assert set(refused) == {said[0].removeprefix("refused: ")}
        return
    assert refused == []
    expected = [line.removeprefix("asks at ").partition(": ")[::2] for line in said if line != "passes"]
    assert {step for step, _ in asked} == {step for step, _ in expected}
    for step, why in expected:
        assert any(place == step and detail.startswith(why) for place, detail in asked), (step, why, asked)


@pytest.mark.parametrize(
    "text", sorted({example.policy for example in EXAMPLES}), ids=lambda text: str(len(text))
)
def test_every_tool_of_a_section_has_a_class(text: str) -> None:
    tools = next(example.tools for example in EXAMPLES if example.policy == text)
    for tool in tools:
        plan = parse(f"PLAN_START\nS1: @{tool.spec.name}\nPLAN_END").require()
        assert "POL101" not in [d.code for d in prove(plan, policy_of(text), tools).diagnostics]
