"""Undoing a run: the inverses of its calls, newest first; nothing is undone twice or left out in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import forked

from callsheet import CallsheetError, Runtime, tool
from callsheet.api.run_branches import undo_lines
from callsheet.ir.inverse import NotAnInverse, read_inverse
from callsheet.runtime.effects import EffectAhead
from callsheet.runtime.undo import Undoing

PLAN = """# ltp: 2
INPUT $ops: list[json]
PLAN remove ($id: int) -> json {
  @REMOVE (id=$id) > $gone
  RETURN ($gone)
}
S1: ?FOREACH ($op IN $ops) IN ORDER {
  ?IF ($op.kind == "add") {
    S2: @ADD (value=$op.value) > $new
  } ELSE IF ($op.kind == "put") {
    S3: @PUT (id=$op.id, value=$op.value) > $old
  } ELSE {
    S4: CALL remove (id=$op.id) > $gone
  }
}
@RESPOND ("done")
"""


class World:
    """A store of values; its tools fail at the calls whose numbers are in `failing`."""

    def __init__(self, values: dict[int, int] | None = None) -> None:
        self.values = dict(values or {})
        self.failing: set[int] = set()
        self.calls = 0
        self.mails: list[str] = []

    def _count(self) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise RuntimeError("the store is away")

    def tools(self) -> list[Any]:
        @tool(effect="unsafe", undo="remove(id=result.id)")
        def add(value: int) -> dict[str, int]:
            self._count()
            number = max(self.values, default=0) + 1
            self.values[number] = value
            return {"id": number}

        @tool(effect="unsafe", undo="put(id=call.id, value=result.old)")
        def put(id: int, value: int) -> dict[str, int]:  # noqa: A002 - the name of an argument
            self._count()
            old = self.values[id]
            self.values[id] = value
            return {"old": old}

        @tool(effect="unsafe", undo="restore(id=call.id, value=result.value)")
        def remove(id: int) -> dict[str, int]:  # noqa: A002
            self._count()
            return {"value": self.values.pop(id)}

        @tool(effect="idempotent")
        def restore(id: int, value: int) -> None:  # noqa: A002
            self._count()
            self.values[id] = value

        @tool(effect="unsafe")
        def send(text: str) -> str:
            self.mails.append(text)
            return "sent"

        @tool(effect="read")
        def look() -> int:
            return len(self.values)

        return [add, put, remove, restore, send, look]


_OP = st.one_of(
    st.builds(lambda v: {"kind": "add", "value": v}, st.integers(0, 9)),
    st.builds(lambda i, v: {"kind": "put", "id": i, "value": v}, st.integers(1, 6), st.integers(0, 9)),
    st.builds(lambda i: {"kind": "remove", "id": i}, st.integers(1, 6)),
)


@given(
    ops=st.lists(_OP, max_size=6),
    before=st.dictionaries(st.integers(1, 6), st.integers(0, 9), max_size=4),
    failing=st.integers(1, 8),
    at_undo=st.integers(1, 6),
)
def test_the_world_is_as_before_after_a_run_that_failed_anywhere_and_undoings_that_failed_too(
    ops: list[dict[str, Any]], before: dict[int, int], failing: int, at_undo: int, tmp_path_factory: Any
) -> None:
    world = World(before)
    world.failing = {failing}
    runtime = Runtime(tools=world.tools(), journal=tmp_path_factory.mktemp("undo") / "j.db")
    runtime.run_sync(PLAN, {"ops": ops}, run_id="r")
    world.failing = {world.calls + at_undo}
    for _ in range(2):
        with suppress(CallsheetError):  # JRN086: nothing is left
            runtime.undo_sync("r", effects=True)
    assert world.values == before


@pytest.fixture
def world() -> World:
    return World({1: 10, 2: 20})


@pytest.fixture
def runtime(world: World, tmp_path: Path) -> Runtime:
    return Runtime(tools=world.tools(), journal=tmp_path / "j.db")


MIXED = """# ltp: 2
S1: @LOOK () > $n
S2: @ADD (value=7) > $new
S3: @SEND (text="added ${$new.id}")
S4: @PUT (id=1, value=11) > $old
@RESPOND ("done")
"""


def test_what_cannot_be_undone_is_shown_first_and_reads_are_not_counted(
    runtime: Runtime, world: World
) -> None:
    runtime.run_sync(MIXED, run_id="r")
    seen: list[Undoing] = []

    def look(undoing: Undoing) -> bool:
        seen.append(undoing)
        return False

    with pytest.raises(CallsheetError, match="JRN083") as refused:
        runtime.undo_sync("r", effects=look)
    told = str(refused.value)
    assert told.index("@SEND") < told.index("@PUT (id=1, value=10)") < told.index("@REMOVE (id=3)")
    assert [each.why for each in seen[0].irreversible] == ["no inverse of @SEND is declared"]
    assert world.values == {1: 11, 2: 20, 3: 7}
    result = runtime.undo_sync("r", effects=True)
    assert result.response == "2 calls of run r undone; 1 cannot be undone"
    assert world.values == {1: 10, 2: 20}


FLAT = """S1: @LOOK () > $n
S2: @ADD (value=7) > $new
S3: @SEND (text="added $new.id")
S4: @PUT (id=1, value=11) > $old
S5: @RESPOND ("done")"""
GROUPED = """PLAN_START
S1: @LOOK () > $n
@PARALLEL {
  S2: @ADD (value=7) > $new
  S3: @SEND (text="added 3")
}
S4: @PUT (id=1, value=11) > $old
S5: @RESPOND ("done")
PLAN_END"""
GRAPH = """{"steps": [
  {"index": "S2", "title": "add", "depends_on": [], "tool": "ADD", "args": {"value": 7}},
  {"index": "S3", "title": "tell", "depends_on": ["S2"], "tool": "SEND", "args": {"text": "added 3"}},
  {"index": "S4", "title": "put", "depends_on": ["S2"], "tool": "PUT", "args": {"id": 1, "value": 11}}
]}"""


@pytest.mark.parametrize("plan", [MIXED, FLAT, GROUPED, GRAPH], ids=["blocks", "flat", "group", "graph"])
@pytest.mark.parametrize("start", ["", "S4"], ids=["all", "from S4"])
def test_a_run_that_follows_makes_again_what_was_undone(
    runtime: Runtime, world: World, plan: str, start: str
) -> None:
    """Also where a run is followed that has the calls of another one, which was undone."""
    runtime.run_sync(plan, run_id="r")
    runtime.rerun_sync("r", "S4", effects=True, new_id="s")
    after = {1: 11, 2: 20, 3: 7}
    assert world.values == after
    for run_id in ("s", "r"):
        runtime.undo_sync(run_id, start=start if run_id == "r" else "", effects=True)
    assert world.values == ({1: 10, 2: 20, 3: 7} if start else {1: 10, 2: 20})
    with pytest.raises(CallsheetError, match="JRN086: run s cannot go on"):
        runtime.fork_sync("s", runtime.playback_sync("s")[-1].seq, effects=True)
    shown: list[str] = []

    def agree(ahead: Sequence[EffectAhead]) -> bool:
        shown.extend(each.tool for each in ahead)
        return True

    runtime.rerun_sync("s", "S4", effects=agree, new_id="t")
    assert world.values == after, "the calls that were taken back are made again"
    assert world.mails == ["added 3"], "the call that could not be taken back is kept"
    assert set(shown) - {"SEND"} == ({"PUT"} if start else {"ADD", "PUT"})
    calls = world.calls
    runtime.rerun_sync("t", "S4", effects=True, new_id="u")
    assert world.calls == calls + 1, "what was made again counts"


def test_only_what_was_called_from_a_step_on_and_the_rest_later(runtime: Runtime, world: World) -> None:
    runtime.run_sync(MIXED, run_id="r")
    runtime.undo_sync("r", start="S4", effects=True)
    assert world.values == {1: 10, 2: 20, 3: 7}
    runtime.undo_sync("r", effects=True)
    assert world.values == {1: 10, 2: 20}
    with pytest.raises(CallsheetError, match="nothing more of run r can be undone"):
        runtime.undo_sync("r", effects=True)
    with pytest.raises(CallsheetError, match="JRN081"):
        runtime.undo_sync("r", start="S1", effects=True)
    with pytest.raises(CallsheetError, match="JRN086"):
        runtime.undo_sync("undo-r", effects=True)


def test_a_run_that_is_called_like_an_undoing_is_none(runtime: Runtime, world: World) -> None:
    """As the undoing of another run with a long id is called, of which the beginning is the same."""
    first, second = ("r" * 60 + end for end in "ab")
    for run_id in (first, second):
        runtime.run_sync("S1: @ADD (value=5) > $a", run_id=run_id)
    runtime.run_sync("S1: @LOOK", run_id="undo-x")
    runtime.run_sync("S1: @ADD (value=5) > $a", run_id="x")
    for run_id in (first, second, "x"):
        runtime.undo_sync(run_id, effects=True)
    assert world.values == {1: 10, 2: 20}


def test_plans_of_version_1_are_undone_as_well(runtime: Runtime, world: World) -> None:
    runtime.run_sync("S1: @ADD (value=5) > $a\nS2: @PUT (id=$a.id, value=6) > $b", run_id="r")
    assert world.values == {1: 10, 2: 20, 3: 6}
    runtime.undo_sync("r", effects=True)
    assert world.values == {1: 10, 2: 20}


def test_calls_that_a_branch_keeps_belong_to_its_parent(runtime: Runtime, world: World) -> None:
    runtime.run_sync("S1: @ADD (value=5) > $a\nS2: @PUT (id=$a.id, value=6) > $b", run_id="r")
    runtime.rerun_sync("r", "S2", effects=True, new_id="s")
    runtime.undo_sync("s", effects=lambda undoing: undoing.inherited == 1 and undoing.parent == "r")
    assert world.values == {1: 10, 2: 20, 3: 6}
    runtime.undo_sync("r", effects=lambda undoing: "run s branched off it" in undo_lines(undoing)[0])
    assert world.values == {1: 10, 2: 20}


def test_a_value_that_is_missing_makes_a_call_irreversible_with_the_place(tmp_path: Path) -> None:
    @tool(undo="forget(id=result.ids[0].name)")
    def learn() -> dict[str, Any]:
        return {"ids": [{"id": 3}]}

    @tool
    def forget(id: str) -> str:  # noqa: A002
        return "forgot"

    runtime = Runtime(tools=[learn, forget], journal=tmp_path / "j.db")
    runtime.run_sync("S1: @LEARN", run_id="r")
    with pytest.raises(CallsheetError, match="JRN086") as refused:
        runtime.undo_sync("r", effects=True)
    assert "result.ids[0].name is not there: result.ids[0] has id" in (
        refused.value.diagnostics[0].help or ""
    )


def test_secrets_stay_sealed_in_the_undoing(world: World, tmp_path: Path) -> None:
    key = "sk-live-verysecretvalue"

    @tool(undo="revoke(token=call.token)")
    def grant(token: str) -> str:
        return "granted"

    revoked: list[str] = []

    @tool
    def revoke(token: str) -> str:
        revoked.append(token)
        return "revoked"

    runtime = Runtime(tools=[grant, revoke], journal=tmp_path / "j.db")
    plan = '# ltp: 2\nINPUT SECRET $key: str\nS1: @GRANT (token=$key)\n@RESPOND ("ok")'
    runtime.run_sync(plan, secrets={"key": key}, run_id="r")
    shown: list[str] = []

    def agrees(undoing: Undoing) -> bool:
        shown.extend(undo_lines(undoing))
        return True

    runtime.undo_sync("r", effects=agrees)
    assert revoked == [key]
    assert key not in "".join(line for line in shown if "REVOKE" in line)
    runtime_files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert key.encode() not in runtime_files


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("delete", "no call"),
        ("delete(3)", "need names"),
        ("delete(id=answer.id)", "neither a value nor a part"),
        ("delete(id=call)", "name the argument"),
        ("delete(id=result[0:2])", "neither a value"),
        ("delete(id=result.id + 1)", "neither a value"),
        ("delete(**result)", "need names"),
        ("a.b(id=1)", "no call of a tool"),
    ],
)
def test_what_is_no_inverse_is_refused_where_it_is_declared(text: str, why: str) -> None:
    with pytest.raises(NotAnInverse, match=why):
        read_inverse(text)
    with pytest.raises(CallsheetError, match="CFG105"):
        tool(undo=text)(print)


@pytest.mark.parametrize(
    "text",
    ["a(x=result.id)", "a(x=result['a b'][-1], y={'k': [1, None]})", "a(**{'from': call.to})", "a()"],
)
def test_an_inverse_is_printed_as_it_is_read(text: str) -> None:
    assert str(read_inverse(str(read_inverse(text)))) == str(read_inverse(text))


TOOLS = """
import json, os, signal
from pathlib import Path
from callsheet import tool
FILE = Path(__file__).parent / "world.json"
def world():
    return json.loads(FILE.read_text()) if FILE.exists() else []
def save(values):
    FILE.write_text(json.dumps(values))
@tool(effect="idempotent", undo="drop(value=call.value)")
def add(value: int) -> str:
    save(sorted({*world(), value}))
    with open(FILE.with_name("added"), "a") as file:
        file.write(f"{value} ")
    if os.environ.get("KILL") == f"added {value}":
        os.kill(os.getpid(), signal.SIGKILL)
    return "added"
@tool(effect="idempotent")
def drop(value: int) -> str:
    if os.environ.get("KILL") == f"before {value}":
        os.kill(os.getpid(), signal.SIGKILL)
    save([v for v in world() if v != value])
    if os.environ.get("KILL") == f"after {value}":
        os.kill(os.getpid(), signal.SIGKILL)
    return "dropped"
"""


def _callsheet(folder: Path, *arguments: str, kill: str = "") -> subprocess.CompletedProcess[str]:
    return forked.run(
        [sys.executable, "-m", "callsheet", *arguments, "--journal", "j.db", "--progress", "none"],
        cwd=folder, text=True, capture_output=True, check=False,
        env={**os.environ, "HOME": str(folder), "KILL": kill},
    )  # fmt: skip


BLOCKS = '# ltp: 2\n?FOREACH ($n IN [1, 2, 3]) IN ORDER {\n  @ADD (value=$n)\n}\nS4: @RESPOND ("done")\n'
STEPS = 'S1: @ADD (value=1)\nS2: @ADD (value=2)\nS3: @ADD (value=3)\nS4: @RESPOND ("done")\n'


@pytest.mark.parametrize("plan", [BLOCKS, STEPS], ids=["blocks", "flat"])
def test_an_undoing_that_is_killed_goes_on_where_it_was_and_so_does_a_rerun_of_what_it_took_back(
    tmp_path: Path, plan: str
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "plan.ltp").write_text(plan)
    assert _callsheet(tmp_path, "run", "plan.ltp", "--tools", "tools.py", "--run-id", "r").returncode == 0
    assert _callsheet(tmp_path, "undo", "r").returncode == 4
    assert json.loads((tmp_path / "world.json").read_text()) == [1, 2, 3]
    assert _callsheet(tmp_path, "undo", "r", "--yes", kill="after 2").returncode == -9
    done = _callsheet(tmp_path, "undo", "r", "--yes")
    assert done.returncode == 0, done.stderr
    assert "run undo-r undoes run r" in done.stderr
    assert json.loads((tmp_path / "world.json").read_text()) == []
    again = _callsheet(tmp_path, "rerun", "r", "--from", "S4", "--run-id", "s", "--yes", kill="added 2")
    assert again.returncode == -9, again.stderr
    assert _callsheet(tmp_path, "resume", "s").returncode == 0
    assert json.loads((tmp_path / "world.json").read_text()) == [1, 2, 3]
    assert (tmp_path / "added").read_text() == "1 2 3 1 2 2 3 "
