"""Commands that are interrupted: signals, a closed pipe, a full device."""

from __future__ import annotations

import io
import os
import pty
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from rich.console import Console
from tests import forked

from callsheet.apps.cli import event_loop
from callsheet.apps.cli.main import main
from callsheet.apps.cli.progress.live import Heading, LiveDisplay
from callsheet.apps.cli.progress.progress import Progress
from callsheet.frontends.ltp import parse
from callsheet.machine.notes import Note, NoteKind


class Lost:
    """A display whose output fails; counts the attempts."""

    def __init__(self):
        self.asked = 0

    def fail(self, *_):
        self.asked += 1
        raise BrokenPipeError

    begin = show = call = end = fail


def test_failing_display_is_abandoned():
    display = Lost()
    progress = Progress(display, parse("S1: @A ()").require())
    progress.begin()
    for _ in range(3):
        progress.note(Note(NoteKind.STARTED, "S1", ""))
    progress.end()
    assert display.asked == 2  # to begin, and to give the screen back


def test_graph_of_ended_run_has_no_running_steps():
    out, plan = io.StringIO(), parse("S1: @ADD (a=1) > $a\nS2: @ADD (a=2) > $b").require()
    console = Console(file=out, width=80, height=24, force_terminal=False)
    display = LiveDisplay(plan, console, Heading(plan))
    display.begin({})
    display.show(Note(NoteKind.STARTED, "S1"), None)
    display.show(Note(NoteKind.FINISHED, "S1", var="a", value=1), 0.1)
    display.show(Note(NoteKind.STARTED, "S2"), None)
    display.show(Note(NoteKind.ENDED, "S2", "failed"), None)
    display.end()
    heading, first, second = out.getvalue().splitlines()
    assert "1 done, 1 stopped" in heading
    assert (first.split()[0], second.split()[0]) == ("✓", "✗")
    assert second.rstrip().endswith("stopped")


@pytest.mark.parametrize("stage", ["plain", "json", "live"])
def test_losing_standard_error_does_not_stop_run(machine, stage):
    plan = machine.plan('S1: @NOTE (line="one") > $a', 'S2: @NOTE (line="two") > $b', "S3: @RESPOND ($b)")
    reading, writing = os.pipe()
    os.close(reading)
    line = ("run", plan, "--tools", "tools.py", "--run-id", "r", "--progress", stage)
    done = machine.shell(*line, stderr=writing)
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, "two\n")
    assert machine.json("runs")[0]["status"] == "done"
    assert (machine.folder / "notes.txt").read_text() == "one\ntwo\n"


def test_losing_stdout_and_stderr_keeps_outcome(machine):
    plan = machine.plan('S1: @FAIL (text="no") > $a ON_FAIL TERMINATE ("gave up")')
    reading, writing = os.pipe()
    os.close(reading)
    done = machine.shell("run", plan, "--tools", "tools.py", stdout=writing, stderr=writing)
    os.close(writing)
    assert done.returncode == 1
    assert machine.json("runs")[0]["status"] == "failed"


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signal_leaves_resumable_run_and_no_server(with_server, wait_for, number, status):
    server = with_server.folder / "server.py"
    server.write_text(f"import os\nopen('pid', 'w').write(str(os.getpid()))\n{server.read_text()}")
    plan = with_server.plan(
        'S1: @HALL__GREET (name="x") > $a', 'S2: @LOOK (path="here", wait=300) > $b', "S3: @RESPOND ($a)"
    )
    process = with_server.spawn("run", plan, "--tools", "tools.py", "--run-id", "r")
    wait_for(with_server.folder / "here")
    pid = int((with_server.folder / "pid").read_text())
    process.send_signal(number)
    if number != signal.SIGINT:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert "interrupted; continue with: callsheet resume r" in err
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert with_server.json("runs")[0]["status"] == "interrupted"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_begins_no_other_of_many_runs(machine, wait_for, number, status):
    plan = machine.plan('S1: @ASK_HUMAN ("?") > $a', 'S2: @LOOK (path="here", wait=300) > $b')
    for name in ("one", "two"):
        machine("run", plan, "--tools", "tools.py", "--run-id", name)
        machine("pause", name)
        machine("approve", name, "S1", "--answer", "yes")
    process = machine.spawn("runs", "resume", "--status", "paused", "--yes")
    wait_for(machine.folder / "here")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "not begun: an earlier one was interrupted" in err) == (status, True), err
    assert sorted(row["status"] for row in machine.json("runs")) == ["interrupted", "paused"]


def test_ignored_signal_stays_ignored(machine, wait_for):
    plan = machine.plan('S1: @LOOK (path="here", wait=1) > $b', "S2: @RESPOND ($b)")
    nohup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    process = machine.spawn("run", plan, "--tools", "tools.py", prefix=nohup)
    wait_for(machine.folder / "here")
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60)[0] == "seen\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_loop_that_computes_is_left_after_signal(monkeypatch, number):
    """Such as the replay of a run which had been interrupted while it computed."""
    monkeypatch.setattr(event_loop, "_DEAF", 0.05)
    outside = signal.signal(number, signal.SIG_DFL)  # where it is ignored, it stays ignored

    async def compute():
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pass
        pytest.fail("the loop was not left")

    try:
        with pytest.raises(event_loop.TerminatedBySignal) as caught:
            event_loop.run_async(compute())
        assert caught.value.status == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, outside)


def on_terminal(machine, *line, until=None, number=None):
    """The output of a command line on a terminal that is its stdout and stderr, and its status."""
    ours, theirs = pty.openpty()
    with machine.spawn(*line, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        if until is not None:
            until()
            process.send_signal(number)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break
            if not piece:
                break
            said += piece
    os.close(ours)
    return process.returncode, said.decode()


def test_live_view_is_closed_before_hint(machine, wait_for):
    plan = machine.plan('S1: @LOOK (path="here", wait=300) > $b', "S2: @RESPOND ($b)")
    line = ("run", plan, "--tools", "tools.py", "--run-id", "r", "--progress", "live")
    status, said = on_terminal(
        machine, *line, until=lambda: wait_for(machine.folder / "here"), number=signal.SIGINT
    )
    assert status == 130
    assert "\x1b" not in said[said.index("interrupted; continue") :]
    assert said.rindex("\x1b[?25h") < said.index("interrupted; continue")


# ---------------------------------------------------------------- what an answer may hold


def test_escapes_are_removed_on_terminal_and_kept_in_pipe(machine):
    answer = "\x1b[31mred\x1b[0m\x1b]0;t\x07\x08!"
    plan = machine.plan("S1: @RESPOND ($x)")
    line = ("run", plan, "--var", f"x={answer}", "--run-id", "r", "--progress", "none")
    assert machine.shell(*line).stdout == answer + "\n"
    assert f"answer: {answer}" in machine("show", "r").stdout
    assert "answer: red!\r\n" in on_terminal(machine, "show", "r")[1]
    again = on_terminal(machine, "resume", "r", "--progress", "none")[1]
    assert again.startswith("red!\r\n")


def test_answer_with_lone_surrogate_is_shown(machine):
    plan = machine.plan("S1: @RESPOND ($x)")
    assert machine("run", plan, "--var", 'x="a\\ud800b"', "--run-id", "r").exit_code == 0
    done = machine.shell("show", "r")
    assert (done.returncode, "answer: a\\ud800b" in done.stdout) == (0, True), done.stderr


def test_show_fails_on_broken_chain(machine):
    machine("run", machine.plan('S1: @RESPOND ("x")'), "--run-id", "r")
    with closing(sqlite3.connect(machine.journal)) as base, base:
        base.execute("UPDATE events SET ts = ts + 1 WHERE id % 4294967296 = 2")
    base.close()
    for line in (("show", "r"), ("show", "r", "--json"), ("show", "r", "--events")):
        result = machine(*line)
        assert result.exit_code == 1
        assert "run r: CHAIN BROKEN at event 2" in result.stderr


# ---------------------------------------------------------------- devices


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "line",
    [
        ("runs",),
        ("check", "--json", "plan.ltp"),
        ("run", "plan.ltp"),
        ("--help",),
        ("runs", "--journal", "x", "--json"),
    ],
)
def test_full_device_is_one_message(machine, line):
    machine("run", machine.plan('S1: @RESPOND ("x")'), "--run-id", "r")
    with Path("/dev/full").open("w") as full:
        done = machine.shell(*line, stdout=full)
    assert done.returncode == 1, done.stderr
    assert "error CFG018: the result cannot be written: No space left on device" in done.stderr
    assert "bug" not in done.stderr
    assert "Exception" not in done.stderr


def test_closed_stdin_is_one_message(machine):
    prefix = "import sys; sys.stdin = None"
    done = machine.shell("run", "-", prefix=prefix)
    assert done.returncode == 2
    assert done.stderr.startswith("error CFG012: the plan standard input cannot be read: it is closed")


@pytest.mark.parametrize("line", [("runs",), ("show", "r"), ("show", "r", "--events"), ("tools",)])
def test_closed_output_pipe_is_no_error(machine, line):
    machine("run", machine.plan('S1: @RESPOND ("x")'), "--run-id", "r")
    reading, writing = os.pipe()
    os.close(reading)
    done = machine.shell(*line, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------- journals that disappear

REMOVER = """
from collections.abc import Iterator
from pathlib import Path
from callsheet.ports.python_tools import tool

@tool(effect="read")
def remove(path: str) -> str:
    if not Path("removed").exists():
        Path("removed").touch()
        Path(path).unlink()
    return "removed"
"""


def test_journal_removed_during_run_is_saved_and_resumable(machine):
    machine.write("remover.py", REMOVER)
    plan = machine.plan(
        "S1: @ADD (a=1) > $a",
        f'S2: @REMOVE ("{machine.journal}") > $b',
        "S3: @ADD (a=5) > $c",
        'S4: @RESPOND ("$a $b $c")',
    )
    tools = ("--tools", "tools.py", "--tools", "remover.py")
    told = machine("run", plan, *tools, "--run-id", "r", "--progress", "none")
    assert told.exit_code == 2
    assert told.stderr.count("error JRN019") == told.stderr.count("error") == 1
    move, resume = told.stderr.split("move it back: mv ")[1].strip().split("; then: callsheet ")
    saved, _, back = move.partition(" ")
    Path(saved).rename(back)
    assert machine(*resume.split(), "--progress", "none").stdout == "2 removed 6\n"
    assert machine("runs", "verify").exit_code == 0


# ---------------------------------------------------------------- journals that are only read


def test_reading_creates_no_journal(machine):
    for line in (("runs", "--journal", "absent/j.db"), ("show", "last", "--journal", "absent/j.db")):
        result = machine(*line)
        assert result.exit_code == 1
        assert result.stderr.startswith("error JRN010: there is no journal ")
    assert machine("show", "last").exit_code == 1
    assert machine("runs").stdout == "no runs in this journal\n"
    assert not (machine.folder / "absent").exists()
    assert not machine.journal.exists()
    machine.write("other", "x" * 5000)
    assert "JRN008" in machine("runs", "--journal", "other").stderr


BEGINS_ONE = {"call", "chat", "demo", "gate", "labels set", "mcp", "plan run", "run", "runs import"}
BEGINS_ONE |= {"runs restore", "schedule run", "serve"}
"""The commands that begin a journal where there is none."""
NEEDS = {"policy propose": ("--from", "journal", "--policy", "workspace"), "fork": ("--at", "1")}
NEEDS |= {"rerun": ("--from", "S1"), "search": ("text",)}


def _commands_with_journal(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if any("--journal" in each.opts for each in command.params):
            yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from _commands_with_journal(command, *before, name)


def test_commands_that_only_read_or_change_runs_create_no_journal(machine):
    machine.write("note.txt", "x")
    known = dict(_commands_with_journal(main))
    assert known.keys() >= BEGINS_ONE
    for name in known.keys() - BEGINS_ONE:
        takes = [each for each in known[name].params if isinstance(each, click.Argument) and each.required]
        line = ["note.txt" if each.name == "place" else "1" for each in takes]
        if any("--output" in each.opts for each in known[name].params):
            line += ["--output", "out"]
        if name in {"runs cancel", "runs rerun", "runs delete", "runs pause", "runs resume"}:
            line += ["--status", "failed", "--yes"]
        result = machine(*name.split(), *line, *NEEDS.get(name, ()), "--journal", "absent/j.db", stdin="")
        assert not (machine.folder / "absent").exists(), name
        assert not machine.journal.exists(), name
        assert isinstance(result.exception, SystemExit | None), name
        assert "CFG010" not in result.stderr, f"{name} was not tried: {result.stderr}"


LOOK = """
import os, sys
from collections.abc import Iterator
from pathlib import Path
from callsheet.store import Journal
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
journal = Journal.open_to_read(Path(sys.argv[1]))
print(journal.find_run("r").run_id, journal.verify("r"), len(list(journal.events("r"))) > 1)
"""


def test_read_only_journal_is_readable(machine):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = folder / "j.db"
        plan = machine.plan('S1: @RESPOND ("x")')
        machine("run", plan, "--journal", str(journal), "--run-id", "r")
        journal.chmod(0o444)
        folder.chmod(0o555)
        done = forked.run(
            [sys.executable, "-c", LOOK, str(journal)], capture_output=True, text=True, check=False
        )
        folder.chmod(0o755)
    assert done.stdout == "r None True\n", done.stderr


# ---------------------------------------------------------------- a narrow terminal, variables


def test_narrow_terminal_shows_mark_and_id(machine):
    first = 'S1: @ADD (a=1, b=2, text="a long argument that goes on") > $a'
    second = 'S10: @RESPOND ("something long that does not fit in forty columns")'
    plan = parse(f"PLAN_START\n{first}\n{second}\nPLAN_END\n").plan
    assert plan is not None
    out = io.StringIO()
    display = LiveDisplay(plan, Console(file=out, width=40, height=20, force_terminal=False))
    display.begin({})
    display.show(Note(NoteKind.FINISHED, "S1", "", "a", "x" * 200), 72.0)
    display.show(Note(NoteKind.FAILED, "S10", "y" * 200), 0.5)
    display.end()
    first, second = out.getvalue().splitlines()[-2:]
    assert first.startswith("✓ S1  @ADD (a=1")
    assert second.startswith("✗ S10 @RESPOND (")
    assert all("…" in line and len(line.rstrip()) <= 40 for line in (first, second))
    assert "1:12 min" in first


def test_failed_steps_stay_visible_and_waiting_steps_do_not_spin():
    plan = parse("PLAN_START\n" + "\n".join(f"S{n}: @ADD ({n})" for n in range(1, 51)) + "\nPLAN_END\n").plan
    assert plan is not None
    out = io.StringIO()
    display = LiveDisplay(plan, Console(file=out, width=40, height=12, force_terminal=False))
    display.begin({})
    for n in range(1, 50):
        failed = n in (3, 20)
        note = Note(NoteKind.FAILED, f"S{n}", "a reason") if failed else Note(NoteKind.FINISHED, f"S{n}")
        display.show(note, 0.5)
    display.show(Note(NoteKind.ASKED, "S50", "go?"), None)
    display.end()
    lines = out.getvalue().splitlines()[-10:]
    assert [line[:5].split()[:2] for line in lines[:3]] == [["✗", "S3"], ["✗", "S20"], ["✓", "S43"]]
    assert lines[-1].startswith("? S50")


@pytest.mark.parametrize("value", ['{"a":1,"a":2}', '[{"b":{"a":1,"a":1}}]', "a\udcffb"])
def test_lossy_value_is_refused(machine, value):
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--var", f"n={value}")
    assert result.exit_code == 2
    assert result.stderr.startswith("error CFG011: ")


def test_arguments_undecodable_in_locale_are_utf_8(machine):
    plan = machine.plan("S1: @RESPOND ($n)")
    value = "ä".encode().decode("ascii", "surrogateescape")
    assert machine("run", plan, "--var", f"n={value}", "--progress", "none").stdout == "ä\n"
    assert machine("run", plan, "--var", 'n={"a":1,"a":2} x', "--progress", "none").exit_code == 0
