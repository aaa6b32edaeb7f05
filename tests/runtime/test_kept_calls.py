"""Runs of edited plans: a run that is killed and edited again and again repeats no finished call."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests import forked

from callsheet import CallsheetError, Plan, PolicyRefused, Runtime, TookPlace, ToolFailed, tool
from callsheet.ir import Effect
from callsheet.ir.labels import read_label
from callsheet.machine import ToolFacts
from callsheet.policy.model import Policy, ToolRule
from callsheet.runtime.forking import Revision
from callsheet.runtime.kept_outcomes import keep_calls
from callsheet.store import Journal
from callsheet.store.kept_calls import KeptCalls

TOOLS = """
import json, os, time
from pathlib import Path
from callsheet import TookPlace, tool
LOG = Path(__file__).parent / "log"
def note(*what):
    with LOG.open("a") as file:
        file.write(json.dumps(what) + "\\n")
        file.flush()
        os.fsync(file.fileno())
@tool(effect="read")
def source(n: int) -> list:
    return list(range(n))
def begun(n: int) -> TookPlace | bool:
    return TookPlace(f"put {n}") if LOG.exists() and json.dumps(["begin", n]) in LOG.read_text() else False
@tool({how})
def put(n: int) -> str:
    note("begin", n)
    time.sleep(0.01)
    note("end", n)
    return f"put {n}"
"""
PROBED, DECIDED = 'effect="probe", probe=begun', ""
PLAN = """# ltp: 2
{head}
PLAN one ($n: int) -> str {{
  {id}1: @PUT (n=$n) > $r
  RETURN ($r)
}}
{id}2: @SOURCE (n={items}) > $items
{id}3: ?FOREACH ($x IN {first} + $items) TOGETHER MAX 4 {{
  {id}4: CALL one (n=$x) > $r
  YIELD ($r)
}} > $rows
{id}5: @RESPOND (len($rows){more})
"""
EDITS = [
    {"id": "S", "first": "[]", "head": "", "more": ""},
    {"id": "A", "first": "[]", "head": "LET $note = 1", "more": " + 0"},
    {"id": "T", "first": "[-1]", "head": "# moved", "more": ""},
    {"id": "S", "first": "[-1, -2]", "head": "", "more": ""},
]


def callsheet(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return forked.Popen(
        [sys.executable, "-m", "callsheet", *arguments, "--journal", "j.db", "--progress", "none"],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip


def puts(folder: Path) -> Counter[tuple[str, int]]:
    log = folder / "log"
    return Counter(map(tuple, map(json.loads, log.read_text().splitlines()))) if log.exists() else Counter()


def noted(folder: Path) -> int:
    log = folder / "log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def written(folder: Path, number: int, items: int) -> str:
    edit = EDITS[number % len(EDITS)]
    (folder / "plan.ltp").write_text(PLAN.format(items=items, **edit))
    return "plan.ltp"


def kill_and_edit(folder: Path, items: int, kills: int, seed: int, how: str = PROBED) -> int:
    """Start a fan-out, kill it, edit the plan and resume it, as often as asked; then let it end.

    Calls that were under way at a kill, and may have taken place, are probed, or decided about by an option.
    Returns how often it was killed: less often if it ended before.
    """
    chance = random.Random(seed)
    (folder / "tools.py").write_text(TOOLS.replace("{how}", how))
    process = callsheet(folder, "run", written(folder, 0, items), "--tools", "tools.py", "--run-id", "r0")
    for number in range(1, kills + 1):
        most, deadline = max(9, 2 * items // (kills + 1)), time.monotonic() + 60
        wanted = noted(folder) + chance.randint(3, most)
        while noted(folder) < wanted:
            if process.poll() is not None:
                output, errors = process.communicate()
                assert process.returncode == 0, output + errors
                return number - 1
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        arguments = ["--plan", written(folder, number, items), "--yes", "--run-id", f"r{number}"]
        decided = [] if how == PROBED else ["--in-doubt", 'value="put"']
        process = callsheet(folder, "resume", f"r{number - 1}", *arguments, *decided)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    return kills


@pytest.mark.parametrize("how", [PROBED, DECIDED], ids=["probed", "decided"])
def test_finished_calls_of_a_fan_out_are_never_repeated_through_kills_and_edits(
    tmp_path: Path, how: str
) -> None:
    assert kill_and_edit(tmp_path, items=20, kills=2, seed=7, how=how) == 2

    made = puts(tmp_path)
    never = set(range(20)) - {n for what, n in made if what == "begin"}
    assert len(never) <= (0 if how == PROBED else 2 * 4)  # decided about, and never sent
    assert [n for (what, n), count in made.items() if what == "begin" and count > 1] == []


POLICY = Policy(
    tools={"PUT": ToolRule(egress=False, destructive=False, idempotent=False, returns=read_label("T/pub"))}
)


def runtime(folder: Path, made: list[int], policy: Policy | None = None) -> Runtime:
    @tool
    def put(n: int) -> str:
        made.append(n)
        return f"put {n}"

    return Runtime([put], journal=folder / "j.db", policy=policy)


TEXT = "# ltp: 2\nS1: @PUT (n=1) > $a\nS2: @PUT (n=2) > $b\nS3: @PUT (n=3) > $c\nS4: @RESPOND ($c)\n"
EDITED = "# ltp: 2\nX1: @PUT (n=1) > $a\nS2: @PUT (n=5) > $b\nS4: @RESPOND ($a)\n"


@pytest.mark.parametrize("policy", [None, POLICY], ids=["free", "under a policy"])
def test_preview_names_what_is_kept_made_again_and_gone_and_consent_covers_what_is_made(
    tmp_path: Path, policy: Policy | None
) -> None:
    made, shown = list[int](), list[str]()
    calls = runtime(tmp_path, made, policy)
    run = calls.run_sync(TEXT)

    with pytest.raises(CallsheetError) as refused:
        calls.rerun_sync(run.run_id, plan=EDITED)
    assert [d.code for d in refused.value.diagnostics] == ["JRN083"]
    assert made == [1, 2, 3]
    agreed = calls.rerun_sync(
        run.run_id, plan=EDITED, effects=lambda steps: bool(shown.extend(map(str, steps))) or True
    )

    assert (agreed.answer, made) == ("put 1", [1, 2, 3, 5])
    assert [line.split()[0] for line in shown] == ["S2"]
    assert "n=5" in shown[0]
    assert "n=2" in shown[0]  # what the run before had sent in its place
    with Journal.open(tmp_path / "j.db") as journal:
        plan = Plan.parse(EDITED).ir
        kept = keep_calls(journal, run.run_id, plan, Revision(plan, {"PUT": ToolFacts()}, {})).kept
    assert kept[:3] == (
        "kept: 1 call: X1",
        "runs again, or with other arguments: 1 call: S2",
        "called before with other arguments, which has effects that stay: 1 call: S2",
    )
    assert kept[3].startswith("gone, its effect stays: S3.1 @PUT")


def test_preview_names_calls_that_are_gone_and_whose_effects_stay_first(tmp_path: Path) -> None:
    @tool(effect="read")
    def look(n: int) -> int:
        return n

    @tool
    def put(n: int) -> str:
        return f"put {n}"

    calls = Runtime([look, put], journal=tmp_path / "j.db")
    reads = "".join(f"R{n}: @LOOK (n={n}) > $r{n}\n" for n in range(25))
    run = calls.run_sync(f"# ltp: 2\n{reads}S1: @PUT (n=1) > $a\nS2: @RESPOND ($a)\n")

    with Journal.open(tmp_path / "j.db") as journal:
        plan = Plan.parse("# ltp: 2\nS2: @RESPOND ('none')\n").ir
        gone = keep_calls(journal, run.run_id, plan, Revision(plan, {}, {})).kept[1:]

    assert gone[0].startswith("gone, its effect stays: S1.1 @PUT")
    assert gone[1].startswith("gone: R0.1 @LOOK")
    assert gone[20:] == ("gone: 6 more calls",)


@pytest.mark.parametrize(("place", "again"), [("S2", [2, 3]), ("S3", [3])])
def test_rerun_of_a_plan_with_blocks_keeps_what_stands_before_the_step(
    tmp_path: Path, place: str, again: list[int]
) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made)
    run = calls.run_sync(TEXT)

    calls.rerun_sync(run.run_id, place, effects=True)

    assert made == [1, 2, 3, *again]


NESTED = """# ltp: 2
PLAN twice ($n: int) -> str {
  try1: @PUT (n=$n) > $a
  S1: @PUT (n=$n + 1) > $b
  RETURN ($b)
}
S2: ?FOREACH ($x IN [10, 20]) {
  S3: @PUT (n=$x) > $a
  S4: CALL twice (n=$x + 1) > $b
}
S5: ?REPEAT (max="run") {
  S6: @PUT (n=30) > $c
} UNTIL ($c == "put 30")
S7: @PUT (n=40)
"""


@pytest.mark.parametrize(
    ("place", "again"),
    [
        ("S4", [11, 12, 21, 22, 30, 40]),
        ("S2[1]", [20, 21, 22, 30, 40]),
        ("S2[0]/S4", [11, 12, 20, 21, 22, 30, 40]),
        ("S2[1]/S4/S1", [22, 30, 40]),
        ("S2[0]/S4/try1", [11, 12, 20, 21, 22, 30, 40]),
        ("S5[#1]/S6", [30, 40]),
    ],
)
def test_rerun_from_a_place_inside_a_block_makes_what_is_behind_it(
    tmp_path: Path, place: str, again: list[int]
) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made)
    run = calls.run_sync(NESTED)
    before, made[:] = [*made], []

    calls.rerun_sync(run.run_id, place, effects=True)

    assert made == again
    assert before[-len(again) :] == again or place == "S4"


@pytest.mark.parametrize(
    ("place", "message", "help_"),
    [
        ("S2[2]", "has not come to S2[2]", "S2[0]"),
        ("S2[0]/S7", "has not come to S2[0]/S7", "S2[0]/S4"),
        ("S2[0]/S9", "the plan has no statement S9", "its statements are try1"),
    ],
)
def test_rerun_from_a_place_that_the_run_has_not_seen_is_refused(
    tmp_path: Path, place: str, message: str, help_: str
) -> None:
    calls = runtime(tmp_path, [])
    run = calls.run_sync(NESTED)
    with pytest.raises(CallsheetError) as caught:
        calls.rerun_sync(run.run_id, place, effects=True)
    (found,) = caught.value.diagnostics
    assert (found.code, message in found.message) == ("JRN081", True)
    assert help_ in str(found.help)


def test_what_a_run_kept_is_kept_again_by_the_next_one(tmp_path: Path) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made)
    text = "# ltp: 2\n{}S1: ?FOREACH ($x IN [1, 2, 3]) {{\n  S2: @PUT (n=$x)\n}}\n"
    first = calls.run_sync(text.format(""))
    failing = calls.rerun_sync(first.run_id, plan=text.format('FAIL ("not yet")\n'), effects=True)
    last = calls.rerun_sync(failing.run_id, plan=text.format("LET $y = 1\n"), effects=True)

    assert (str(failing.status), str(last.status)) == ("failed", "done")
    assert made == [1, 2, 3]


def test_the_same_call_by_another_statement_is_made(tmp_path: Path) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made)
    run = calls.run_sync("# ltp: 2\nS1: @PUT (n=1) > $a\n")

    calls.rerun_sync(run.run_id, plan="# ltp: 2\nS1: @PUT (n=1) > $a\nS2: @PUT (n=1) > $b\n", effects=True)

    assert made == [1, 1]


@pytest.mark.parametrize(
    ("verdict", "decides"),
    [
        *(("retry", when) for when in ("before", "with the plan", "after")),
        ("skip", "before"),
        (TookPlace("put 1"), "with the plan"),
        (TookPlace("put 1"), "after"),
    ],
)
def test_what_is_decided_about_calls_in_doubt_holds_for_edited_plans(
    tmp_path: Path, verdict: Any, decides: str
) -> None:
    made = list[int]()

    @tool
    def put(n: int) -> str:
        made.append(n)
        if len(made) <= 2:
            raise ToolFailed("the connection was lost", in_doubt=True)
        return f"put {n}"

    calls = Runtime([put], journal=tmp_path / "j.db")
    loop = "S1: ?FOREACH ($x IN [1, 1]) TOGETHER {{\n  S2: @PUT (n=$x) > $r\n  YIELD ($r)\n}} > $rows\n"
    text = f"# ltp: 2\n{{}}{loop}{{}}"
    run = calls.run_sync(text.format("", 'FAIL ("not yet")\n'))
    assert (str(run.status), made) == ("in_doubt", [1, 1])
    if decides == "before":
        run = calls.resume_sync(run.run_id, in_doubt=verdict)
    edited = text.format("LET $y = 1\n", "@RESPOND ($rows)\n")
    given = verdict if decides == "with the plan" else None
    run = calls.rerun_sync(run.run_id, plan=edited, effects=True, in_doubt=given)
    if decides == "after":
        assert (str(run.status), made) == ("in_doubt", [1, 1])
        run = calls.resume_sync(run.run_id, in_doubt=verdict)
    last = calls.rerun_sync(run.run_id, plan=edited.replace("$y", "$z"), effects=True)

    assert last.answer == [None if verdict == "skip" else "put 1"] * 2
    assert made == [1] * (4 if verdict == "retry" else 2)


EQUAL = "# ltp: 2\n{}S1: ?FOREACH ($x IN {}) {{\n  S2: @PUT (n=$x) > $r\n  YIELD ($r)\n}} > $rows\n{}"


def test_call_that_is_made_after_its_doubt_does_not_get_the_outcome_of_an_equal_one(tmp_path: Path) -> None:
    made = list[int]()

    @tool
    def put(n: int) -> str:
        made.append(n)
        if len(made) == 1:
            raise ToolFailed("the connection was lost", in_doubt=True)
        if len(made) == 3:
            raise KeyboardInterrupt
        return f"put {len(made)}"

    calls = Runtime([put], journal=tmp_path / "j.db")
    text = EQUAL.replace(") {{", ") TOGETHER {{")
    first = calls.run_sync(text.format("", [1, 1], 'FAIL ("not yet")\n'))
    edited = EQUAL.format("LET $y = 1\n", [1, 1], "@RESPOND ($rows)\n")
    run_id = calls.rerun_sync(first.run_id, plan=edited, effects=True).run_id
    with pytest.raises(KeyboardInterrupt):
        calls.resume_sync(run_id, in_doubt="retry")

    assert str(calls.resume_sync(run_id).status) == "in_doubt"
    assert calls.resume_sync(run_id, in_doubt=TookPlace("put 3")).answer == ["put 3", "put 2"]
    assert made == [1, 1, 1]


def test_outcome_that_was_kept_at_a_crash_is_kept_by_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[int]()

    @tool
    def put(n: int) -> str:
        made.append(n)
        return f"put {len(made)}"

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    calls = Runtime([put], journal=tmp_path / "j.db")
    first = calls.run_sync(EQUAL.format("", [1], 'FAIL ("not yet")\n'))
    edited = EQUAL.format("", [1, 1], "@RESPOND ($rows)\n")
    with monkeypatch.context() as patched:
        patched.setattr(KeptCalls, "outcome_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls.rerun_sync(first.run_id, plan=edited, effects=True, new_id="edited")

    assert calls.resume_sync("edited").answer == ["put 1", "put 2"]
    assert made == [1, 1]


def test_call_that_was_decided_to_have_failed_is_no_new_one(tmp_path: Path) -> None:
    @tool
    def put(n: int) -> str:
        raise ToolFailed("the connection was lost", in_doubt=True)

    calls = Runtime([put], journal=tmp_path / "j.db")
    run = calls.run_sync("# ltp: 2\nS1: @PUT (n=1)\n")
    run = calls.resume_sync(run.run_id, in_doubt="fail")
    plan = Plan.parse("# ltp: 2\nLET $y = 1\nS1: @PUT (n=1)\n").ir
    with Journal.open(tmp_path / "j.db") as journal:
        kept = keep_calls(journal, run.run_id, plan, Revision(plan, {"PUT": ToolFacts()}, {})).kept
    assert kept == ("kept: no call", "runs again, or with other arguments: 1 call: S1")


def test_preview_tells_the_doubt_about_a_call_that_is_made_with_other_arguments(tmp_path: Path) -> None:
    @tool
    def put(n: int) -> str:
        raise ToolFailed("the connection was lost", in_doubt=True)

    run = Runtime([put], journal=tmp_path / "j.db").run_sync("# ltp: 2\nS1: @PUT (n=1)\n")
    plan = Plan.parse("# ltp: 2\nS1: @PUT (n=2)\n").ir
    with Journal.open(tmp_path / "j.db") as journal:
        forking = keep_calls(journal, run.run_id, plan, Revision(plan, {"PUT": ToolFacts()}, {}))
    assert forking.kept[1:] == (
        "runs again, or with other arguments: 1 call: S1",
        "called before, in doubt: it may have taken place: 1 call: S1",
    )
    assert "in doubt: it may have taken place: n=1" in str(forking.effects[0])


def test_preview_of_a_call_behind_a_failed_read_leaves_open_whether_it_is_kept(tmp_path: Path) -> None:
    made: list[str] = []

    @tool(effect="read")
    def look() -> str:
        raise ToolFailed("there is nothing")

    @tool
    def put(x: str) -> str:
        made.append(x)
        return x

    text = (
        '# ltp: 2\nS1: @LOOK () > $a ON_FAIL {\n  LET $a = "none"\n}\n'
        'S2: @PUT (x=$a) > $b\nS3: @PUT (x="%s") > $c\n'
    )
    calls = Runtime([look, put], journal=tmp_path / "j.db")
    run = calls.run_sync(text % "c")
    plan = Plan.parse(text % "d").ir
    facts = {"PUT": ToolFacts(), "LOOK": ToolFacts(Effect.READ)}
    with Journal.open(tmp_path / "j.db") as journal:
        kept = keep_calls(journal, run.run_id, plan, Revision(plan, facts, {})).kept
    assert kept == (
        "kept: no call",
        "runs again, or with other arguments: 2 calls: S1, S3",
        "kept if its arguments turn out as before, else runs again: 1 call: S2",
        "called before with other arguments, which has effects that stay: 1 call: S3",
        "called before, which has effects that stay: 1 call: S2",
    )
    calls.rerun_sync(run.run_id, plan=text % "d", effects=True)
    assert made == ["none", "c", "d"], "it was kept"


def test_notes_of_a_kept_call_are_there_for_the_rest(tmp_path: Path) -> None:
    calls = Runtime(builtins=True, journal=tmp_path / "j.db")
    text = '# ltp: 2\nS1: @SET_WM ("k", "noted")\nS2: @RESPOND (1)\n'
    run = calls.run_sync(text)
    edited = text.replace("S2:", 'S3: @GET_WM ("k") > $k\nS2:').replace("(1)", "($k)")
    assert calls.rerun_sync(run.run_id, plan=edited, effects=True).answer == "noted"


def test_edited_plan_is_proved_under_the_policy_of_the_run(tmp_path: Path) -> None:
    made = list[str]()

    @tool(effect="read")
    def diary() -> str:
        made.append("diary")
        return "private"

    @tool
    def post(text: str) -> str:
        made.append("post")
        return "posted"

    rules = {
        "DIARY": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/priv")),
        "POST": ToolRule(egress=True, destructive=False, idempotent=False, returns=read_label("T/pub")),
    }
    calls = Runtime([diary, post], journal=tmp_path / "j.db", policy=Policy(tools=rules))
    run = calls.run_sync('# ltp: 2\nS1: @DIARY () > $d\nS2: @POST (text="hello")\n@RESPOND ("done")\n')
    with pytest.raises(PolicyRefused):
        calls.rerun_sync(
            run.run_id, plan="# ltp: 2\nS1: @DIARY () > $d\nS2: @POST (text=$d)\n@RESPOND (1)\n", effects=True
        )
    assert made == ["diary", "post"]


RECOVERED = """S{1}: @BOOM (n="outer{0}") > $a{0} ON_FAIL {{
  S{2}: @BOOM (n="inner{0}") > $b{0} ON_FAIL {{
    S{3}: @KEEP (what=$error.message) > $b{0}
  }}
  S{4}: @KEEP (what=$error.message + $b{0}) > $a{0}
}}
"""


def test_a_nested_handler_added_before_another_repeats_none_of_its_finished_calls(tmp_path: Path) -> None:
    made = list[str]()

    @tool(effect="read")
    def boom(n: str) -> str:
        raise ValueError(n)

    @tool
    def keep(what: str) -> str:
        made.append(what)
        return what

    calls = Runtime([boom, keep], journal=tmp_path / "j.db")
    later = RECOVERED.format("x", 1, 2, 3, 4) + "S9: @RESPOND ($ax)\n"
    both = (
        RECOVERED.format("y", 1, 2, 3, 4) + RECOVERED.format("x", 5, 6, 7, 8) + "S9: @RESPOND ([$ax, $ay])\n"
    )
    run = calls.run_sync(f"# ltp: 2\n{later}")
    before = [*made]

    calls.rerun_sync(run.run_id, plan=f"# ltp: 2\n{both}", effects=True)

    assert (len(before), len(made)) == (2, 4)
    assert not set(before) & set(made[2:])
