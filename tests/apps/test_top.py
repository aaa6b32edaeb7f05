"""`top`: the live view of a run that another process executes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator

from callsheet.apps.cli import run_follower
from callsheet.store import Journal

PLAN = (
    "S1: @ADD (a=1) > $a",
    'S2: @LOOK (path="begun", until="go") > $b',
    "S3: ?IF ($a == 7) THEN @ADD (a=3) > $c",
    'S4: @RESPOND ("$a $b")',
)
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A program on a terminal that is 90 columns wide."""

    def __init__(self, *line: str, term: str = "xterm") -> None:
        self.child, self._terminal = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = term
            code = "from callsheet.apps.cli.main import main; main()"
            os.execv(sys.executable, [sys.executable, "-c", code, *line])
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
        self.shown = b""

    def until(self, text: str) -> None:
        """Read until a text is shown."""
        deadline = time.monotonic() + 60
        while text.encode() not in self.plain():
            assert time.monotonic() < deadline, self.plain().decode()
            self.read()

    def plain(self) -> bytes:
        """The output without control sequences."""
        return _CONTROL.sub(b"", self.shown)

    def read(self) -> bool:
        """Read available output; return whether more may follow."""
        if not select.select([self._terminal], [], [], 0.3)[0]:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other side is gone
            return False
        self.shown += data
        return bool(data)

    def ends(self) -> int:
        """The exit status after the program has ended."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def close(self) -> None:
        os.close(self._terminal)


@contextlib.contextmanager
def screen(*line: str, term: str = "xterm") -> Iterator[Screen]:
    shown = Screen(*line, term=term)
    try:
        yield shown
    finally:
        shown.close()


def test_run_of_another_process_is_watched_to_end(machine, wait_for):
    plan = machine.plan(*PLAN)
    with machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r1") as run:
        wait_for(machine.folder / "begun")
        with screen("top", "r1") as top:
            top.until("run r1 · 4 steps: 1 done, 1 running")
            (machine.folder / "go").touch()
            top.until("run r1 · done · 4 steps: 3 done, 1 skipped")
            top.until("ended: done at S4")
            assert top.ends() == 0
        assert run.wait(60) == 0
    assert "$a = 2" in top.plain().decode()


def test_ctrl_c_ends_watching_only(machine, wait_for):
    plan = machine.plan(*PLAN)
    with machine.spawn("run", plan, "--tools", machine.tools, "--run-id", "r1") as run:
        wait_for(machine.folder / "begun")
        with screen("top") as top:
            top.until("1 running")
            os.kill(top.child, signal.SIGINT)
            top.until("watch it again with: callsheet top r1")
            assert top.ends() == 130
        (machine.folder / "go").touch()
        assert run.wait(60) == 0


def test_waiting_run_is_reported(machine, monkeypatch):
    plan = machine.plan('S1: @ASK_HUMAN (prompt="go?") > $a', "S2: @RESPOND ($a)")
    machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    with screen("top", "r1") as top:
        top.until("1 waiting for people")
        top.until("callsheet inbox")
        assert top.ends() == 4
    (row,) = map(json.loads, machine("top", "--all", "--json").stdout.splitlines())
    assert (row["run_id"], row["status"], row["under_way"]) == ("r1", "waiting", "an answer at S1")
    assert re.match(r"r1 +waiting +\S+ m?s +1  plan.ltp  an answer at S1", machine("top", "--all").stdout)
    assert "leave out RUN" in machine("top", "r1", "--all").stderr
    machine("run", plan, "--tools", machine.tools, "--run-id", "r2")
    monkeypatch.setattr(run_follower, "_MOST", 1)
    with Journal.open_to_read(machine.journal) as journal:
        runs = run_follower.OpenRuns(journal)
        assert ([row["run_id"] for row in runs.look()], runs.cut) == (["r2"], ("waiting",))


def test_without_terminal_events_are_lines(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)")
    machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    told = machine("top", "r1")
    assert told.exit_code == 0
    assert told.stdout == machine("playback", "r1").stdout
    rows = [json.loads(line) for line in machine("top", "last", "--json").stdout.splitlines()]
    assert [(row["event"], row["step"]) for row in rows][-1] == ("ended", "S2")


def test_exit_status_is_that_of_failed_run(machine):
    plan = machine.plan('S1: @FAIL (text="no") > $a ON_FAIL TERMINATE ("over")')
    machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    assert machine("top", "r1").exit_code == 1
    assert machine("top", "nobody").exit_code == 2


def test_run_shows_same_view_on_terminal(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)")
    with screen("run", plan, "--tools", machine.tools, "--run-id", "r1") as run:
        run.until("done · 2 steps: 2 done")
        assert run.ends() == 0
    assert "$a = 2" in run.plain().decode()


def test_terminal_that_cannot_redraw_gets_line_for_each_event(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)")
    with screen("run", plan, "--tools", machine.tools, term="dumb") as dumb:
        dumb.until("S1    started  @ADD (a=1)")
        assert dumb.ends() == 0
    with screen("top", "last", term="dumb") as dumb:
        dumb.until("S1    started  @ADD (a=1)")
        assert dumb.ends() == 0
