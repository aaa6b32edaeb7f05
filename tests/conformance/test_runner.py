"""The runner: a case that is not met fails, and every expectation is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import forked
from tests.compiled import looks_inside
from tests.conformance import dag
from tests.conformance.dag_form import dag_case_of
from tests.conformance.form import BadCase, case_of, read_cases, written_out
from tests.conformance.ltp import differences

from callsheet import compat

RUNNER = Path(__file__).with_name("run.py")
ANSWER = """\
PLAN_START
S1: @GET_V () > $v ON_FAIL @RETRY(2)
S2: @LLM_EXTRACT ($v, target="t") > $m
S3: @RESPOND ($m)
PLAN_END"""


def case(kind: str, plan: Any, expect: dict[str, Any], **more: Any) -> Any:
    return case_of({"id": "c", "area": "a", "kind": kind, "plan": plan, "expect": expect, **more})


def product(**changed: Any) -> Any:
    """The product with some names of its API replaced."""
    return SimpleNamespace(**{name: getattr(compat, name) for name in compat.__all__} | changed)


# ---------------------------------------------------------------- expectations


@pytest.mark.parametrize(
    "expect",
    [
        {"response": "other"},
        {"response_any": ["a", "b"]},
        {"response_contains": ["other"]},
        {"response_not_contains": ["answer"]},
        {"response_order": ["model", "the"]},
        {"response_empty": True},
        {"terminated": True},
        {"steps_executed": [1, 2]},
        {"variables": {"v": 5.0}},
        {"variables": {"$v": True}},
        {"variables": {"w": None}},
        {"variables_contains": {"v": ["6"]}},
        {"variables_contains": {"w": [""]}},
        {"variables_empty": ["v"]},
        {"calls": [["get_v"]]},
        {"calls": [["get_v"], ["get_v", {"x": 1}]]},
        {"calls_any_order": [["get_v"], ["other"]]},
        {"calls_any_order": [["get_v"]]},
        {"calls_count": {"get_v": 1}},
        {"no_calls": ["@GET_V"]},
        {"only_tools": ["@OTHER"]},
        {"raw_tools": ["GET_V", "GET_V"]},
        {"namespace": "other"},
        {"llm_calls": 0},
        {"llm_calls_max": 0},
        {"llm_contains": [["5", "other"]]},
        {"llm_contains": [[], ["a second call"]]},
        {"llm_not_contains": [["5"]]},
        {"agent_calls": [{"goal": "x"}]},
        {"delay_total": [0, 0.5]},
        {"concurrency_min": 2},
        {"progress_min": 100},
        {"progress_mentions": ["never said"]},
        {"parsed_steps": 2},
    ],
    ids=json.dumps,
)
def test_unmet_expectation_of_run_fails(expect: dict[str, Any]) -> None:
    tools = {"@GET_V": [{"error": "once"}, {"output": 5}]}
    world = {"tools": tools, "llm": ["the model's answer"], "progress": True}
    assert differences(case("run", ANSWER, {"response": "the model's answer"}, **world), compat) == []
    assert differences(case("run", ANSWER, expect, **world), compat) != []


@pytest.mark.parametrize(
    "expect",
    [
        {"none": True},
        {"step_count": 2},
        {"steps": [{}]},
        {"steps": [{"id": "S2"}, {}, {}]},
        {"steps": [{"tool": "@OTHER"}, {}, {}]},
        {"steps": [{"output": "$w"}, {}, {}]},
        {"steps": [{"output": None}, {}, {}]},
        {"steps": [{}, {"args": {"target": "u"}}, {}]},
        {"steps": [{}, {"args": {"nobody": None}}, {}]},
        {"steps": [{"condition": True}, {}, {}]},
        {"steps": [{}, {"is_llm_op": False}, {}]},
        {"steps": [{}, {"is_agent": True}, {}]},
        {"steps": [{}, {}, {"is_respond": False}]},
        {"steps": [{"parallel_group": "par_0"}, {}, {}]},
        {"steps": [{"evaluate": [[{"v": 1}, True]]}, {}, {}]},
        {"steps": [{"misspelt": 1}, {}, {}]},
        {"groups": [["S1"]]},
        {"not_silent": ["S9"]},
        {"raw_tools_absent": ["@GET_V"]},
    ],
    ids=json.dumps,
)
def test_unmet_expectation_of_parse_fails(expect: dict[str, Any]) -> None:
    assert differences(case("parse", ANSWER, expect), compat) != []


@pytest.mark.parametrize(
    ("kind", "expect"),
    [
        ("validate", {"not_clean": True}),
        ("validate", {"problems": [{"step": "S1", "words": ["undefined"]}]}),
        ("verify", {"ok": False}),
        ("verify", {"ok": True, "violations": [{"step": "S1"}]}),
        ("verify", {"ok": True, "violating_steps": ["S1"]}),
        ("mermaid", {"contains": ["subgraph"]}),
        ("mermaid", {"not_contains": ["S1"]}),
        ("mermaid", {"regex": ["S9"]}),
        ("mermaid", {"not_regex": ["^graph"]}),
    ],
)
def test_unmet_expectation_of_findings_fails(kind: str, expect: dict[str, Any]) -> None:
    assert differences(case(kind, ANSWER, expect), compat) != []


@pytest.mark.parametrize(
    "broken",
    [
        {"validate_plan": lambda plan: ["[S1] Undefined variable $v"]},
        {"validate_plan": lambda plan: None},
        {"LTPParser": SimpleNamespace(parse=lambda raw: None)},
        {"LTPParser": SimpleNamespace(parse=lambda raw: 1 / 0)},
    ],
)
def test_broken_product_fails_cases(broken: dict[str, Any]) -> None:
    clean = case("validate", ANSWER, {"clean": True})
    assert differences(clean, compat) == []
    assert differences(clean, product(**broken)) != []


@pytest.mark.parametrize(
    "verdict",
    [
        compat.PlanVerdict([]),
        SimpleNamespace(ok=False, violations=[], reason=lambda: "why"),
        compat.PlanVerdict([compat.Violation("S1", "other_rule", "other")]),
    ],
)
def test_wrong_or_inconsistent_verdict_fails(verdict: Any) -> None:
    expect = {"ok": False, "violations": [{"step": "S1", "words_any": ["denied"]}]}
    denied = case("verify", ANSWER, expect, policy={"denied_tools": ["@GET_V"]})
    assert differences(denied, compat) == []
    assert differences(denied, product(verify_plan=lambda plan, policy: verdict)) != []


@pytest.mark.parametrize("kind", ["parse", "validate", "verify", "mermaid", "run", "micro"])
def test_unknown_expectation_is_never_met(kind: str) -> None:
    assert differences(case(kind, ANSWER, {"respnse": "x"}), compat) == [
        f"the expectation 'respnse' is unknown for kind {kind}"
    ]


# ---------------------------------------------------------------- compiling


def test_model_answer_is_compiled_and_run() -> None:
    expect = {"step_count": 3, "response": "m", "prompt_contains": ["fly", "by night"]}
    met = case("micro", ANSWER, expect, llm=["m"], goal="fly", context="by night")
    assert differences(met, compat) == []
    assert len(differences(case("micro", ANSWER, expect), compat)) == 3


def test_unavailable_model_gives_no_plan() -> None:
    assert differences(case("micro", {"raise": "CustomError"}, {"none": True}), compat) == []
    assert differences(case("micro", {"raise": "CustomError"}, {"step_count": 1}), compat) != []


# ---------------------------------------------------------------- bounds and times


def test_case_that_hangs_is_abandoned() -> None:
    def for_ever(plan: Any) -> list[str]:
        while True:
            pass

    endless = case("validate", ANSWER, {"clean": True}, timeout=0.2)
    assert differences(endless, product(validate_plan=for_ever)) == ["it did not end within 0.2 s"]


def test_run_that_swallows_interrupts_is_abandoned() -> None:
    class Stubborn:
        async def execute(self, *_: object, **__: object) -> dict[str, Any]:
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                while True:
                    pass

    endless = case("run", ANSWER, {}, timeout=0.2)
    assert differences(endless, product(LTPRuntime=Stubborn)) == ["it did not end within 0.2 s"]


def test_waits_are_summed_and_not_slept() -> None:
    plan = 'S1: @GET_V () > $v ON_FAIL @RETRY(3, delay=100, backoff=1)\nS2: @RESPOND ("end")'
    waits = case("run", plan, {"delay_total": [300, 300]}, tools={"get_v": [{"error": "x"}]})
    assert differences(waits, compat) == []


def test_only_may_raise_allows_exception() -> None:
    raising = product(LTPParser=SimpleNamespace(parse=lambda raw: 1 / 0))
    assert differences(case("parse", "", {"may_raise": True}), raising) == []
    assert differences(case("parse", "", {}), raising) == ["ZeroDivisionError was raised: 'division by zero'"]


# ---------------------------------------------------------------- the form


def test_long_texts_are_abbreviated() -> None:
    short = {"$join": ["a", {"$repeat": "b", "n": 3}, {"$lines": "{i}<{p}", "from": 1, "to": 2}]}
    assert written_out([short]) == ["abbb1<0\n2<1"]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "x"}', '{"id": "x", "area": "a", "kind": "k", "plan": "", "expect": {}}']
)
def test_invalid_line_is_reported_with_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(BadCase, match=r"cases\.jsonl, line 2: "):
        read_cases(file)


# ---------------------------------------------------------------- the command


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), *map(str, arguments)]
    return forked.run(command, capture_output=True, text=True)


def test_last_line_is_summary_and_exit_status_reports_failure(tmp_path: Path) -> None:
    lines = [
        {"id": i, "area": "a", "kind": "parse", "plan": plan, "expect": {"none": True}}
        for i, plan in (("one", ""), ("two", ANSWER))
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    both, first = run("ltp", file), run("ltp", file, "--id", "one", "-v")
    assert both.returncode == 1
    assert both.stdout.splitlines()[0] == "FAIL two"
    assert both.stdout.splitlines()[-1] == "1 passed, 1 failed"
    assert (first.returncode, first.stdout) == (0, "ok   one\n1 passed, 0 failed\n")


@pytest.mark.parametrize("arguments", [(), ("ltp",), ("other", "x"), ("ltp", "not-there.jsonl")])
def test_wrong_usage_exits_with_two(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 2


def test_unknown_case_id_is_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text("")
    assert run("ltp", file, "--id", "nobody").returncode == 2


# ---------------------------------------------------------------- the area dag


def dag_case(expect: dict[str, Any], mode: str = "run", **more: Any) -> Any:
    step = {"index": "1", "title": "x", "tool": "t", "args": {}, "depends_on": []}
    plan = more.pop("plan", {"steps": [step, {**step, "index": "2", "depends_on": ["1"]}]})
    return dag_case_of(
        {"id": "c", "area": "a", "plan": plan, "run": {"mode": mode}, "expect": expect, **more}
    )


def test_accepted_plan_expected_to_be_refused_fails() -> None:
    assert dag.differences(dag_case({"invalid": True, "call_count": 0}))
    assert not dag.differences(dag_case({"invalid": True, "call_count": 0}, plan=["no", "plan"]))


def test_refused_plan_expected_to_pass_fails() -> None:
    assert dag.differences(dag_case({"success": True}, plan={"steps": None}))
    assert dag.differences(dag_case({"success": False, "error_contains": "nowhere"}, plan={"steps": None}))
    assert not dag.differences(dag_case({"success": False, "error_contains": "steps"}, plan={"steps": None}))


def test_wrong_levels_and_diagrams_fail() -> None:
    assert "batches" in dag.differences(dag_case({"batches": [["1", "2"]]}, "render"))[0]
    assert dag.differences(dag_case({"render": ["○ 2", "○ 1"]}, "render"))
    assert dag.differences(dag_case({"render_line_count": 2}, "render"))
    assert dag.differences(dag_case({"render_order": ["2", "1"]}, "render"))
    assert dag.differences(dag_case({"rendre": []}, "render"))
    good = {
        "batches": [["1"], ["2"]],
        "render": ["○ 1", "^$", "○ 2"],
        "render_line_count": 3,
        "render_order": ["1", "2"],
    }
    assert not dag.differences(dag_case(good, "render"))


def test_wrongly_saved_plan_fails() -> None:
    assert dag.differences(dag_case({"saved_depends_on": {"2": []}}, "save_load"))
    assert not dag.differences(dag_case({"saved_depends_on": {"2": ["1"]}}, "save_load"))


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"success": True, "call_count": 2, "calls": ["one", "two"], "peak": 1}, True),
        ({"success": False}, False),
        ({"call_count": 3}, False),
        ({"call_count": True}, False),
        ({"calls": ["two", "one"]}, False),
        ({"not_called": ["two"]}, False),
        ({"args": {"2": {"x": "of one"}}}, True),
        ({"args": {"2": {"x": "of two"}}}, False),
        ({"makespan_ms": [300, 301]}, True),
        ({"makespan_ms": [0, 299]}, False),
        ({"variables": {"v": "of one"}}, True),
        ({"variables_exact": {}}, False),
        ({"steps": {"1": {"success": True}}}, True),
        ({"steps": {"1": {"success": False}}}, False),
        ({"callbacks_order": ["start:1", "done:1", "start:2", "done:2"]}, True),
        ({"state": {"completed_steps": ["1", "2"], "status": "completed"}}, True),
        ({"state": {"completed_steps": ["1"]}}, False),
        ({"of_no_meaning": 1}, False),
    ],
)
def test_run_is_compared_with_expectation(expect: dict[str, Any], holds: bool) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": [], "result_variable": "v"}
    two = {"index": "2", "title": "b", "tool": "two", "args": {"x": "${v}"}, "depends_on": ["1"]}
    tools = {"one": {"output": "of one", "delay_ms": 100}, "two": {"output": "ok", "delay_ms": 200}}
    case = dag_case(expect, plan={"title": "p", "steps": [one, two]}, tools=tools)
    assert (not dag.differences(case)) == holds


_STATE = {"plan_id": "p-1", "status": "running", "completed_steps": ["1"], "variables": {"v": "A"}}


@pytest.mark.parametrize(
    ("told", "expect"),
    [
        (json.dumps(_STATE), {"success": True, "calls": ["two"], "args": {"2": {"x": "A"}}}),
        (json.dumps(_STATE)[:-5], {"success": False, "call_count": 0, "error_contains": "not JSON"}),
        (json.dumps({**_STATE, "plan_id": "p-2"}), {"success": False, "call_count": 0}),
        (json.dumps({**_STATE, "completed_steps": ["1", "2"]}), {"success": True, "call_count": 0}),
    ],
)
def test_state_file_is_adopted(told: str, expect: dict[str, Any]) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": [], "result_variable": "v"}
    two = {"index": "2", "title": "b", "tool": "two", "args": {"x": "${v}"}, "depends_on": ["1"]}
    given: dict[str, Any] = {"id": "c", "area": "a", "plan": {"id": "p-1", "title": "p", "steps": [one, two]}}
    run = {"mode": "stages", "stages": [{"mode": "resume", "state_text": told}, {"mode": "resume"}]}
    again = {"success": True, "call_count": 0} if expect["success"] else {}
    assert dag.differences(dag_case_of({**given, "run": run, "expect": {"stages": [expect, again]}})) == []


def test_state_beyond_write_limit_is_lost_and_earlier_state_is_kept() -> None:
    """The process dies while it writes; the next stage continues after the last complete write."""
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": [], "result_variable": "v"}
    two = {"index": "2", "title": "b", "tool": "two", "args": {"x": "${v}"}, "depends_on": ["1"]}
    tools = {"one": {"output": "A"}, "two": {"script": [{"error": "x"}, {"output": "B"}]}}
    stages = [{"mode": "run"}, {"mode": "resume", "state_write_limit_bytes": 60}, {"mode": "resume"}]
    ends: list[dict[str, Any]] = [
        {"success": False, "calls": ["one", "two"]},
        {"crashed": True, "success": False, "calls": ["two"], "state": {"completed_steps": ["1"]}},
        {"success": True, "calls": ["two"], "args": {"2": {"x": "A"}}},
    ]
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "title": "p", "steps": [one, two]}, "tools": tools}
    run = {"mode": "stages", "stages": stages}
    assert dag.differences(dag_case_of({**given, "run": run, "expect": {"stages": ends}})) == []


def test_plan_edited_between_stages_must_be_accepted() -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    two = {"index": "2", "title": "b", "tool": "two", "args": {}, "depends_on": ["1"]}
    other = {"steps": [one, {**two, "tool": "three"}]}
    stages = [
        {"mode": "run"},
        {"mode": "resume", "edit_plan": other},
        {"mode": "resume", "edit_plan": {"title": "q"}},
        {"mode": "resume", "edit_plan": other, "accept_changed_plan": True},
    ]
    ends: list[dict[str, Any]] = [
        {"success": False},
        {"success": False, "call_count": 0, "error_contains": "step 2"},
        {"success": False, "calls": ["two"]},
        {"success": True, "calls": ["two"]},
    ]
    tools = {"two": {"script": [{"error": "x"}, {"error": "x"}, {"output": "ok"}]}}
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "title": "p", "steps": [one, two]}, "tools": tools}
    run = {"mode": "stages", "stages": stages}
    assert dag.differences(dag_case_of({**given, "run": run, "expect": {"stages": ends}})) == []


@pytest.mark.parametrize(("asked", "found"), [("plan-ab", True), ("plan-abcd", True), ("plan-x", False)])
def test_run_is_resumed_by_plan_id_or_prefix_only(asked: str, found: bool) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    tools = {"one": {"script": [{"error": "x"}, {"output": "ok"}]}}
    end = {"success": True, "calls": ["one"]} if found else {"success": False, "call_count": 0}
    given = {"id": "c", "area": "a", "plan": {"id": "plan-abcd", "steps": [one]}, "tools": tools}
    run = {"mode": "stages", "stages": [{"mode": "run"}, {"mode": "resume", "id": asked}]}
    expect = {"stages": [{"success": False}, end]}
    assert dag.differences(dag_case_of({**given, "run": run, "expect": expect})) == []


@pytest.mark.parametrize(
    ("expect", "met"),
    [
        ({"variables": {"v": "<one result>"}, "order": ["1", "2"], "calls": []}, True),
        ({"variables_exact": {"v": "<one result>", "k": "K"}, "replanned": False}, True),
        ({"steps": {"2": {"success": True}}, "args": {"2": {"x": "K-<one result>"}}}, True),
        ({"variables": {"v": "ok"}}, False),
        ({"variables_exact": {"v": "<one result>"}}, False),
    ],
)
def test_dry_run_expectations_are_compared(expect: dict[str, Any], met: bool) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": [], "result_variable": "v"}
    two = {"index": "2", "title": "b", "tool": "two", "args": {"x": "${k}-${v}"}, "depends_on": ["1"]}
    plan = {"id": "p-1", "variables": {"k": "K"}, "steps": [one, two]}
    given = {"id": "c", "area": "a", "plan": plan, "run": {"mode": "dry_run"}}
    assert (dag.differences(dag_case_of({**given, "expect": expect})) == []) is met


@pytest.mark.parametrize(
    ("expect", "met"),
    [
        ({"steps": {"1": {"success": False}, "2": {"success": False}}}, True),
        ({"steps": {"1": {"success": False, "error_contains": "x"}}}, True),
        ({"steps": {"2": {"success": True}}}, False),
        ({"steps": {"1": {"success": False, "error_contains": "y"}}}, False),
        ({"state": {"status": "failed", "variables": {}}}, True),
    ],
)
def test_unreached_step_has_not_succeeded(expect: dict[str, Any], met: bool) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    two = {"index": "2", "title": "b", "tool": "two", "args": {}, "depends_on": ["1"]}
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one, two]}, "run": {"mode": "run"}}
    given |= {"tools": {"one": {"error": "x"}}, "expect": expect}
    assert (dag.differences(dag_case_of(given)) == []) is met


def test_unfinished_run_is_running() -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    run = {"mode": "stages", "stages": [{"mode": "run", "cancel_at_ms": 5}, {"mode": "resume"}]}
    ends: list[dict[str, Any]] = [
        {"cancelled": True, "state": {"status": "running", "completed_steps": []}},
        {"success": True, "state": {"status": "completed", "completed_steps": ["1"]}},
    ]
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one]}, "run": run}
    given |= {"tools": {"one": {"delay_ms": 10}}, "expect": {"stages": ends}}
    assert dag.differences(dag_case_of(given)) == []


def test_no_stage_of_a_plan_that_is_refused_can_succeed() -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {"x": "${nope}"}, "depends_on": []}
    run = {"mode": "stages", "stages": [{"mode": "run"}]}
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one]}, "run": run}
    failed = {"stages": [{"success": False, "call_count": 0, "steps": {"1": {"success": False}}}]}
    assert dag.differences(dag_case_of({**given, "expect": failed})) == []
    assert dag.differences(dag_case_of({**given, "expect": {"stages": [{"success": True}]}})) != []


def test_without_a_recorded_run_there_is_nothing_to_resume() -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    unrecorded = {"mode": "run", "checkpoint": False}
    run = {"mode": "stages", "stages": [unrecorded, {"mode": "resume"}, {"mode": "run"}, {"mode": "resume"}]}
    ends: list[dict[str, Any]] = [
        {"success": True, "calls": ["one"]},
        {"success": False, "call_count": 0, "error_contains": "no run"},
        {"success": True, "calls": ["one"]},
        {"success": True, "call_count": 0},
    ]
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one]}, "run": run}
    assert dag.differences(dag_case_of({**given, "expect": {"stages": ends}})) == []


@pytest.mark.parametrize(("is_guarded", "used"), [(True, 3), (False, 2)])
def test_budget_counts_calls_of_conversation_and_guarded_plan(is_guarded: bool, used: int) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    guards = {"budget_total": 5, "used_by_conversation": 2}
    run = {"mode": "run", "guards": guards, "enable_guards": is_guarded}
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one]}, "run": run}
    assert dag.differences(dag_case_of({**given, "expect": {"success": True, "budget_used": used}})) == []


@pytest.mark.parametrize("script", [{"raise": "zork"}, {"raise": "ValueError", "message": "zork"}])
def test_scripted_exception_has_message(script: dict[str, Any]) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": []}
    given = {"id": "c", "area": "a", "plan": {"id": "p-1", "steps": [one]}, "tools": {"one": script}}
    expect = {"success": False, "steps": {"1": {"success": False, "error_contains": "zork"}}}
    assert dag.differences(dag_case_of({**given, "run": {"mode": "run"}, "expect": expect})) == []


@looks_inside
def test_tool_that_modifies_arguments_modifies_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {}, "depends_on": [], "result_variable": "v"}
    two = {"index": "2", "title": "b", "tool": "two", "args": {"x": "${v}"}, "depends_on": ["1"]}
    tools = {"one": {"output": {"deep": [{"a": 1}]}}, "two": {"mutate_args": True}}
    expect = {"variables": {"v": {"deep": [{"a": 1}]}}, "args": {"2": {"x": {"deep": [{"a": 1}]}}}}
    case = dag_case(expect, plan={"title": "p", "steps": [one, two]}, tools=tools)
    assert dag.differences(case) == []

    monkeypatch.setattr("callsheet.runtime.gateway.own_copy", dict)
    assert dag.differences(case) != []


@pytest.mark.parametrize("mode", ["run", "dry_run"])
@pytest.mark.parametrize(
    "call", [{"tool": "ONE", "args": {"x": 1}}, {"tool_calls": [{"name": "one", "args": {"x": 1}}]}]
)
def test_tool_may_be_named_in_either_place_and_case(call: dict[str, Any], mode: str) -> None:
    plan = {"steps": [{"index": "1", "title": "a", "depends_on": [], "result_variable": "v", **call}]}
    expect = {
        "run": {"variables": {"v": 5}, "args": {"1": {"x": 1}}},
        "dry_run": {"dry_args": {"1": {"x": 1}}},
    }
    assert dag.differences(dag_case(expect[mode], mode, plan=plan, tools={"one": {"output": 5}})) == []


def test_unknown_expectation_of_plan_tools_fails() -> None:
    assert "not looked at" in dag.differences(dag_case({"of_no_meaning": 1}, "tool_schemas"))[0]
    call = {"mode": "plan_tool", "name": "plan_execute", "arguments": {"plan_id": "none"}}
    case = {"id": "c", "area": "a", "plan": {}, "run": call, "expect": {"of_no_meaning": 1}}
    assert "not looked at" in dag.differences(dag_case_of(case))[0]


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        ({"response_success": False, "response_error": True, "call_count": 0, "plan_saved": False}, True),
        ({"response_success": True}, False),
        ({"response_error": False}, False),
        ({"call_count": 1}, False),
        ({"plan_saved": True}, False),
        ({"response_has": ["error"]}, True),
        ({"response_has": ["steps"]}, False),
        ({"response_size_max": 10}, False),
        ({"response": {"success": True}}, False),
    ],
)
def test_plan_tool_call_is_compared_with_expectation(expect: dict[str, Any], holds: bool) -> None:
    call = {"mode": "plan_tool", "name": "plan_execute", "arguments": {"plan_id": "none"}}
    case = dag_case_of({"id": "c", "area": "a", "plan": {}, "run": call, "expect": expect})
    assert (not dag.differences(case)) == holds


@pytest.mark.parametrize(
    ("tools", "guards", "expect"),
    [
        ({"one": {"raise": "down"}}, {}, {"response_success": False, "calls": ["one"]}),
        (
            {"one": {"script": [{"output": "a"}, {"error": "down"}]}},
            {},
            {"response_success": False, "calls": ["one", "one"]},
        ),
        ({}, {"per_tool_cap": 1}, {"response_success": False, "calls": ["one"]}),
        ({}, {"budget_total": 2}, {"response_success": True, "calls": ["one", "one"], "budget_used": 2}),
    ],
)
def test_scripted_tools_follow_scripts_and_guards(
    tools: dict[str, Any], guards: dict[str, Any], expect: dict[str, Any]
) -> None:
    one = {"index": "1", "title": "a", "tool": "one", "args": {"n": 1}, "depends_on": []}
    two = {**one, "index": "2", "args": {"n": 2}, "depends_on": ["1"]}
    call = {
        "mode": "plan_tool",
        "name": "plan_create_and_execute",
        "arguments": {"goal": "g"},
        "planner": [{"title": "p", "steps": [one, two]}],
        "guards": guards,
    }
    case = {"id": "c", "area": "a", "plan": {}, "tools": tools, "run": call, "expect": expect}
    assert dag.differences(dag_case_of(case)) == []
