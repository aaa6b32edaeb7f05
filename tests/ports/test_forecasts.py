"""Forecasts of transforms and model operations agree with the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.machine import CallModel, CallTool, Failed, Succeeded
from callsheet.machine.forecasting import Computed
from callsheet.ports.calls import CallContext
from callsheet.ports.models.operations import ModelOperations, expected_use
from callsheet.ports.transforms import transform_tools, work_out
from callsheet.runtime.gateway import Gateway, Ports, Route

ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.sampled_from([[1, 2], {"success": False, "error": "no"}, '{"a": [3]}', "text", None, 7]),
        "query": st.sampled_from(["@", "[0]", "a[", "sum(@)", 5]),
        "expression": st.sampled_from(["1 + 1", "1 / 0", "x", 3, "2 > 1", ""]),
        "text": st.sampled_from(["t", [1], None]),
    },
)


@given(st.sampled_from(["SELECT", "CALC", "FORMAT"]), ARGUMENTS)
@settings(max_examples=150, deadline=None)
def test_forecast_of_transform_equals_its_result(tool: str, arguments: dict[str, Any]) -> None:
    """work_out agrees with the gateway, including failures and their texts."""
    handlers = {t.spec.name: t.handler for t in transform_tools()}
    gateway = Gateway(Ports(lambda name: Route(handlers[name])), "run")
    event = asyncio.run(gateway.carry_out(CallTool("S1.0.1", "S1", tool, arguments)))

    match event:
        case Succeeded(value=value):
            assert work_out(tool, arguments) == Computed(True, value)
        case Failed(error=error):
            assert work_out(tool, arguments) == Computed(False, error)
        case _:
            raise AssertionError(event)


@pytest.mark.parametrize(("answer", "is_least"), [("TRUE", True), ("hm", False)])
def test_model_is_asked_as_often_as_forecast(answer: str, is_least: bool) -> None:
    asked: list[int] = []

    async def complete(messages: list[dict[str, str]]) -> str:
        asked.append(sum(len(message["content"]) for message in messages))
        return answer if answer == "TRUE" or len(asked) > 1 else "hm"

    command = CallModel("S1.0.1", "S1", "LLM_EVALUATE", ["It rains."], {"condition": "Is it dry?"})
    use = expected_use(command.tool, command.inputs, command.args, True)
    work = ModelOperations(complete)(command, CallContext("run", command.key))
    if is_least:
        asyncio.run(work)
        assert len(asked) == use.least
        assert use.tokens == pytest.approx(asked[0] / 4, abs=1)
    else:
        with pytest.raises(Exception, match="not have the requested form"):
            asyncio.run(work)
        assert len(asked) == use.most


def test_refinement_is_forecast_by_rounds_or_bound() -> None:
    assert expected_use("SELF_REFINE", ["t"], {"goal": "g", "rounds": 3}, True)[:2] == (3, 6)
    assert expected_use("SELF_REFINE", ["t"], {"goal": "g", "rounds": None}, False)[:2] == (1, 40)
    assert expected_use("SELF_REFINE", ["t"], {"goal": "g", "rounds": "many"}, True)[:2] == (0, 0)


def test_agent_is_bounded_by_turns() -> None:
    assert expected_use("AGENT_SOLVE", [], {"goal": "g"}, True)[:2] == (1, None)
    assert expected_use("AGENT_SOLVE", [], {"goal": "g", "max_turns": 4}, True)[:2] == (1, 4)
