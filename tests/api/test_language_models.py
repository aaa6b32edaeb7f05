"""A runtime with a `LanguageModel`, or with the name of one."""

from __future__ import annotations

from pathlib import Path

import pytest

import callsheet
from callsheet import CallsheetError, Completion, Limits, ModelFailed, Runtime, ScriptedModel
from callsheet.ports.models.model import Failure, Usage
from providers import answer, refuses, serving

PLAN = 'S1: @LLM_SUMMARIZE ("a long text") > $s\nS2: @RESPOND ($s)\n'
TWICE = 'S1: @LLM_SUMMARIZE ("x") > $a\nS2: @LLM_TRANSLATE ($a, target_lang="fr") > $b\nS3: @RESPOND ($b)\n'


async def test_language_model_executes_operations_and_usage_is_counted(tmp_path: Path) -> None:
    known = Completion("un", Usage(100, 10, 60, 0.25, 1.5, 2), model="m-1")
    unknown = Completion("deux", Usage(50, 5, 0, None, 0.5))
    runtime = Runtime(model=ScriptedModel([known, unknown]), journal=tmp_path / "j.db")
    result = (await runtime.run(TWICE)).raise_for_status()
    used = result.usage
    assert result.response == "deux"
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (150, 15, 60)
    assert (used.cost, used.unpriced, used.known_cost) == (0.25, 1, None)
    assert (used.model_calls, used.model_requests, used.model_seconds) == (2, 3, 2.0)
    assert "60 of them cached" in used.describe()
    assert "1 answer of unknown cost" in used.describe()
    again = await runtime.resume(result.run_id)
    assert again.usage.to_json() == {**used.to_json(), "seconds": again.usage.seconds}


async def test_unknown_cost_is_null() -> None:
    model = ScriptedModel([Completion("a", Usage(1, 1))])
    result = await Runtime(model=model).run(PLAN)
    assert result.usage.to_json()["cost"] is None


async def test_model_is_named_by_url() -> None:
    with serving(answer("short")) as provider:
        runtime = Runtime(model=f"{provider.url}/v1#small")
        assert (await runtime.run(PLAN)).response == "short"
        assert provider.asked[0].body["model"] == "small"
    with pytest.raises(CallsheetError, match="MDL001"):
        Runtime(model="nobody")


async def test_run_resumes_after_model_failure(tmp_path: Path) -> None:
    with serving(always=refuses(401, "bad key")) as provider:
        runtime = Runtime(model=f"{provider.url}/v1", journal=tmp_path / "j.db")
        stands = await runtime.run(PLAN)
        assert stands.status == "running"
        (call,) = stands.unanswered
        assert (call.step, call.tool) == ("S1", "LLM_SUMMARIZE")
        assert call.why.startswith("MDL003: the model http")
        with pytest.raises(callsheet.RunFailed, match="is suspended: S1 @LLM_SUMMARIZE: MDL003"):
            stands.raise_for_status()
        provider.always = answer("short")
        done = await runtime.resume(stands.run_id)
    assert (done.status, done.response, done.unanswered) == ("done", "short", ())


async def test_usage_before_failure_is_counted(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            Completion("better", Usage(100, 10, cost=0.5)),
            ModelFailed(Failure.OVERLOADED, "busy"),
            Completion("good", Usage(7, 7, cost=0.25)),
            Completion("best", Usage(7, 7, cost=0.25)),
        ]
    )
    runtime = Runtime(model=model, journal=tmp_path / "j.db")
    stands = await runtime.run('S1: @SELF_REFINE ("x", goal="y", rounds=2) > $r\nS2: @RESPOND ($r)')
    assert (stands.status, stands.usage.input_tokens, stands.usage.cost) == ("running", 100, 0.5)
    done = await runtime.resume(stands.run_id)
    assert (done.response, done.usage.input_tokens, done.usage.cost) == ("good", 107, 0.75)


async def test_cost_limit_applies_to_model(tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages: Completion("a", Usage(10, 10, cost=0.5)))
    result = await Runtime(model=model, limits=Limits(max_cost=0.4)).run(TWICE)
    assert result.status == "failed"
    assert result.refusal is not None
    assert result.refusal.budget == "max_cost"


async def test_plan_that_needs_unavailable_model_is_error() -> None:
    runtime = Runtime(model=ScriptedModel([ModelFailed(Failure.KEY, "no key", model="m")]))
    with pytest.raises(CallsheetError, match="MDL003: the model m: no key"):
        await runtime.create_plan("anything")


async def test_truncated_answer_has_note(tmp_path: Path) -> None:
    from callsheet.ports.models.model import Stop

    cut = Completion("once upon", Usage(1, 9), Stop.LENGTH, "m-1")
    handle = Runtime(model=ScriptedModel([cut])).start(PLAN)
    told = [event.text async for event in handle if isinstance(event, callsheet.StepRemarked)]
    assert any("limit of 9 tokens" in text for text in told)
    assert "model: m-1" in told
