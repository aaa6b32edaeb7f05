"""Playback, rerun and fork from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet import CallsheetError, Limits, Runtime, StepFinished, VariableEdited, tool
from callsheet.store.labels import LabelStore, notes_of

PLAN = """
S1: @LOOK (at=$n) > $seen
S2: @SEND (text="saw $seen") > $sent
S3: @RESPOND ($sent)
"""


class World:
    """Two tools that record their arguments."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self):
        @tool(effect="read")
        def look(at: int) -> int:
            self.calls.append(f"look {at}")
            return at * 10

        def send(text: str) -> str:
            self.calls.append(f"send {text}")
            return text.upper()

        return [look, send]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def runtime(tmp_path: Path, world: World) -> Runtime:
    made = Runtime(tools=world.tools(), journal=tmp_path / "journal.db")
    assert made.run_sync(PLAN, {"n": 1}, run_id="r1").response == "SAW 10"
    world.calls.clear()
    return made


def test_playback_returns_events_and_makes_no_calls(runtime: Runtime, world: World) -> None:
    played = runtime.playback_sync("r1")
    finished = [(p.event.step, p.event.value) for p in played if isinstance(p.event, StepFinished)]
    assert finished[:2] == [("S1", 10), ("S2", "SAW 10")]
    assert all(p.event.replayed for p in played)
    assert [p.event.number for p in played] == [*range(1, len(played) + 1)]
    part = runtime.playback_sync("r1", start=3, end=3)
    assert part
    assert {p.seq for p in part} == {3}
    assert world.calls == []


def test_side_effects_of_rerun_need_confirmation(runtime: Runtime, world: World) -> None:
    with pytest.raises(CallsheetError, match="JRN083"):
        runtime.rerun_sync("r1", "S2")
    shown = []
    result = runtime.rerun_sync("r1", "S2", effects=lambda ahead: bool(shown.extend(ahead)) or True, by="ann")
    assert result.response == "SAW 10"
    assert [(effect.step, effect.calls[0].args) for effect in shown] == [("S2", {"text": "saw 10"})]
    assert world.calls == ["send saw 10"]


def test_run_of_edited_file_is_not_continued_silently(tmp_path: Path, world: World) -> None:
    file = tmp_path / "plan.ltp"
    file.write_text(PLAN)
    runtime = Runtime(tools=world.tools(), journal=tmp_path / "journal.db")
    limits = Limits(max_calls=1)
    stopped = runtime.run_sync(file, {"n": 1}, run_id="r", limits=limits)
    assert stopped.status == "failed"
    file.write_text(PLAN.replace("saw", "seen"))
    for branch in (runtime.rerun_sync, runtime.fork_sync):
        with pytest.raises(CallsheetError, match=r"JRN024.*plan\.ltp was edited.*step S2 \(argument text\)"):
            branch("r", "S1" if branch == runtime.rerun_sync else 1, effects=True)  # pyright: ignore[reportArgumentType]
    result = runtime.rerun_sync("r", "S1", effects=True, as_recorded=True, limits=Limits())
    assert result.response == "SAW 10"
    assert runtime.resume_sync("r").status == "failed"  # it has ended: nothing is executed


def test_unfinished_run_of_edited_file_is_resumed_only_as_recorded(tmp_path: Path, world: World) -> None:
    file = tmp_path / "plan.ltp"
    file.write_text(PLAN)
    runtime = Runtime(tools=world.tools(), journal=tmp_path / "journal.db", approve=["SEND"])
    assert runtime.run_sync(file, {"n": 1}, run_id="r").status == "waiting"
    file.write_text(PLAN.replace("saw", "seen"))
    with pytest.raises(CallsheetError, match="JRN024"):
        runtime.resume_sync("r")
    assert runtime.resume_sync("r", as_recorded=True).status == "waiting"


def test_fork_continues_with_its_own_values(runtime: Runtime, world: World) -> None:
    result = runtime.fork_sync("r1", 3, variables={"seen": 7}, effects=True, new_id="r2")
    assert (result.run_id, result.response, world.calls) == ("r2", "SAW 7", ["send saw 7"])
    edited = [p.event for p in runtime.playback_sync("r2") if isinstance(p.event, VariableEdited)]
    assert [(event.variable, event.value) for event in edited] == [("seen", 7)]
    result = runtime.fork_sync("r1", 3, arguments={("S2", "text"): "other"}, effects=True)
    assert result.response == "OTHER"
    assert runtime.fork_sync("r1", 3, steps={"S2": "@LOOK (at=4) > $sent"}).response == "40"
    with pytest.raises(CallsheetError, match="CHK040"):
        runtime.fork_sync("r1", 3, steps={"S2": "@NOWHERE () > $sent"})


NOTES = """
S1: @LOOK (at=$n) > $seen
S2: @SET_WM (key="k", value="first $seen") > $a
S3: @LOOK (at=5) > $b
S4: @GET_WM (key="k") > $got
S5: @SET_WM (key="k", value="second") > $c
S6: @GET_WM (key="k") > $then
S7: @RESPOND ("$got, $then")
"""


def test_new_run_has_notes_of_copied_events(tmp_path: Path, world: World) -> None:
    runtime = Runtime(
        world.tools(), builtins=True, workspace=tmp_path, data=tmp_path, journal=tmp_path / "journal.db"
    )
    whole = runtime.run_sync(NOTES, {"n": 1}, run_id="r1")
    assert whole.response == "first 10, second"
    for event in runtime.playback_sync("r1"):
        made = runtime.fork_sync("r1", event.seq, effects=True)
        assert made.response == whole.response, event
    for step in ("S1", "S2", "S3", "S4", "S5", "S6"):
        assert runtime.rerun_sync("r1", step, effects=True).response == whole.response, step


def test_notes_of_new_run_keep_their_labels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hush")
    given = {"workspace": tmp_path, "data": tmp_path / "data", "journal": tmp_path / "journal.db"}
    runtime = Runtime(builtins=True, policy="workspace", **given)
    plan = """
S1: @READ_FILE (path="a.txt") > $a
S2: @SET_WM (key="k", value=$a) > $b
S3: @GET_WM (key="k") > $got
S4: @RESPOND ("it is $got")
"""
    assert runtime.run_sync(plan, run_id="r1").response == "it is hush"
    assert runtime.rerun_sync("r1", "S3", effects=True, new_id="r2").response == "it is hush"
    with LabelStore.beside(tmp_path / "journal.db") as store:
        noted = {entry.root: str(entry.label) for entry in store.entries()}
    assert noted[notes_of("r2")] == noted[notes_of("r1")] == "U/priv"


def test_recorded_runs_are_explained(runtime: Runtime) -> None:
    runtime.fork_sync("r1", 3, variables={"seen": 7}, effects=True, new_id="r2")
    sources = runtime.why_sync("r1", "answer")
    assert [(place.variable, place.made, place.step) for place in sources.places] == [
        ("answer", "answer", "S3"),
        ("sent", "step", "S2"),
        ("seen", "step", "S1"),
        ("n", "input", None),
    ]
    assert [flow.place for flow in sources.places[1].flows] == [2]
    assert str(sources).splitlines()[0].startswith("answer")
    reached = runtime.why_sync("r1", "n", forward=True)
    assert [(call.call.key, call.call.tool, call.argument) for call in reached.calls] == [
        ("S1.0.1", "LOOK", "at"),
        ("S2.0.1", "SEND", "text"),
    ]
    moment = runtime.at_sync("r1", 3)
    assert (moment.status, moment.turn, dict(moment.pending)) == ("running", "S2", {"S2.0.1": "SEND"})
    assert moment.variables == {"n": 1, "seen": 10}
    difference = runtime.diff_sync("r1", "r2")
    assert (difference.is_equal, difference.is_same_plan, difference.inputs) == (False, True, {})
    first = difference.visits[0]
    assert first.a is not None and first.b is not None  # noqa: PT018 - one thing
    assert (first.a.step, first.a.value, first.b.value) == ("S2", "SAW 10", "SAW 7")
    with pytest.raises(CallsheetError, match="JRN042"):
        runtime.blame_sync("r1")
    with pytest.raises(CallsheetError, match="JRN041"):
        runtime.at_sync("r1", 99)
    with pytest.raises(CallsheetError, match="JRN040"):
        runtime.why_sync("r1", "nothing")


def test_failure_is_blamed_on_its_cause(tmp_path: Path) -> None:
    def read(name: str) -> str:
        raise ValueError(f"no {name}")

    def send(text: str) -> str:
        raise ValueError("refused")

    runtime = Runtime(tools=[read, send], journal=tmp_path / "journal.db")
    text = 'S1: @READ (name="x") > $a\nS2: @SEND (text=$a) ON_FAIL TERMINATE ("no")'
    runtime.run_sync(text + "\nS3: @RESPOND ($a)", run_id="r")
    report = runtime.blame_sync("r")
    cause = report.causes[0]
    assert (report.step, report.call, cause.what, cause.variable, cause.step) == (
        "S2",
        "S2.0.1",
        "error",
        "a",
        "S1",
    )
    assert cause.call == "S1.0.1"
    assert "no x" in (cause.error or "")
