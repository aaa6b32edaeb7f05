"""The rounds of `@SELF_REFINE` and similar operations: each is one request with one answer."""

from __future__ import annotations

import pytest
from tests.machine.agent_loops.solving import agent
from tests.machine.driving import Bench

from callsheet.machine import CallModel, Limits

PLAN = (
    'S1: @SELF_REFINE ($t, $more, goal="brief", rounds=3) > $a ON_FAIL @RETRY(1, delay=0)\nS2: @RESPOND ($a)'
)
GIVEN = {"t": "a text", "more": "facts"}


def refining(plan: str = PLAN, limits: Limits | None = None) -> Bench:
    return agent(plan, inputs=dict(GIVEN), limits=limits)


def test_each_round_receives_answer_of_previous_round() -> None:
    bench = refining()
    for number, text in ((1, "a text"), (2, "one"), (3, "two")):
        key = f"S1.0.1/t{number}"
        assert bench.waiting == {
            key: CallModel(key, "S1", "SELF_REFINE", [text, "facts"], {"goal": "brief"}, may_fail=True)
        }
        bench.ok(key, ["one", "two", "three"][number - 1])
    assert bench.result.response == "three"
    assert bench.result.usage.model_calls == 3


@pytest.mark.parametrize(("tool", "about"), [("AGENT_CRITIQUE", "criteria"), ("CONSENSUS", "topic")])
def test_critique_and_consensus_are_compared_with_texts_each_round(tool: str, about: str) -> None:
    bench = refining(f'S1: @{tool} ($t, $more, {about}="x", rounds=3) > $a\nS2: @RESPOND ($a)')
    texts, args = ["a text", "facts"], {about: "x"}
    for number, told in ((1, {}), (2, {"earlier": "one"}), (3, {"earlier": "two"})):
        key = f"S1.0.1/t{number}"
        assert bench.waiting == {key: CallModel(key, "S1", tool, texts, args | told, may_fail=False)}
        bench.ok(key, ["one", "two", "three"][number - 1])
    assert bench.result.response == "three"
    assert bench.result.usage.model_calls == 3


def test_failed_round_is_repeated_and_earlier_rounds_are_kept() -> None:
    bench = refining()
    bench.ok("S1.0.1/t1", "one")
    bench.fail("S1.0.1/t2")
    assert bench.keys == ["S1.0.2/t2"]
    command = bench.waiting["S1.0.2/t2"]
    assert isinstance(command, CallModel)
    assert command.inputs[0] == "one"


@pytest.mark.parametrize("rounds", ["", ", rounds=1", ', rounds="x"', ", rounds=21"])
def test_one_round_or_invalid_number_of_rounds_is_single_operation(rounds: str) -> None:
    bench = refining(f'S1: @SELF_REFINE ($t, goal="brief"{rounds}) > $a')
    assert bench.keys == ["S1.0.1"]
    bench.ok("S1.0.1", "one")
    assert bench.result.response == "one"


def test_loop_items_are_refined_concurrently() -> None:
    bench = refining('S1: ?FOREACH ($i IN ["a", "b"]) THEN @SELF_REFINE ($i, rounds=2) > $a')
    assert bench.keys == ["S1.0.1/t1", "S1.1.1/t1"]
    bench.ok("S1.1.1/t1", "b1")
    bench.ok("S1.1.1/t2", "b2")
    bench.ok("S1.0.1/t1", "a1")
    bench.ok("S1.0.1/t2", "a2")
    assert bench.result.variables["a"] == ["a2", "b2"]


def test_limit_on_model_calls_counts_rounds() -> None:
    bench = refining(limits=Limits(max_model_calls=2))
    bench.ok("S1.0.1/t1", "one")
    bench.ok("S1.0.1/t2", "two")
    assert bench.result.refusal is not None
