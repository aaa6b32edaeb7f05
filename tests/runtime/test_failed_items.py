"""Reruns of failed items: what the other items of loops gave is kept, through kills and mended tools."""

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

from callsheet import CallsheetError, ChatModel, Limits, Runtime, tool
from callsheet.ir.labels import read_label
from callsheet.policy.model import Policy, ToolRule
from callsheet.runtime.edits import ParentHistory
from callsheet.runtime.flat_reruns import failures_of
from callsheet.store import Journal

BLOCKS = """# ltp: 2
S1: ?FOREACH ($n IN range(6)) {
  S2: @PUT (n=$n) > $r
  S3: @NOTE (text="item $n")
  YIELD ($r)
} > $rows ON_FAIL SKIP
S4: @NOTE (text="rest")
S5: @NOTE (text="${len($rows)} done")
@RESPOND ($rows)
"""
ENDS_IN_LOOP = BLOCKS.replace(" ON_FAIL SKIP", "")
SUB_PLANS = """# ltp: 2
PLAN one ($n: int) -> str {
  T1: @NOTE (text="item $n")
  T2: @PUT (n=$n) > $r
  RETURN ($r)
}
S1: ?FOREACH ($n IN range(6)) TOGETHER MAX 3 {
  S2: CALL one (n=$n) > $r
  YIELD ($r)
} > $rows
S5: @NOTE (text="${len($rows)} done")
@RESPOND ($rows)
"""
FLAT = """PLAN_START
S0: @NOTE (text="begin")
S1: ?FOREACH ($n IN [0, 1, 2, 3, 4, 5]) THEN @PUT (n=$n) > $rows
S4: @NOTE (text="rest")
S5: @SEEN (rows=$rows) > $seen
S6: @RESPOND ($rows)
PLAN_END
"""
GROUP = """PLAN_START
@PARALLEL {
  S1: ?FOREACH ($n IN [0, 1, 2]) THEN @PUT (n=$n) > $rows
  S2: ?FOREACH ($n IN [3, 4, 5]) THEN @PUT (n=$n) > $more
  S3: @NOTE (text="rest")
}
S6: @RESPOND ("$rows $more")
PLAN_END
"""
TERMINATES = """PLAN_START
S1: ?FOREACH ($n IN [0, 1, 2, 3, 4, 5]) THEN @PUT (n=$n) > $rows ON_FAIL TERMINATE ("no")
S4: @NOTE (text="rest")
S6: @RESPOND ($rows)
PLAN_END
"""
JUMPS = """PLAN_START
S1: ?FOREACH ($n IN [0, 1, 2]) THEN @PUT (n=$n) > $rows
S2: ?FOREACH ($n IN [3, 4, 5]) THEN @PUT (n=$n) > $more ON_FAIL GOTO S4
S3: @RESPOND ("$rows $more")
S4: @NOTE (text="it failed")
S5: @RESPOND ("none")
PLAN_END
"""
PUTS = [f"put {n}" for n in range(6)]


class World:
    """Tools of which some fail until they are mended, and what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.bad = {1, 4}

    def runtime(self, folder: Path, **more: Any) -> Runtime:
        @tool
        def put(n: int) -> str:
            if n in self.bad:
                raise ValueError(f"{n} is bad")
            self.did.append(f"put {n}")
            return f"put {n}"

        @tool
        def note(text: str) -> str:
            self.did.append(text)
            return "noted"

        @tool
        def seen(rows: list) -> int:  # pyright: ignore[reportMissingTypeArgument]
            self.did.append(f"seen {len(rows)}")
            return len(rows)

        return Runtime([put, note, seen], journal=folder / "j.db", **more)

    def new(self) -> list[str]:
        did, self.did = self.did, []
        return sorted(did)


@pytest.mark.parametrize(
    ("plan", "again"),
    [
        (BLOCKS, ["6 done", "item 1", "item 4", "put 1", "put 4"]),
        (ENDS_IN_LOOP, ["6 done", "item 1", "item 4", "put 1", "put 4", "rest"]),
        (SUB_PLANS, ["6 done", "put 1", "put 4"]),
        (FLAT, ["put 1", "put 4", "seen 6"]),
        (GROUP, ["put 1", "put 4"]),
        (TERMINATES, ["put 1", "put 2", "put 3", "put 4", "put 5", "rest"]),
        (JUMPS, ["put 1", "put 4", "put 5"]),
    ],
    ids=["blocks", "blocks that end in the loop", "sub-plans", "flat", "group", "TERMINATE", "GOTO"],
)
def test_only_failed_items_run_again_and_what_reads_their_list(
    tmp_path: Path, plan: str, again: list[str]
) -> None:
    world, shown = World(), list[str]()
    runtime = world.runtime(tmp_path)
    first = runtime.run_sync(plan)
    world.new()
    world.bad.clear()

    with pytest.raises(CallsheetError, match="JRN083"):
        runtime.rerun_sync(first.run_id, failed_items=True)
    assert world.new() == []
    second = runtime.rerun_sync(
        first.run_id, failed_items=True, effects=lambda ahead: bool(shown.extend(map(str, ahead))) or True
    )

    assert (str(second.status), world.new()) == ("done", again)
    assert all(text in second.response for text in PUTS)
    ahead = "\n".join(shown)
    assert "n=1" in ahead
    assert {f"put {n}" for n in range(6) if f"n={n}" in ahead} <= {*again}  # consent is asked for these alone
    with pytest.raises(CallsheetError, match="JRN087"):
        runtime.rerun_sync(second.run_id, failed_items=True, effects=True)


NESTED = """# ltp: 2
S1: ?FOREACH ($row IN [[0], [1, 2], [3]]) {
  S2: ?FOREACH ($n IN $row) {
    TRY {
      S3: @PUT (n=$n) > $r
    } ON_FAIL @RETRY(1, delay=0)
    S4: @NOTE (text="item $n")
  }
}
"""


def test_failed_items_are_named_by_their_places_also_in_loops_inside_loops(tmp_path: Path) -> None:
    world = World()
    runtime = world.runtime(tmp_path)
    first = runtime.run_sync(NESTED)
    with Journal.open(tmp_path / "j.db") as journal:
        info = journal.find_run(first.run_id)
        found = failures_of(journal, info, ParentHistory(journal, info))
    assert [*found.lines()] == [
        "failed items of S1[1]/S2: 1 of 2: [0]",
        "failed items of S1: 1 of 3: [1]",
    ]
    world.new()
    world.bad.clear()
    runtime.rerun_sync(first.run_id, failed_items=True, effects=True)
    assert world.new() == ["item 1", "put 1"]


@pytest.mark.parametrize("plan", [BLOCKS, FLAT], ids=["blocks", "version 1"])
def test_failed_items_run_again_under_the_policy_of_the_run(tmp_path: Path, plan: str) -> None:
    returns = read_label("T/pub")
    rule = ToolRule(egress=False, destructive=False, idempotent=False, returns=returns)
    world = World()
    runtime = world.runtime(tmp_path, policy=Policy(tools=dict.fromkeys(("PUT", "NOTE", "SEEN"), rule)))
    first = runtime.run_sync(plan)
    world.new()
    world.bad.clear()
    second = runtime.rerun_sync(first.run_id, failed_items=True, effects=True)
    assert str(second.status) == "done"
    assert [one for one in world.new() if one.startswith("put")] == ["put 1", "put 4"]


def test_rerun_of_a_rerun_keeps_what_both_have_finished(tmp_path: Path) -> None:
    for plan in (SUB_PLANS, FLAT):
        world = World()
        runtime = world.runtime(tmp_path)
        run = runtime.run_sync(plan)
        for mended in (1, 4):
            world.new()
            world.bad.discard(mended)
            run = runtime.rerun_sync(run.run_id, failed_items=True, effects=True)
            assert [one for one in world.new() if one.startswith("put")] == [f"put {mended}"]
        assert str(run.status) == "done"


def test_what_may_be_rerun_is_refused_by_name(tmp_path: Path) -> None:
    runtime = World().runtime(tmp_path)
    done = runtime.run_sync('# ltp: 2\nS1: @NOTE (text="x")\n')
    with pytest.raises(CallsheetError, match=r"JRN087.*has failed"):
        runtime.rerun_sync(done.run_id, failed_items=True)
    with pytest.raises(ValueError, match="either name the step"):
        runtime.rerun_sync(done.run_id, "S1", failed_items=True)
    waiting = runtime.run_sync('# ltp: 2\nS1: @ASK_HUMAN ("who?") > $x\n')
    with pytest.raises(CallsheetError, match=r"JRN087.*has not ended"):
        runtime.rerun_sync(waiting.run_id, failed_items=True)


AGENTS = """# ltp: 2
S1: ?FOREACH ($n IN range(4)) {
  S2: @AGENT_SOLVE (goal="item $n", tools=["put", "note"], max_turns=3) > $r
  YIELD ($r)
} > $rows
@RESPOND ($rows)
"""
AGENTS_OF_VERSION_1 = """PLAN_START
S1: ?FOREACH ($n IN [0,1,2,3]) THEN @AGENT_SOLVE (goal="item $n", tools=["put", "note"], max_turns=3) > $rows
S2: @RESPOND ($rows)
PLAN_END
"""


@pytest.mark.parametrize("plan", [AGENTS, AGENTS_OF_VERSION_1], ids=["blocks", "version 1"])
def test_agents_that_failed_begin_anew_or_go_on_where_their_model_was_lost(tmp_path: Path, plan: str) -> None:
    world, asked = World(), list[tuple[int, int]]()
    world.bad.clear()
    is_mended = False

    def answer(messages: list[dict[str, str]]) -> str:
        text = "\n".join(m["content"] for m in messages)
        item, turn = next(n for n in range(4) if f"item {n}" in text), sum("put 7" in t for t in [text])
        asked.append((item, turn))
        if turn == 0:
            return json.dumps({"tool": "put", "args": {"n": 7}})
        if item == 1 and not is_mended:
            raise ConnectionError("the model is away")
        if item == 2 and not is_mended:
            return "I would rather not."
        return json.dumps({"finish": f"done {item}"})

    runtime = world.runtime(tmp_path, model=ChatModel(answer), limits=Limits())
    first = runtime.run_sync(plan)
    assert first.response != "" or str(first.status) == "failed"
    asked.clear()
    world.new()
    is_mended = True
    shown = list[str]()
    second = runtime.rerun_sync(
        first.run_id, failed_items=True, effects=lambda ahead: bool(shown.extend(map(str, ahead))) or True
    )

    assert all(f"done {n}" in second.response for n in range(4))
    # item 1 is asked its lost question again; item 2 from its beginning, and its finished call is kept
    assert sorted(asked) == [(1, 1), (2, 0), (2, 1)]
    assert world.new() == []
    assert [n for n in range(4) if f"item {n}" in "\n".join(shown)] == [1, 2]


TOOLS = """
import json, os, time
from pathlib import Path
from callsheet import tool
HERE = Path(__file__).parent
BAD = set(BROKEN)
@tool
def put(n: int) -> str:
    with (HERE / "log").open("a") as file:
        file.write(json.dumps(n) + "\\n")
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.03)
    if n in BAD:
        raise ValueError("bad")
    return f"put {n}"
"""
LOOPS = {
    "blocks": "# ltp: 2\nINPUT $items: list[int]\nS1: ?FOREACH ($n IN $items) {\n"
    "  S2: @PUT (n=$n) > $r\n  YIELD ($r)\n} > $rows\n@RESPOND ($rows)\n",
    "version 1": "PLAN_START\nS1: ?FOREACH ($n IN $items) THEN @PUT (n=$n) > $rows\nS2: @RESPOND ($rows)\n"
    "PLAN_END\n",
}


def mend_and_kill(
    folder: Path, plan: str, items: int, kills: int, seed: int
) -> tuple[Counter[int], set[int]]:
    """Run a loop with failing items, mend the tool, and kill the rerun of the failed items so many times.

    Gives the calls that were made after the first run, and the items that had failed in it.
    """
    chance, numbers = random.Random(seed), [*range(items)]
    bad = {n for n in numbers if chance.random() < 0.5} | {1, items - 1}
    (folder / "plan.ltp").write_text(LOOPS[plan])
    (folder / "tools.py").write_text(TOOLS.replace("BROKEN", json.dumps(sorted(bad))))
    options = ("--tools", "tools.py", "--run-id", "a", "--var", f"items={json.dumps(numbers)}")
    output, errors = _callsheet(folder, "run", "plan.ltp", *options).communicate(timeout=120)
    assert _made(folder) == Counter(numbers), errors
    (folder / "tools.py").write_text(TOOLS.replace("BROKEN", "[]"))
    (folder / "log").unlink()
    words = ("rerun", "a", "--failed-items", "--yes", "--run-id", "b")
    for _ in range(kills):
        before, deadline = _made(folder).total(), time.monotonic() + 60
        child = _callsheet(folder, *words)
        while child.poll() is None and _made(folder).total() < before + chance.randint(1, 3):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        words = ("resume", "b", "--in-doubt", 'value="by hand"')
    output, errors = _callsheet(folder, *words).communicate(timeout=120)
    assert [n for n in numbers if n not in bad and f"put {n}" not in output] == [], errors
    made = _made(folder)
    assert len(made) + output.count("by hand") >= len(bad), output
    return made, bad


@pytest.mark.parametrize("plan", ["blocks", "version 1"])
def test_kill_in_the_middle_of_a_rerun_with_a_mended_tool_repeats_no_finished_call(
    tmp_path: Path, plan: str
) -> None:
    made, bad = mend_and_kill(tmp_path, plan, items=10, kills=1, seed=5)
    assert max(made.values()) == 1
    assert set(made) <= bad


def _callsheet(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return forked.Popen(
        [sys.executable, "-m", "callsheet", *arguments, "--journal", "j.db", "--progress", "none"],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip


def _made(folder: Path) -> Counter[int]:
    log = folder / "log"
    return Counter(map(json.loads, log.read_text().splitlines())) if log.exists() else Counter()
