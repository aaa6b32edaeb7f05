"""The notes that observers receive about each step."""

from __future__ import annotations

import json

from tests.machine.driving import FACTS, Bench, plan_of

from callsheet.frontends.dag import parse_dag
from callsheet.machine import (
    Cut,
    Fact,
    Failed,
    Limits,
    Machine,
    PlanCompiled,
    Started,
    Succeeded,
    compile_plan,
)
from callsheet.machine.notes import CallPlace, Note, NoteKind, StepOutcome

STARTED, FINISHED, SKIPPED, ENDED = NoteKind.STARTED, NoteKind.FINISHED, NoteKind.SKIPPED, NoteKind.ENDED


def test_step_notes_its_start_and_finish_with_value() -> None:
    bench = Bench("S1: @A () > $a:int")
    assert bench.notes == [Note(STARTED, "S1")]
    bench.ok("S1.0.1", "5")
    assert bench.notes[1] == Note(FINISHED, "S1", "", "a", 5)


def test_end_is_last_note() -> None:
    bench = Bench('S1: @RESPOND ("x")')
    assert bench.notes[-1].kind is ENDED
    assert bench.story == [(STARTED, "S1"), (FINISHED, "S1"), (ENDED, "S1")]


def test_skipped_step_never_starts() -> None:
    assert Bench('S1: ?IF (1 == 2) THEN @A ()\nS2: @RESPOND ("x")').story[0] == (SKIPPED, "S1")


def test_skipped_respond_does_not_finish() -> None:
    story = Bench('S1: @RESPOND ($never)\nS2: @RESPOND ("x")').story
    assert (SKIPPED, "S1") in story
    assert (FINISHED, "S1") not in story


def test_loop_cut_by_limit_is_noted_with_results() -> None:
    bench = Bench('S1: ?FOREACH ($x in ["a", "b", "c"]) THEN @A (x=$x) > $a', limits=Limits(max_calls=2))
    bench.ok("S1.0.1", 1)
    bench.ok("S1.1.1", 2)
    *_, finished, _ = bench.notes
    assert finished.outcome is StepOutcome.STOPPED
    assert (finished.var, finished.value) == ("a", [1, 2])
    assert "its limit is 2" in finished.detail


def test_loop_ended_by_failed_item_is_noted_failed_with_results() -> None:
    text = 'S1: ?FOREACH ($x in ["a", "b", "c"]) THEN @A (x=$x) > $a ON_FAIL TERMINATE "no: $a"'
    bench = Bench(text)
    bench.ok("S1.0.1", 1)
    bench.fail("S1.1.1", "503")
    _, item, finished, ended = bench.notes
    assert (item.kind, item.detail) == (NoteKind.FAILED, "503")
    assert finished == Note(FINISHED, "S1", "503", "a", [1, "503"], is_failure=True)
    assert (finished.outcome, ended.kind) == (StepOutcome.FAILED, ENDED)


def test_loop_left_by_jump_at_failed_item_has_failed() -> None:
    bench = Bench('S1: ?FOREACH ($x in ["a", "b"]) THEN @A (x=$x) > $a ON_FAIL GOTO S2\nS2: @B ()')
    bench.ok("S1.0.1", 1)
    bench.fail("S1.1.1", "503")
    _, item, finished, jumped, _ = bench.notes
    assert (item.kind, jumped.kind) == (NoteKind.FAILED, NoteKind.JUMPED)
    assert (finished.kind, finished.outcome, finished.value) == (FINISHED, StepOutcome.FAILED, [1, "503"])


def test_loop_of_jumps_has_not_failed() -> None:
    bench = Bench("S1: ?FOREACH ($x in [1]) THEN GOTO S2\nS2: @B ()")
    assert StepOutcome.FAILED not in [note.outcome for note in bench.notes]


def test_loop_continuing_after_failed_item_is_ok() -> None:
    bench = Bench('S1: ?FOREACH ($x in ["a", "b"]) THEN @A (x=$x) > $a')
    bench.fail("S1.0.1", "503")
    bench.ok("S1.1.1", 2)
    *_, finished, _ = bench.notes
    assert (finished.outcome, finished.value) == (StepOutcome.OK, ["503", 2])


def test_failed_step_notes_error_and_does_not_finish() -> None:
    bench = Bench('S1: @A () > $a\nS2: @RESPOND ("x")')
    bench.fail("S1.0.1", "503")
    assert bench.notes[1] == Note(NoteKind.FAILED, "S1", "503")
    assert (FINISHED, "S1") not in bench.story


def test_retry_notes_its_error() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)")
    bench.fail("S1.0.1", "503")
    assert bench.notes[1] == Note(NoteKind.RETRYING, "S1", "503", at=CallPlace(attempt=2, attempts=2))
    bench.fire("S1.0.2")
    bench.fail("S1.0.2", "504")
    assert bench.notes[2] == Note(NoteKind.FAILED, "S1", "504", at=CallPlace(attempt=2, attempts=2))


def test_jump_notes_target() -> None:
    bench = Bench('S1: GOTO S3\nS2: @A ()\nS3: @RESPOND ("x")')
    assert Note(NoteKind.JUMPED, "S1", "S3") in bench.notes


def test_failed_cast_notes_value() -> None:
    bench = Bench("S1: @A () > $a:int")
    bench.ok("S1.0.1", "many")
    (note,) = [n for n in bench.notes if n.kind is NoteKind.CAST_FAILED]
    assert (note.step, note.value) == ("S1", "many")
    assert "int" in note.detail


_CUT, _FACT = Cut("input 1", 5, 8, "characters"), Fact("prompt", "LLM_EXTRACT/2")


def test_truncations_are_noted_before_finish() -> None:
    bench = Bench("S1: @LLM_EXTRACT ($x) > $a")
    bench.feed(Succeeded("S1.0.1", "5", (_FACT, _CUT)))
    assert bench.notes[1:4] == [
        Note(NoteKind.FACT, "S1", "prompt: LLM_EXTRACT/2"),
        Note(NoteKind.CUT, "S1", "input 1 cut to 5 of 8 characters"),
        Note(FINISHED, "S1", "", "a", "5"),
    ]


def test_failure_notes_truncations_and_item_number() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r")
    bench.feed(Failed("S1.1.1", "broken", (_CUT,)))
    assert bench.notes[1:] == [
        Note(NoteKind.CUT, "S1", "item 2: input 1 cut to 5 of 8 characters"),
        Note(NoteKind.FAILED, "S1", "broken", at=CallPlace(item=2, items=2)),
    ]


def test_retry_and_new_plan_note_truncations() -> None:
    bench = Bench("S1: @A () ON_FAIL @RETRY(1)\nS2: RE-PLAN ()")
    bench.feed(Failed("S1.0.1", "503", (_CUT,)))
    bench.fire("S1.0.2")
    bench.ok("S1.0.2")
    bench.feed(PlanCompiled("S2.0.1", plan_of('S1: @RESPOND ("y")'), FACTS, (_CUT,)))
    assert [note.step for note in bench.notes if note.kind is NoteKind.CUT] == ["S1", "S2"]


def test_remarks_do_not_affect_run() -> None:
    plain, remarked = (Bench("S1: @A () > $a\nS2: @B ($a)") for _ in range(2))
    assert plain.feed(Succeeded("S1.0.1", 1)) == remarked.feed(Succeeded("S1.0.1", 1, (_CUT, _FACT)))


def test_new_plan_is_noted() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    bench.compiled("S1.0.1", 'S1: @RESPOND ("y")')
    assert (NoteKind.REPLANNED, "S1") in bench.story


def test_cancelled_run_is_noted() -> None:
    bench = Bench("S1: @A ()")
    bench.cancel()
    assert bench.notes[-1] == Note(ENDED, "", "cancelled")


def test_group_members_finish_in_text_order() -> None:
    bench = Bench("@PARALLEL {\n S1: @A ()\n S2: @B ()\n}")
    bench.ok("S2.0.1")
    bench.ok("S1.0.1")
    assert bench.story == [
        (STARTED, "S1"),
        (STARTED, "S2"),
        (NoteKind.SETTLED, "S2"),
        (FINISHED, "S1"),
        (FINISHED, "S2"),
        (ENDED, ""),
    ]


def test_loop_of_a_group_settles_when_its_own_items_are_done() -> None:
    bench = Bench("@PARALLEL {\n S1: @A ()\n S2: ?FOREACH ($i IN [1, 2]) THEN @READ ($i)\n}")
    bench.ok("S2.0.1")
    assert bench.story[2:] == []
    bench.ok("S2.1.1")
    assert bench.story[2:] == [(NoteKind.SETTLED, "S2")]


def test_foreach_starts_and_finishes_once() -> None:
    bench = Bench("S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r")
    bench.ok("S1.0.1", "a")
    bench.fail("S1.1.1", "b")
    assert bench.story == [(STARTED, "S1"), (NoteKind.FAILED, "S1"), (FINISHED, "S1"), (ENDED, "")]


def test_observer_does_not_affect_run() -> None:
    """A machine without an observer issues the same commands."""
    text = "S1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r"
    unwatched = Machine(compile_plan(plan_of(text), FACTS)).feed(Started({}))
    assert unwatched == list(Bench(text).waiting.values())


def test_reference_without_value_in_text_is_noted_with_its_path() -> None:
    bench = Bench('S1: @READ (x=1) > $a\nS2: @READ (x="$a.name: $a.size", y=$a.name)\nS3: @RESPOND ("[$b]")')
    bench.ok("S1.0.1", {"size": 3})
    bench.ok("S2.0.1", None)
    empty = [(note.step, note.detail) for note in bench.notes if note.kind is NoteKind.EMPTY]
    assert empty == [
        ("S2", "$a.name has no value: the text has nothing there"),
        ("S3", "$b has no value: the text has nothing there"),
    ]


def test_reference_without_value_is_noted_for_its_item_of_loop() -> None:
    bench = Bench('S1: ?FOREACH ($x in [{"n": 1}, {}]) THEN @READ (x="n=$x.n")')
    assert [(note.kind, note.at) for note in bench.notes[1:]] == [(NoteKind.EMPTY, CallPlace(2, 2, 1, 1))]


def test_null_in_text_of_graph_is_noted() -> None:
    step = {"index": "1", "title": "", "tool": "read", "args": {"x": "is ${a}"}, "depends_on": []}
    plan = parse_dag(json.dumps({"variables": {"a": None}, "steps": [step]})).require()
    details = [note.detail for note in Bench(plan).notes if note.kind is NoteKind.EMPTY]
    assert details == ["$a has no value: the text says null there"]
