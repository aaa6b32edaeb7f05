"""The document of a run: entries, facts with confidence, needs, the reason of a failure."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from tests.machine.driving import FACTS
from tests.trace.projection.runs import Told, errors_of, scripted, tell

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Call, Effect, Order, Output, Plan, Step
from callsheet.machine import Limits, ToolFacts
from callsheet.ports.calls import ToolFailed
from callsheet.runtime.runs import resume_run
from callsheet.store import Journal
from callsheet.store.events import EventType
from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.graph import Evidence, root_cause
from callsheet.trace.lctl.model import DebugDocument, Fact, Handoff
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import MOST_FACTS, MOST_VISITS, handoff_of
from callsheet.trace.projection.recording import record_of


def handoff(told: Told, at: str | None = None) -> Handoff:
    document = handoff_of(told.record, "run", at)
    assert errors_of(document) == []
    return document


def debug(told: Told) -> DebugDocument:
    document = debug_document_of(told.record, "run")
    assert errors_of(document) == []
    return document


def fact(document: Handoff | DebugDocument, var: str) -> Fact:
    """The last fact of a variable."""
    return [f for f in document.facts.values() if (f.text or "").startswith(f"${var} = ")][-1]


def test_variable_set_again_is_new_fact(journal: Journal) -> None:
    told = tell(
        journal,
        "S1: @READ ($a) > $a\nS2: @READ ($a) > $b\nS3: @RESPOND ($b)",
        scripted(read="new"),
        {"a": "old"},
        FACTS,
    )
    document = handoff(told)
    assert [(f.text, f.derived_from) for f in document.facts.values()] == [
        ('$a = "old"', ()),
        ('$a = "new"', ("F1",)),
        ('$b = "new"', ("F2",)),
    ]
    assert [(e.step, e.agent, e.facts_added) for e in document.entries] == [
        (1, "caller", ("F1",)),
        (2, "S1:@READ", ("F2",)),
        (3, "S2:@READ", ("F3",)),
        (4, "S3:RESPOND", ()),
    ]
    assert document.critical == ("F3",)
    assert document.chain.target == "caller"


@pytest.mark.parametrize(
    ("step", "effect", "value", "why"),
    [
        ("@LOOK ()", Effect.READ, 0.95, "declared"),
        ("@LOOK ()", Effect.PURE, 1.0, "deterministic"),
        ("@LOOK ()", Effect.KEYED, 0.95, "declared"),
        ("@LOOK ()", Effect.UNSAFE, 0.80, "not known"),
        ('@FETCH_PAGE ("https://example.com")', Effect.READ, 0.80, "web"),
        ('@LLM_SUMMARIZE ("x")', Effect.LLM, 0.70, "assumed"),
        ('@LLM_EVALUATE ("x", condition="dry?")', Effect.LLM, 0.90, "checked"),
        ('@LLM_CLASSIFY ("x", categories="1, 2")', Effect.LLM, 0.90, "checked"),
    ],
)
def test_confidence_has_basis(journal: Journal, step: str, effect: Effect, value: float, why: str) -> None:
    facts = {name: ToolFacts(effect, ("x",)) for name in ("LOOK", "FETCH_PAGE")}
    ports = scripted(look="1", fetch_page="1", llm_summarize="1", llm_evaluate="1", llm_classify="1")
    document = handoff(tell(journal, f"S1: {step} > $a\nS2: @RESPOND ($a)", ports, facts=facts))
    assert fact(document, "a").confidence == value
    assert why in (fact(document, "a").note or "")


def test_confidence_decreases_along_data_not_conditions(journal: Journal) -> None:
    told = tell(
        journal,
        'S1: @LLM_SUMMARIZE ("x") > $doubt\n'
        "S2: @READ ($doubt) > $made\n"
        'S3: ?IF ($doubt == "1") THEN @READ (7) > $decided\n'
        "S4: @RESPOND ($made, $decided)",
        scripted(read="1", llm_summarize="1"),
        facts=FACTS,
    )
    document = handoff(told)
    assert fact(document, "made").confidence == 0.70
    assert (
        fact(document, "made").note
        == "$made; basis: read by a declared tool (0.95); 0.7 by what it was made of"
    )
    assert fact(document, "decided").confidence == 0.95
    assert document.entries[3].action == "called @READ; decided by $doubt (F1)"
    assert handoff_of(told.record, "run", by_tool={"LLM_SUMMARIZE": 0.99}).facts["F2"].confidence == 0.95


def test_error_of_continued_step_is_kept_and_not_handed_on(journal: Journal) -> None:
    ports = scripted(read=RuntimeError("no such file"))
    document = handoff(tell(journal, "S1: @READ () > $a\nS2: @RESPOND ($a)", ports, facts=FACTS))
    assert (fact(document, "a").confidence, document.handed_on) == (0.0, ())
    assert document.entries[1].error == "no such file"
    assert document.lists is not None
    assert "a person has to review it" in document.lists.warnings[0]


def test_failed_item_and_failed_cast_have_no_confidence(journal: Journal) -> None:
    def one(args: dict[str, object]) -> str:
        if args["x"] == 2:
            raise ZeroDivisionError
        return "x"

    told = tell(
        journal,
        "S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $all\nS2: @KEEP () > $n:int\nS3: @RESPOND ($all, $n)",
        scripted(read=one, keep="many"),
        facts=FACTS,
    )
    document = handoff(told)
    assert (fact(document, "all").confidence, fact(document, "n").confidence) == (0.0, 0.0)
    assert document.entries[1].action == "called @READ, for each item; 1 item failed"


def test_foreach_results_are_separate_facts_on_request(journal: Journal) -> None:
    def one(args: dict[str, object]) -> str:
        if args["x"] == 2:
            raise ZeroDivisionError
        return f"it is {args['x']}"

    told = tell(
        journal,
        "S1: @LLM_SUMMARIZE (1) > $doubt\n"
        "S2: ?FOREACH ($i IN [1, 2, 3]) THEN @READ ($i, $doubt) > $all\nS3: @RESPOND ($all)",
        scripted(read=one, llm_summarize="x"),
        facts=FACTS,
    )
    record = record_of(told.plan, told.rows, journal.plan_of, with_items=True)
    document = handoff_of(record, "run")
    assert errors_of(document) == []
    items = [document.facts[i] for i in ("F2-0", "F2-1", "F2-2")]
    assert [(f.text, f.confidence) for f in items if f.text and "ZeroDivision" not in f.text] == [
        ('$all.0 = "it is 1"', 0.70),
        ('$all.2 = "it is 3"', 0.70),
    ]
    assert items[1].confidence == 0.0
    assert all(f.derived_from == ("F1",) for f in items)
    assert document.facts["F2"].derived_from == ("F2-0", "F2-1", "F2-2")
    assert document.facts["F2"].confidence == 0.0
    assert document.critical == ("F2-0", "F2-2")  # the list is blocked, its good items are not
    assert document.entries[2].facts_added == ("F2", "F2-0", "F2-1", "F2-2")
    assert "F2-0" not in handoff(told).facts


def test_group_members_share_step_and_read_earlier_values(journal: Journal) -> None:
    told = tell(
        journal,
        "@PARALLEL {\n  S1: @READ ($a) > $a\n  S2: @KEEP ($a) > $b\n"
        "  S3: ?IF (IS_EMPTY($a)) THEN @READ (1)\n}\n"
        "S4: @RESPOND ($a, $b)",
        scripted(read=RuntimeError("no"), keep="kept"),
        {"a": "old"},
        FACTS,
    )
    document = handoff(told, at="S1")
    assert [(e.agent, e.step, e.parallel) for e in document.entries] == [
        ("caller", 1, False),
        ("S1:@READ", 2, True),
        ("S2:@KEEP", 2, True),
        ("S3:@READ", 2, True),
    ]
    assert fact(document, "b").derived_from == ("F1",)
    assert document.entries[3].action == "SKIPPED: the condition does not hold; decided by $a (F1)"
    assert document.chain.parallel_merge


def test_values_read_later_are_critical_and_others_are_context(journal: Journal) -> None:
    told = tell(
        journal,
        "S1: @READ (1) > $a\nS2: @READ (2) > $b\nS3: @READ ($a) > $c\nS4: @RESPOND ($c)",
        scripted(read="x"),
        facts=FACTS,
    )
    assert handoff(told, at="S1").critical == ("F1",)  # S3 reads it, S2 does not
    hop = handoff(told, at="S2")
    assert (hop.critical, hop.lists and hop.lists.context) == (("F1",), ("F2",))
    assert hop.chain.target == "S3:@READ"
    assert hop.instruction == "Next: S3:@READ"
    assert handoff(told).instruction == "The run is done: x"


def test_value_overwritten_before_read_is_not_needed(journal: Journal) -> None:
    text = "S1: @READ (1) > $a\nS2: @READ (2) > $b\nS3: @READ (3) > $a\nS4: @RESPOND ($a, $b)"
    told = tell(journal, text, scripted(read="x"), facts=FACTS)
    assert handoff(told, at="S2").critical == ("F2",)


def test_visit_can_be_named_and_step_means_last_visit(journal: Journal) -> None:
    answers = iter("0123")
    told = tell(
        journal,
        'S1: @READ () > $n\nS2: @READ () > $m\nS3: ?IF ($m != "3") THEN GOTO S2\nS4: @RESPOND ($m)',
        scripted(read=lambda _: next(answers)),
        facts=FACTS,
    )
    assert fact(handoff(told, at="S2"), "m").text == '$m = "3"'
    assert fact(handoff(told, at="S2@1"), "m").text == '$m = "1"'
    assert fact(handoff(told, at="S2@2"), "m").text == '$m = "2"'
    assert handoff(told, at="S2@2").entries[-1].agent == "S2@2:@READ"
    with pytest.raises(CallsheetError, match="RUN060") as refused:
        handoff(told, at="S2@9")
    assert "it has done S1, S2, S3, S2@2" in (refused.value.diagnostics[0].help or "")


def test_visits_of_resumed_graph_have_labels_of_their_own(journal: Journal) -> None:
    """Also that of a step which was skipped at first, as the machine counts no visit of it."""
    works = [False]

    def read(_: dict[str, Any]) -> JSON:
        if not works[0]:
            raise ToolFailed("not yet")
        return 1

    steps = (
        Step("1", Call("READ"), output=Output("a")),
        Step("2", Call("READ"), output=Output("b"), depends_on=("1",)),
    )
    ports = scripted(read=read)
    told = tell(journal, Plan(steps, Order.DAG), ports, facts=FACTS)
    works[0] = True
    asyncio.run(resume_run(journal, "run-0", lambda _placed, _plan: nullcontext(ports)))
    record = record_of(told.plan, journal.events("run-0"), journal.plan_of)
    assert [(visit.label, visit.outcome.value, visit.begun) for visit in record.visits] == [
        ("1", "failed", 0),
        ("2", "skipped", 1),
        ("1@2", "ok", 2),
        ("2@2", "ok", 3),
    ]
    assert handoff_of(record, "run", "2@2").entries[-1].agent == "2@2:@READ"


def test_stopped_step_lasts_until_end_of_run_not_until_late_answer(journal: Journal) -> None:
    told = tell(journal, "S1: @READ () > $a\nS2: @RESPOND ($a)", scripted(read=1), facts=FACTS)
    start, left = told.rows[:2]
    body = {"reason": "no more"}
    cancel = replace(left, seq=3, type=EventType.CANCEL, key=None, step=None, ts=left.ts + 5, body=body)
    late = replace(left, seq=4, type=EventType.LATE, ts=left.ts + 3600, body={"outcome": "ok", "value": 1})
    (visit,) = record_of(told.plan, [start, left, cancel, late], journal.plan_of).visits
    assert (visit.outcome.value, round(visit.seconds)) == ("stopped", 5)


def test_failure_has_likely_cause_from_slice(journal: Journal) -> None:
    told = tell(
        journal,
        "S1: @READ (1) > $good\nS2: @KEEP () > $n:int\nS3: @LLM_SUMMARIZE ($good) > $aside\n"
        'S4: @WRITE ($good, $n) ON_FAIL TERMINATE ("not paid")\nS5: @RESPOND ("paid")',
        scripted(read="1", keep="many", llm_summarize="s", write=RuntimeError("refused")),
        facts=FACTS,
    )
    document = debug(told)
    assert has_failed(told.record)
    assert (document.chain.status, document.chain.failed_at_step) == ("FAILED", 5)
    failed = document.entries[-1]
    assert (failed.agent, failed.error, failed.confidence) == ("S4:@WRITE", "refused", 0.0)
    assert failed.facts_at_failure == ("F1", "F2", "F3")
    cause = root_cause(document)
    assert cause is not None
    assert (cause.step, cause.by) == (3, Evidence.ANALYSIS)
    assert all(entry.duration_ms is not None for entry in document.entries)
    assert {f.rule for f in check([document]).findings} <= {"V08", "V10"}


def test_failure_without_doubtful_data_is_attributed_to_step(journal: Journal) -> None:
    told = tell(
        journal,
        'S1: @READ (1) > $good\nS2: @WRITE ($good) ON_FAIL TERMINATE ("no")\nS3: @RESPOND ($good)',
        scripted(read="1", write=RuntimeError("S1:@READ says no")),
        facts=FACTS,
    )
    cause = root_cause(debug(told))
    assert cause is not None
    assert cause.step == 3


def test_limit_ending_run_is_attributed_to_no_step(journal: Journal) -> None:
    told = tell(
        journal, "S1: @READ () > $a\nS2: GOTO S1", scripted(read="x"), facts=FACTS, limits=Limits(max_steps=5)
    )
    document = debug(told)
    assert document.chain.failed_at_step == document.entries[-1].step
    assert "max_steps" in (document.entries[-1].error or "")
    assert document.analysis is not None
    assert "a limit of the run" in (document.analysis.root_cause or "")


def test_successful_run_has_post_mortem(journal: Journal) -> None:
    told = tell(journal, "S1: @READ () > $a\nS2: @RESPOND ($a)", scripted(read="x"), facts=FACTS)
    assert (debug(told).chain.status, debug(told).analysis, has_failed(told.record)) == ("DONE", None, False)


def test_truncated_values_state_original_size(journal: Journal) -> None:
    told = tell(
        journal,
        "S1: @READ () > $a\nS2: @RESPOND ($a)",
        scripted(read="é\ud800\x00\n" * 50_000),
        facts=FACTS,
    )
    text = fact(handoff(told), "a").text or ""
    assert len(text) < 300
    assert "characters, sha256" in text
    assert check([handoff(told)]).is_ok


def test_long_run_lists_last_visits_individually(journal: Journal) -> None:
    count = MOST_VISITS + 40
    steps = "\n".join(f"S{n}: @READ ($v{n - 1}) > $v{n}" for n in range(1, count + 1))
    inputs = {f"in{n}": n for n in range(MOST_FACTS + 10)}
    told = tell(
        journal,
        f"{steps}\nS{count + 1}: @RESPOND ($v{count}, $v3)",
        scripted(read="x"),
        {"v0": "x", **inputs},
        FACTS,
        Limits(max_steps=5_000, max_calls=5_000),
    )
    for document in (handoff(told), debug(told)):
        assert len(document.entries) == MOST_VISITS + 1
        assert len(document.facts) == MOST_FACTS
        assert document.entries[0].action is not None
        assert "visits are not listed" in document.entries[0].action
        rules = {f.rule for f in check([document]).findings}
        assert not rules & {"T06", "T10", "T11", "T12"}
