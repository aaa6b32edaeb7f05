"""An objection of the policy ends the run before anything is sent, whatever the plan says."""

from __future__ import annotations

import json

from tests.machine.driving import plan_of
from tests.machine.monitor.guarding import FACTS, Guarded

from callsheet.frontends.dag import parse_dag, to_dag
from callsheet.ir import JSON, Plan
from callsheet.machine import Answered, Approval, Ask, CallTool, Finish, Limits, Status, Verdict
from callsheet.machine.limits import AUTO

LEAK = 'S1: @READ ("a") > $a\nS2: @SEND ("see $a"{})\nS3: @RESPOND ("done")'


def test_refusal_names_call_rule_and_data_path() -> None:
    bench = Guarded(LEAK.format(""))
    commands = bench.ok("S1.0.1", "x")
    assert [type(command) for command in commands] == [Finish]
    result = bench.result
    assert result.status is Status.REFUSED
    assert result.ended_at == "S2"
    assert result.refusal is None
    found = result.objection
    assert found is not None
    assert (found.step, found.tool, found.rule, found.argument) == ("S2", "SEND", "flow", "x")
    assert (found.label, found.flow, found.help) == ("U/priv", ("S1", "S2"), "ask first")
    assert result.error == "the policy refuses S2 @SEND: private data would reach the outside"


def test_on_fail_does_not_catch_refusal() -> None:
    for then in (" ON_FAIL GOTO S3", " ON_FAIL @RETRY(3)", ' ON_FAIL TERMINATE ("x")'):
        bench = Guarded(LEAK.format("").replace(")\nS3", f"){then}\nS3"))
        bench.ok("S1.0.1", "x")
        assert bench.result.status is Status.REFUSED


def test_pending_group_members_do_not_start_after_refusal() -> None:
    text = 'S1: @READ ("a") > $a\n@PARALLEL {\n S2: @KEEP ("x")\n S3: @SEND ($a)\n}'
    bench = Guarded(text)
    commands = bench.ok("S1.0.1", "x")
    assert [type(command) for command in commands] == [Finish]
    assert bench.result.usage.calls == 1


def test_refused_call_is_not_counted_as_used() -> None:
    bench = Guarded(LEAK.format(""))
    bench.ok("S1.0.1", "x")
    assert bench.result.usage.calls == 1


def test_refused_run_ignores_events() -> None:
    bench = Guarded(LEAK.format(""))
    bench.ok("S1.0.1", "x")
    assert bench.ok("S1.0.1", "y") == []


def test_terminating_message_is_judged_with_error_text() -> None:
    text = 'S1: @VAULT ("k") > $k ON_FAIL TERMINATE ("it said $k")'
    bench = Guarded(text)
    bench.fail("S1.0.1", "the key is 123")
    assert bench.result.status is Status.REFUSED
    assert "123" not in bench.result.response


def test_implicit_answer_is_judged() -> None:
    for text in ('S1: @VAULT ("k") > $k', 'S1: @VAULT ("k") > $k\nS2: @RESPOND ("$k")'):
        bench = Guarded(text)
        bench.ok("S1.0.1", "123")
        assert bench.result.status is Status.REFUSED
        assert "123" not in bench.result.response


def test_approval_request_has_labels_of_arguments() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: @PAY ($a, 5) > $b')
    bench.ok("S1.0.1", "ada")
    asked = bench.waiting["S2.0.1"]
    assert isinstance(asked, Ask)
    assert isinstance(asked.asked, Approval)
    assert asked.asked.why == ("it pays",)
    assert asked.asked.labels == {"x": {"label": "U/priv", "from": ["S1"]}}
    (command,) = bench.feed(Answered("S2.0.1", asked.asked.digest, Verdict.APPROVE))
    assert isinstance(command, CallTool)
    assert bench.feed(Answered("S2.0.1", asked.asked.digest, Verdict.APPROVE)) == []


def test_digest_covers_labels() -> None:
    digests: set[str] = set()
    for tool in ("READ", "SEARCH", "KEEP"):
        bench = Guarded(f'S1: @{tool} ("a") > $a\nS2: @PAY ($a)')
        bench.ok("S1.0.1", "ada")
        asked = bench.waiting["S2.0.1"]
        assert isinstance(asked, Ask)
        digests.add(asked.asked.digest)
    assert len(digests) == 3


def test_calls_refused_even_with_approval_are_not_asked() -> None:
    bench = Guarded('S1: @SEARCH ("a") > $a\nS2: ?IF ($a == 1) THEN @PAY (5)')
    bench.ok("S1.0.1", 1)
    assert bench.result.status is Status.REFUSED


def test_no_call_starts_early_under_policy() -> None:
    text = "S1: @KEEP (1) > $a\nS2: @READ (2) > $b\nS3: @READ (3) > $c"
    bench = Guarded(text, limits=Limits(schedule=AUTO))
    assert bench.keys == ["S1.0.1"]


def test_graph_refusal_is_final() -> None:
    text = 'S1: @READ (x="a") > $a\nS2: @SEND (x=$a)'
    bench = Guarded(to_dag(plan_of(text)).plan, facts=FACTS)
    bench.ok(bench.keys[0], "x")
    assert bench.result.status is Status.REFUSED
    assert not bench.machine.may_reopen


def graph_of(*steps: dict[str, JSON]) -> Plan:
    return parse_dag(json.dumps({"id": "g", "steps": [{"title": "", **step} for step in steps]})).require()


READS: dict[str, JSON] = {
    "index": "1", "tool": "READ", "args": {"x": "a"}, "depends_on": [], "result_variable": "a",
}  # fmt: skip


def sends(after: str) -> dict[str, JSON]:
    return {"index": "3", "tool": "SEND", "args": {"x": "plain"}, "depends_on": [after]}


def test_pending_graph_call_reveals_success_of_dependencies() -> None:
    keeps: dict[str, JSON] = {"index": "2", "tool": "KEEP", "args": {"x": "${a}"}, "depends_on": ["1"]}
    between: dict[str, JSON] = {"index": "4", "tool": "KEEP", "args": {"x": "x"}, "depends_on": ["2"]}
    for strict, status in ((True, Status.REFUSED), (False, Status.DONE)):
        bench = Guarded(graph_of(READS, keeps, between, sends("4")), strict=strict)
        bench.ok("1.0.1", "x")
        bench.ok("2.0.1", "y")
        bench.ok("4.0.1", "z")
        if not strict:
            bench.ok("3.0.1", "sent")
        assert bench.result.status is status


def test_failed_graph_step_leaves_no_open_calls_in_monitor() -> None:
    bench = Guarded(graph_of(READS, sends("1")))
    bench.fail("1.0.1", "no")
    assert bench.result.status is Status.FAILED
    assert bench.monitor.open_calls.results == {}


def test_late_graph_start_reveals_that_nothing_ended_run() -> None:
    ends: dict[str, JSON] = {
        "index": "2", "tool": "KEEP", "args": {"x": "x"}, "depends_on": ["1"],
        "when": '$a contains "yes"', "on_fail": {"terminate": "no"},
    }  # fmt: skip
    waits: dict[str, JSON] = {"index": "4", "tool": "KEEP", "args": {"x": "x"}, "depends_on": []}
    bench = Guarded(graph_of(READS, ends, waits, sends("4")))
    bench.ok("1.0.1", "yes")
    bench.ok("2.0.1", "it is")
    bench.ok("4.0.1", "z")
    assert bench.result.status is Status.REFUSED
    assert bench.result.ended_at == "3"
