"""Checks of a run: its result, and what its tools, model and agent received."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.conformance.findings import MISSING, difference, is_same, parts_differences, text_differences
from tests.conformance.world import ToolCall, World, tool_key

EXPECTATIONS = frozenset(
    {
        "response", "response_any", "response_contains", "response_not_contains", "response_order",
        "response_empty", "terminated", "steps_executed", "variables", "variables_contains",
        "variables_empty", "calls", "calls_any_order", "calls_count", "no_calls", "only_tools",
        "raw_tools", "namespace", "llm_calls", "llm_calls_max", "llm_contains", "llm_not_contains",
        "agent_calls", "delay_total", "concurrency_min", "progress_min", "progress_mentions",
    }
)  # fmt: skip
_SHAPE = {"response": str, "variables": dict, "steps_executed": int, "terminated": bool}


def run_differences(result: Any, world: World, expect: Mapping[str, Any]) -> list[str]:
    """All differences between a run and its expectations."""
    if not isinstance(result, dict):
        return [difference("result", "a dict", result)]
    return [
        *_result_differences(result, expect),
        *_variable_differences(result.get("variables") or {}, expect),
        *_call_differences(world, expect),
        *_model_differences(world.model_calls, expect),
        *_agent_differences(world.agent_calls, expect),
        *_pace_differences(world, expect),
    ]


def _result_differences(result: Mapping[str, Any], expect: Mapping[str, Any]) -> list[str]:
    out = [
        difference(f"result[{key!r}]", f"of type {kind.__name__}", result.get(key, MISSING))
        for key, kind in _SHAPE.items()
        if not isinstance(result.get(key), kind)
    ]
    response = result.get("response", "")
    out += text_differences("response", response, expect, "response")
    if expect.get("response_empty") and str(response).strip():
        out.append(difference("response", "", response))
    if "terminated" in expect and result.get("terminated") is not expect["terminated"]:
        out.append(difference("terminated", expect["terminated"], result.get("terminated")))
    if "steps_executed" in expect:
        counts = expect["steps_executed"]
        counts = counts if isinstance(counts, list) else [counts]
        if result.get("steps_executed") not in counts:
            out.append(difference("steps_executed", counts, result.get("steps_executed")))
    return out


def _variable_differences(variables: Mapping[str, Any], expect: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    for name, value in expect.get("variables", {}).items():
        found = _variable(variables, name)
        if not is_same(found, value):
            out.append(difference(f"${name}", value, found))
    for name, parts in expect.get("variables_contains", {}).items():
        found = _variable(variables, name)
        if found is MISSING:
            out.append(difference(f"${name}", f"a value with {parts}", found))
        else:
            out += parts_differences(f"${name}", str(found), parts)
    for name in expect.get("variables_empty", ()):
        found = _variable(variables, name)
        if found is not MISSING and found not in (None, "", [], {}):
            out.append(difference(f"${name}", "nothing or empty", found))
    return out


def _variable(variables: Mapping[str, Any], name: str) -> Any:
    plain = name.lstrip("$")
    return next((variables[key] for key in (f"${plain}", plain) if key in variables), MISSING)


# ---------------------------------------------------------------- calls of tools


def _call_differences(world: World, expect: Mapping[str, Any]) -> list[str]:
    calls, out = world.calls, list[str]()
    names = [call.tool for call in calls]
    if "calls" in expect:
        out += _in_order(calls, expect["calls"])
    if "calls_any_order" in expect:
        out += _in_any_order(calls, expect["calls_any_order"])
    for tool, count in expect.get("calls_count", {}).items():
        if names.count(tool_key(tool)) != count:
            out.append(difference(f"number of calls of {tool}", count, names.count(tool_key(tool))))
    for tool in expect.get("no_calls", ()):
        if tool_key(tool) in names:
            out.append(difference("calls", f"none of {tool}", names))
    if "only_tools" in expect:
        others = sorted(set(names) - {tool_key(tool) for tool in expect["only_tools"]})
        if others:
            out.append(difference("calls", f"only of {expect['only_tools']}", others))
    spellings = [call.spelling for call in calls]
    if "raw_tools" in expect and spellings != expect["raw_tools"]:
        out.append(difference("names given to the executor", expect["raw_tools"], spellings))
    namespaces = sorted({call.namespace for call in calls})
    if "namespace" in expect and namespaces not in ([], [expect["namespace"]]):
        out.append(difference("namespace", expect["namespace"], namespaces))
    return out


def _in_order(calls: list[ToolCall], wanted: list[list[Any]]) -> list[str]:
    if len(calls) != len(wanted):
        return [difference("calls", [want[0] for want in wanted], [(c.tool, c.args) for c in calls])]
    reasons = (_misfit(call, want) for call, want in zip(calls, wanted, strict=True))
    return [f"call {number}: {reason}" for number, reason in enumerate(reasons, 1) if reason]


def _in_any_order(calls: list[ToolCall], wanted: list[list[Any]]) -> list[str]:
    left, out = list(calls), list[str]()
    for want in wanted:
        fitting = next((call for call in left if _misfit(call, want) is None), None)
        if fitting is None:
            out.append(difference("calls", want, [(c.tool, c.args) for c in calls]))
        else:
            left.remove(fitting)
    if left:
        out.append(difference("calls", "no others", [(c.tool, c.args) for c in left]))
    return out


def _misfit(call: ToolCall, want: list[Any]) -> str | None:
    """Why a call differs from the expected tool or its required arguments."""
    tool, args = want[0], want[1] if len(want) > 1 else {}
    if call.tool != tool_key(tool):
        return difference("tool", tool_key(tool), call.tool)
    if not isinstance(call.args, dict):
        return difference("arguments", "a dict", call.args)
    for name, value in args.items():
        found = call.args.get(name, MISSING)
        if found is not MISSING and isinstance(value, dict) and "$contains" in value:
            missing = parts_differences(f"argument {name}", str(found), value["$contains"])
            if missing:
                return missing[0]
        elif not is_same(found, value):
            return difference(f"argument {name}", value, found)
    return None


# ---------------------------------------------------------------- model, agent, pace


def _model_differences(calls: list[str], expect: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    if expect.get("llm_calls") not in (None, len(calls)):
        out.append(difference("model calls", expect["llm_calls"], len(calls)))
    if "llm_calls_max" in expect and len(calls) > expect["llm_calls_max"]:
        out.append(difference("model calls", f"at most {expect['llm_calls_max']}", len(calls)))
    for number, parts in enumerate(expect.get("llm_contains", ()), 1):
        if number > len(calls):
            out.append(difference(f"model call {number}", parts, MISSING))
        else:
            out += parts_differences(f"model call {number}", calls[number - 1], parts)
    for number, parts in enumerate(expect.get("llm_not_contains", ())[: len(calls)], 1):
        for part in parts:
            if part in calls[number - 1]:
                out.append(difference(f"model call {number}", f"no {part}", calls[number - 1]))
    return out


def _agent_differences(calls: list[Any], expect: Mapping[str, Any]) -> list[str]:
    if "agent_calls" not in expect:
        return []
    wanted = expect["agent_calls"]
    if len(calls) != len(wanted):
        return [difference("agent calls", wanted, calls)]
    out: list[str] = []
    for number, (config, want) in enumerate(zip(calls, wanted, strict=True), 1):
        for name, value in want.items():
            found = config.get(name, MISSING) if isinstance(config, dict) else MISSING
            if not is_same(found, value):
                out.append(difference(f"agent call {number}, {name}", value, found))
    return out


def _pace_differences(world: World, expect: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    if "delay_total" in expect:
        low, high = expect["delay_total"]
        if not low <= sum(world.slept) <= high:
            out.append(difference("seconds of waiting", f"{low} to {high}", world.slept))
    if world.peak < expect.get("concurrency_min", 0):
        out.append(difference("calls side by side", f"at least {expect['concurrency_min']}", world.peak))
    events = world.progress
    if "progress_min" in expect and (
        len(events) < expect["progress_min"] or not all(isinstance(event, dict) for event in events)
    ):
        out.append(difference("progress events", f"at least {expect['progress_min']} dicts", events))
    told = json.dumps(events, default=str)
    for part in expect.get("progress_mentions", ()):
        if part not in told:
            out.append(difference("progress events", f"one with {part}", events))
    return out
