"""Counts the tokens of gold calls, compiled by one model call and as a ReAct loop, without any model.

Both get the same lines about the same tools. The loop is given the most favourable case: no thoughts, no
wrong calls, results as short as possible. A token is counted as four characters. A cache holds what is the
same for all goals (instructions and tools), and everything that an earlier turn read or wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.nested_calls.convert import GoldCall, Row, plan_of

from callsheet.authoring.compiler.compile import Request, prompt_for
from callsheet.frontends.ltp import format_plan
from callsheet.ir import canonical_tool_name
from callsheet.ports.tools import ToolSpec

REACT = (
    "You reach a goal with tool calls. Answer with one or more calls as JSON, "
    '{"tool": "name", "args": {"a": 1}}, each on a line; their results come next. Call side by side what '
    'does not depend on one another. When you know the answer, write {"answer": "..."}.\nTools:\n'
)
"""What the loop is told, besides the tools."""


def tokens(text: str) -> int:
    """A text in tokens of four characters.

    >>> tokens("12345")
    2
    """
    return -(-len(text) // 4)


CACHED = 0.1
"""What a token that is read from a cache costs, where one that is not costs 1."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a goal: model calls, tokens read, those of them not cached, tokens written."""

    calls: int
    read: int
    fresh: int
    written: int

    @property
    def cold(self) -> int:
        """All tokens, nothing cached."""
        return self.read + self.written

    @property
    def warm(self) -> float:
        """All tokens, those from a cache at a tenth."""
        return self.fresh + self.written + CACHED * (self.read - self.fresh)

    @property
    def new(self) -> int:
        """Tokens that no cache has, read and written."""
        return self.fresh + self.written


def compiled(row: Row) -> Cost:
    """One call of the compiler that this package has: card, catalogue, example, goal, plan."""
    first, *others = _question(row)
    return Cost(1, tokens(first) + sum(map(tokens, others)), sum(map(tokens, others)), tokens(lean_text(row)))


def lean_text(row: Row) -> str:
    """The plan as a model writes it: lower-case names, results v1, v2, …, without markers."""
    names = {call.label: f"v{number}" for number, call in enumerate(row.calls, 1)}
    body = format_plan(plan_of(row)).partition("PLAN_START\n")[2].partition("\nPLAN_END")[0]
    body = re.sub(r"^(S\d+: @)(\w+)", lambda m: m[1] + m[2].lower(), body, flags=re.MULTILINE)
    return re.sub(r"\$(\w+)", lambda m: "$" + names.get(m[1], m[1]), body)


def _question(row: Row) -> list[str]:
    """What the compiler asks: instructions and tools first."""
    specs = tuple(
        ToolSpec(
            canonical_tool_name(tool["name"]),
            tool["name"],
            tool.get("description", ""),
            tool.get("input_schema", {}),
        )
        for tool in row.tools
    )
    return [str(message["content"]) for message in prompt_for(Request(row.goal, specs)).messages]


def react(row: Row, results: Mapping[str, Any], *, side_by_side: bool) -> Cost:
    """A loop that makes the gold calls, one per turn or all possible ones, and answers in a last turn."""
    lines = _question(row)[0].partition("Tools:\n")[2]
    system, goal = tokens(REACT + lines), tokens(row.goal)
    history = read = written = 0
    turns = _turns(row.calls) if side_by_side else [[call] for call in row.calls]
    for turn in turns:
        read += system + goal + history
        said = sum(tokens(_said(call, results)) for call in turn)
        heard = sum(tokens(json.dumps(results[call.label])) for call in turn)
        written += said
        history += said + heard
    read += system + goal + history
    answer = tokens(json.dumps({"answer": str(results[row.calls[-1].label]["result"])}))
    fresh = goal + sum(tokens(json.dumps(results[call.label])) for call in row.calls)
    return Cost(len(turns) + 1, read, fresh, written + answer)


def _said(call: GoldCall, results: Mapping[str, Any]) -> str:
    """The call as a loop writes it, with earlier results as literal values."""
    args = {
        name: results[value.strip("$").partition(".")[0]]["result"]
        if isinstance(value, str) and value.startswith("$")
        else value
        for name, value in call.args.items()
    }
    return json.dumps({"tool": call.tool, "args": args})


def _turns(calls: Sequence[GoldCall]) -> list[list[GoldCall]]:
    """The calls by turn: each as soon as its inputs are available."""
    level: dict[str, int] = {}
    turns: list[list[GoldCall]] = []
    for call in calls:
        at = 1 + max((level[label] for label in call.reads if label in level), default=-1)
        level[call.label] = at
        if at == len(turns):
            turns.append([])
        turns[at].append(call)
    return turns
