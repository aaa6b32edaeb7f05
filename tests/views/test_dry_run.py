"""The output of a dry run, for people and programs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from tests.plans import FACTS, INPUTS, plan_of, plan_texts

from callsheet.machine.forecasting import Forecast, Knowledge, ModelUse, foresee, totals_of
from callsheet.views.columns import width
from callsheet.views.dry_run import dry_run_text
from callsheet.views.dry_run_data import dry_run_json


def told(text: str, inputs: dict[str, Any] | None = None, **knowledge: Any) -> Forecast:
    return foresee(plan_of(text), inputs, Knowledge(facts=FACTS, **knowledge))


def text_of(forecast: Forecast, price: float | None = None, columns: int = 100) -> str:
    return dry_run_text(forecast, totals_of(forecast), price, columns)


def data_of(forecast: Forecast, price: float | None = None) -> dict[str, Any]:
    return dry_run_json(forecast, totals_of(forecast), price)


def test_json_placeholder_is_distinct_from_text_values() -> None:
    data = data_of(told('S1: @READ (1) > $a\nS2: @WRITE ($a.b, "<READ result.b>")\nS3: @RESPOND ("n: $a")'))

    given = data["steps"][1]["visits"][0]["arguments"]
    unknown = {"name": "<READ result.b>", "step": "S1", "path": ["b"], "type": None}
    assert given == {"x": {"unknown": unknown}, "y": {"value": "<READ result.b>"}}
    assert data["steps"][2]["visits"][0]["inputs"][0]["text"][0] == "n: "


def test_text_placeholder_is_outside_quotes() -> None:
    shown = text_of(told('S1: @READ (1) > $a\nS2: @WRITE ("a: $a", "<READ result>")\nS3: @RESPOND ("x")'))

    assert 'x: "a: " <READ result>' in shown
    assert 'y: "<READ result>"' in shown


def test_group_steps_are_adjacent() -> None:
    lines = text_of(told('@PARALLEL {\nS1: @READ (1)\nS2: @READ (2)\n}\nS3: @RESPOND ("x")')).splitlines()

    assert lines[1] == "concurrently:"
    assert "then:" in lines


def test_totals_count_calls_by_tool_writes_and_approvals() -> None:
    shown = text_of(
        told(
            'S1: @READ (1) > $a\nS2: ?IF ($a == 1) THEN @WRITE (2) ON_FAIL @RETRY(1)\nS3: @RESPOND ("x")',
            needs_approval=lambda tool, step: tool == "WRITE",
        )
    )

    assert "calls: 1 to 3 (the minimum if no step fails, the maximum with all retries)" in shown
    assert "  @WRITE  0 to 2  unsafe" in shown
    assert "calls that may change something: 0 to 2" in shown
    assert "needs approval: S2" in shown


def test_costs_are_shown_where_price_is_known() -> None:
    def ask(*_given: object) -> ModelUse:
        return ModelUse(1, 2, 500, True)

    found = told('S1: @LLM_EXTRACT ("a", target="b") > $a\nS2: @RESPOND ($a)', ask_model=ask)

    assert "cost unknown (no price given)" in text_of(found)
    assert "at least 0.001000 for prompts" in text_of(found, 2.0)
    assert data_of(found)["totals"]["prompt_cost"] is None
    assert data_of(found, 2.0)["totals"]["prompt_cost"] == 0.001


def test_control_characters_are_escaped_and_wide_text_is_cut_by_columns() -> None:
    found = told('S1: @READ ($a) > $r\nS2: @RESPOND ("x")', {"a": "\x1b[31m\n\x07" + "日本" * 100})

    for columns in (40, 60, 100):
        shown = text_of(found, columns=columns)
        assert all(width(line) <= columns for line in shown.splitlines())
        assert all(c.isprintable() or c == "\n" for c in shown)


@given(plan_texts())
@settings(max_examples=60, deadline=None)
def test_every_forecast_can_be_rendered(text: str) -> None:
    """For any plan, text fits its columns and JSON is valid."""
    forecast = foresee(plan_of(text), INPUTS, Knowledge(facts=FACTS))

    assert all(width(line) <= 60 for line in text_of(forecast, columns=60).splitlines())
    assert json.loads(json.dumps(data_of(forecast)))["steps"]
