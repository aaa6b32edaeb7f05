"""Progress of single calls: items of a FOREACH, attempts, and what MCP servers report during a call."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import time
import types
from pathlib import Path

import pytest
from rich.console import Console
from tests import forked

from callsheet.api.policies import load_policy
from callsheet.apps.cli.progress.live import Heading, LiveDisplay, LiveGraph
from callsheet.apps.cli.progress.progress import Display, Progress
from callsheet.apps.operations.live_calls import LiveCalls, NoteRow, shared, shared_reports
from callsheet.apps.operations.schema import schema_of
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse
from callsheet.frontends.structured import read_structured
from callsheet.ir import Plan
from callsheet.ir.labels import Label
from callsheet.machine import CallTool
from callsheet.machine.notes import CallPlace, Note, NoteKind
from callsheet.ports.calls import CallContext, CallProgress
from callsheet.ports.timeouts import Slots
from callsheet.runtime.gateway import Ports
from callsheet.runtime.guard import Guard, GuardedGateway
from callsheet.store.journal_paths import progress_of
from callsheet.store.labels import LabelStore
from json_forms import holds

SERVER = Path(__file__).parent / "servers" / "slowpoke.py"
LOOP = "S1: ?FOREACH ($i IN [1, 2, 3]) THEN @FAIL (text=$i) > $a"
UNEVEN = '''
import time
from callsheet import tool


@tool(effect="read", max_concurrent=1)
def nap(seconds: float) -> str:
    """Sleeps."""
    time.sleep(seconds)
    return "slept"


@tool(effect="read", max_concurrent=1)
def moody(n: int, seen: list[int] = []) -> int:
    """Fails at the first call for 2, and always for 3."""
    seen.append(n)
    if n == 3 or (n == 2 and seen.count(2) == 1):
        raise OSError("busy")
    return n
'''


def lines(stderr: str) -> list[str]:
    """The progress lines of a run, with `T` for durations."""
    shown = [line for line in stderr.splitlines() if re.match(r"S\d ", line)]
    return [re.sub(r"\([\d.]+ m?s\)", "(T)", line) for line in shown]


@pytest.fixture
def with_slowpoke(machine):
    servers = {"slowpoke": forked.server(SERVER, machine.folder / "notes")}
    machine.write(".mcp.json", json.dumps({"mcpServers": servers}))
    return machine


class Told:
    """A listener that keeps what tools say."""

    def __init__(self) -> None:
        self.progress: list[CallProgress] = []

    def began(self, key: str) -> None:
        pass

    def queued(self, key: str) -> None:
        pass

    def ended(self, key: str, *, succeeded: bool) -> None:
        pass

    def progressed(self, key: str, progress: CallProgress) -> None:
        self.progress.append(progress)


# ------------------------------------------------------------ lines


def test_failed_and_retried_items_are_named(machine):
    machine.write("uneven.py", UNEVEN)
    plan = machine.plan("S1: ?FOREACH ($i IN [1, 2, 3]) THEN @MOODY (n=$i) > $a ON_FAIL @RETRY(1)")
    result = machine("run", plan, "--tools", "uneven.py", "--retry-delay", "0")
    assert lines(result.stderr) == [
        "S1    started  @MOODY (n=$i), 3 items",
        "S1    retrying item 2 of 3, attempt 2 of 2: OSError: busy",
        "S1    retrying item 3 of 3, attempt 2 of 2: OSError: busy",
        "S1    failed   item 3 of 3, attempt 2 of 2: OSError: busy  (T)",
        'S1    ok       $a = [1,2,"OSError: busy"]  (T)',
    ]


def test_show_counts_failed_items(machine):
    machine.write("uneven.py", UNEVEN)
    plan = machine.plan("S1: ?FOREACH ($i IN [1, 3, 3]) THEN @MOODY (n=$i) > $a")
    machine("run", plan, "--tools", "uneven.py", "--run-id", "r")
    assert "[3 calls, 2 of 3 items failed]" in machine("show", "r").stdout
    (step,) = machine.json("show", "r")["steps"]
    assert (step["outcome"], step["failed_items"]) == ("ok", 2)


def test_slow_items_have_lines(machine):
    machine.write("uneven.py", UNEVEN)
    plan = machine.plan("S1: ?FOREACH ($i IN [0, 1.1, 0]) THEN @NAP (seconds=$i) > $a")
    result = machine("run", plan, "--tools", "uneven.py")
    assert lines(result.stderr)[1:-1] == ["S1    item     2 of 3  (T)"]


def test_items_are_numbered_in_json_lines(machine):
    plan = machine.plan(LOOP)
    result = machine("run", plan, "--tools", machine.tools, "--progress", "json")
    told = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    failed = [(row["item"], row["items"], row["attempt"]) for row in told if row["event"] == "failed"]
    assert sorted(failed) == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]


def test_resumed_loop_numbers_its_items(machine):
    plan = machine.plan('S1: ?FOREACH ($i IN ["a", "b", "c"]) THEN @DIE_AT (text=$i) > $a')
    machine.write(
        "deadly.py",
        """
import os
from callsheet import tool


@tool(effect="read", max_concurrent=1)
def die_at(text: str) -> str:
    if text == "b" and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(9)
    if text == "c":
        raise OSError("no")
    return text
""",
    )
    assert machine.shell("run", plan, "--tools", "deadly.py", "--run-id", "r").returncode == 9
    told = lines(machine.shell("resume", "r").stderr)
    assert "S1    started  @DIE_AT (text=$i), 3 items" in told
    assert "S1    failed   item 3 of 3: OSError: no  (T)" in told


# ------------------------------------------------------------ what servers report


def test_server_progress_is_shown(with_slowpoke):
    plan = with_slowpoke.plan("S1: ?FOREACH ($i IN [4]) THEN @CRAWL (pages=$i, seconds=0.8) > $a")
    result = with_slowpoke("run", plan)
    told = r"S1    working  item 1 of 1: [23] of 4, pages \N{REPLACEMENT CHARACTER}\[31m"
    assert re.fullmatch(told, lines(result.stderr)[1])
    assert (with_slowpoke.folder / "notes").read_text() == "asked\n"


def test_progress_of_python_function_is_shown(machine):
    machine.write(
        "crunching.py",
        """
import time
from callsheet import CallContext, tool


@tool(effect="read")
def crunch(context: CallContext) -> str:
    for part in (0.25, 0.5, 0.75):
        context.report_progress(part, 1, "of the rows")
        time.sleep(1.05)
    return "done"
""",
    )
    result = machine("run", machine.plan("S1: @CRUNCH () > $a"), "--tools", "crunching.py")
    assert lines(result.stderr)[1] == "S1    working  75%, of the rows"


def test_server_is_not_asked_for_progress_if_nobody_can_look(with_slowpoke):
    plan = with_slowpoke.plan("S1: @CRAWL (pages=1) > $a")
    assert with_slowpoke("run", plan, "--json", "--no-journal").exit_code == 0
    assert (with_slowpoke.folder / "notes").read_text() == "not asked\n"


def test_server_progress_is_seen_in_other_processes(with_slowpoke):
    plan = with_slowpoke.plan("S1: @CRAWL (pages=900, seconds=0.1) > $a")
    with with_slowpoke.spawn("run", plan, "--run-id", "r1", "--progress", "none") as run:
        while not (reports := shared_reports(with_slowpoke.journal, "r1")):
            assert run.poll() is None
            time.sleep(0.05)
        assert reports[0].progress.total == 900
        (row,) = map(json.loads, with_slowpoke("top", "--all", "--json").stdout.splitlines())
        assert re.search(r"S1 .* \(\d+ of 900, pages", row["under_way"])
        with with_slowpoke.spawn("top", "r1", "--json", stdout=subprocess.PIPE) as top:
            assert top.stdout is not None
            told = next(row for row in map(json.loads, top.stdout) if row["event"] == "progress")
            holds(told, schema_of(NoteRow))
            assert (told["step"], told["total"]) == ("S1", 900)
            top.kill()
        run.kill()


def test_reports_of_a_process_that_died_are_replaced_and_those_of_a_living_one_are_left(tmp_path):
    journal, calls, late = tmp_path / "journal.db", LiveCalls(), LiveCalls()
    file = progress_of(journal, "r")
    file.parent.mkdir(parents=True)
    file.write_text('[{"key": "S1", "done": 1, "total": 2, "message": "", "waits": false, "lines": []}]')
    assert shared_reports(journal, "r")
    with shared(calls, journal, "r"):
        calls.began("S2")
        assert (shared_reports(journal, "r"), file.stat().st_mode & 0o077) == ([], 0)
        with shared(late, journal, "r"):
            pass
        assert file.exists()
    assert not file.exists()


def test_resume_shows_server_progress(with_slowpoke):
    plan = with_slowpoke.plan('S1: @ASK_HUMAN ("Go on?") > $ok', "S2: @CRAWL (pages=4, seconds=0.8) > $a")
    assert with_slowpoke("run", plan, "--run-id", "r").exit_code == 4
    with_slowpoke("approve", "r", "--answer", "yes")
    assert re.search("S2    working  [23] of 4, pages", with_slowpoke("resume", "r").stderr)


def test_secret_in_progress_is_masked(with_slowpoke, monkeypatch):
    monkeypatch.setenv("WORD", "xyzzy-plugh-42")
    plan = with_slowpoke.plan("S1: @CRAWL (pages=4, seconds=0.8, word=$word) > $a")
    result = with_slowpoke("run", plan, "--secret", "word=env:WORD")
    assert re.search(r"[123] of 4, \[secret\]", result.stderr)  # the first after two seconds
    assert "xyzzy" not in result.stderr


def test_words_about_secret_data_are_not_passed_on_under_policy():
    told = Told()
    with LabelStore.in_memory() as labels:
        guard = Guard(load_policy("open"), "", labels)
        gateway = GuardedGateway(Ports(lambda _: None, listener=told), "r", guard)
        for label in (Label(), Label(readers=frozenset())):
            command = CallTool("S1.0.1", "S1", "CRAWL", {}, label=label)
            context = CallContext("r", command.key).begin("r", command.key, gateway, command)
            context.report_progress(1, 4, "words")
    assert told.progress == [CallProgress(1, 4, "words"), CallProgress(1, 4, "")]


# ------------------------------------------------------------ live


def live(text: str) -> tuple[Display, io.StringIO, Plan]:
    plan = parse(text).require()
    screen = io.StringIO()
    return LiveDisplay(plan, Console(file=screen, width=100, height=20, force_terminal=True)), screen, plan


def test_live_graph_shows_attempt_and_progress():
    action = {"index": "S1", "title": "Fail", "tool": "fail", "args": {}, "depends_on": []}
    plan = parse_dag(json.dumps({"steps": [action]}), "<plan>").require()
    screen = io.StringIO()
    display = LiveGraph(plan, Console(file=screen, width=100, height=20, force_terminal=True))
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1"))
        progress.began("S1.0.1")
        progress.note(Note(NoteKind.RETRYING, "S1", "busy", at=CallPlace(attempt=2, attempts=3)))
        progress.began("S1.0.2")
        progress.progressed("S1.0.2", CallProgress(1, 4, "rows"))
    assert "attempt 2 of 3: 1 of 4, rows" in screen.getvalue()


def test_live_display_shows_open_item_and_its_progress():
    display, screen, plan = live(LOOP)
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1", at=CallPlace(items=3)))
        for item in range(3):
            progress.began(f"S1.{item}.1")
        progress.ended("S1.0.1", succeeded=True)
        progress.progressed("S1.1.1", CallProgress(1, 4, "rows"))
    shown = screen.getvalue()
    assert re.search(r"item 2 of 3 and 1 more \(\d+ ms\): 1 of 4, rows", shown)


def test_loop_of_blocks_is_one_line_with_its_rate_and_failures():
    text = (
        "# ltp: 2\nS1: ?FOREACH ($i IN [1, 2, 3, 4]) TOGETHER {\n  S2: @FAIL (text=$i) > $a\n} ON_FAIL SKIP\n"
    )
    plan, screen = read_structured(text).require(), io.StringIO()
    console = Console(file=screen, width=100, height=20, force_terminal=True, color_system=None)
    display = LiveDisplay(plan, console, Heading(plan))
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1", at=CallPlace(items=4)))
        for item in range(3):
            progress.note(Note(NoteKind.STARTED, f"S1[{item}]/S2"))
            progress.began(f"S1[{item}]/S2.1")
        progress.note(Note(NoteKind.FINISHED, "S1[0]/S2"))
        progress.ended("S1[0]/S2.1", succeeded=True)
        progress.note(Note(NoteKind.FAILED, "S1[1]/S2", "no"))
    shown = screen.getvalue()
    assert "2 steps: 2 running" in shown
    assert re.search(r"S1 \?FOREACH .* 2 of 4, 1 with failures, [\d,.]+/s, [\d.]+ m?s left", shown)
    assert re.search(r"S2 @FAIL .* ×3 .* S1\[2\] \(\d+ ms\)", shown)


def test_time_of_item_that_waits_for_its_tool_does_not_count():
    display, screen, plan = live(LOOP)
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1", at=CallPlace(items=3)))
        progress.began("S1.0.1")
        progress.queued("S1.0.1")
        progress.began("S1.1.1")
        progress.queued("S1.1.1")
        time.sleep(1.2)
        display.end()
        assert "item 1 of 3 and 1 more, waiting for the tool" in screen.getvalue()
        progress.began("S1.0.1")
        assert re.fullmatch(r"item 1 of 3 and 1 more \(\d+ ms\)", display._rows["S1"].calls.text())


async def test_calls_beyond_slots_of_their_tool_say_that_they_wait():
    told: list[str] = []

    class Listener(Told):
        def queued(self, key: str) -> None:
            told.append(key)

    gateway = types.SimpleNamespace(
        listener=Listener(), withholds=False, queued=lambda key, turn: None, leaving=lambda key: None
    )

    async def pause(args: dict[str, object], context: CallContext) -> None:
        await asyncio.sleep(0.01)

    run = Slots(1).sharing(pause)
    keys = ["S1.0.1", "S1.1.1"]
    contexts = [CallContext("r", key).begin("r", key, gateway, None) for key in keys]
    await asyncio.gather(*(run({}, context) for context in contexts))
    assert told == ["S1.1.1"]


def test_loop_with_failed_item_is_shown_as_running():
    display, screen, plan = live(LOOP)
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1", at=CallPlace(items=3)))
        progress.began("S1.0.1")
        progress.note(Note(NoteKind.FAILED, "S1", "busy", at=CallPlace(1, 3)))
    shown = screen.getvalue()
    assert "item 1 of 3: busy" in shown
    assert "✗" not in shown


def test_finished_loop_tells_of_failed_items():
    display, screen, plan = live(LOOP)
    with Progress(display, plan) as progress:
        progress.begin()
        progress.note(Note(NoteKind.STARTED, "S1", at=CallPlace(items=3)))
        progress.note(Note(NoteKind.FAILED, "S1", "busy", at=CallPlace(1, 3)))
        progress.note(Note(NoteKind.FINISHED, "S1", var="a", value=[1]))
    assert "1 item failed, $a = [1]" in screen.getvalue()
