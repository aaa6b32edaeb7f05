"""`callsheet debug`: interactive on a real pseudo-terminal, and plain text elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress

import pytest

from callsheet.lctl import read
from callsheet.views.columns import width
from callsheet.views.debugger import KEYS, Row, Selected, Story, Style, screen_lines

_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_LINES, _COLUMNS = 24, 100

TOOLS = '''
from callsheet.ports.python_tools import tool


@tool(effect="read")
def orders(customer: str) -> list:
    """Orders."""
    return [{"total": "40"}, {"total": "about 80" if customer == "ann" else "80"}]


@tool(effect="read")
def convert(amount: str) -> float:
    """A number."""
    return float(amount)


@tool
def invoice(amounts: list[float]) -> str:
    """Sends it."""
    return "sent"
'''
PLAN = (
    "S1: @ORDERS (customer=$who) > $orders",
    "S2: ?FOREACH ($o IN $orders) THEN @CONVERT (amount=$o.total) > $converted",
    'S3: @INVOICE (amounts=$converted) > $sent ON_FAIL TERMINATE ("no invoice")',
    'S4: ?IF ($sent == "x") THEN @ORDERS (customer=$sent) > $more',
    "S5: @RESPOND ($sent)",
)


@pytest.fixture
def bills(machine):
    """A machine with a failed and a successful run."""
    tools, plan = machine.write("bills.py", TOOLS), machine.plan(*PLAN)
    for who, run_id in (("ann", "bill"), ("bob", "fine")):
        machine("run", plan, "--tools", tools, "--var", f"who={who}", "--run-id", run_id)
    return machine


class Terminal:
    """A pseudo-terminal that runs a command."""

    def __init__(self, folder, *line):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": str(_LINES)}
        command = [sys.executable, "-m", "callsheet", *line]
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - so that Ctrl-C reaches it
        )
        os.close(theirs)

    def press(self, keys, wanted):
        """Press keys and return the screen once it contains `wanted`."""
        os.write(self._ours, keys.encode())
        return self.shows(wanted)

    def shows(self, wanted):
        """The screen, once it contains `wanted`."""
        data, until = "", time.monotonic() + 60
        while wanted not in data:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"{wanted!r} is not in {data[-3_000:]!r}"
            data = _CONTROLS.sub("", data + os.read(self._ours, 65536).decode("utf-8", "replace"))
        return data

    def end(self):
        """The exit status after the command has ended by itself."""
        until = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < until:
            ready, _, _ = select.select([self._ours], [], [], 0.1)
            if ready:
                with suppress(OSError):
                    os.read(self._ours, 65536)
        return self._process.poll()

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(bills):
    made = Terminal(bills.folder, "debug", "bill")
    yield made
    made.stop()


def test_keys_step_through_run_on_terminal(bills, terminal):
    first = terminal.shows("q quit")
    assert "run bill  FAILED at S3" in first
    assert "<- likely cause" in first
    assert 'amount = "about 80"' in first  # it begins at the first step of which something failed
    assert "event 3 of 10" in terminal.press("k", 'customer = "ann"')
    terminal.press("j", 'amount = "40"')
    assert "$orders" in terminal.press("w", "given to the run")
    assert "$who = ann" in terminal.press("v", "variables after event 7")
    terminal.press("h", "variables after event 6")
    assert "first   S1" in terminal.press("dfine\r", "B fine")
    terminal.press("dnobody\r", "there is no run")
    found = terminal.press("/abuot\x7f\x7f\x7fout 80\r", "; 5 matches)")
    following = terminal.press("n", "; 5 matches)")
    first, second = (int(text.rpartition("(event ")[2].partition(";")[0]) for text in (found, following))
    assert first != second  # the items of S2 end in either order, and behind the last match comes the first
    terminal.press("x", "unknown key; ? shows the keys")
    assert "j k    next, previous step" in terminal.press("?", "J K    scroll this part")
    terminal.press("e" + "\x7f" * 20 + "bill.txt\r", "neither .html nor .yaml")
    terminal.press("e" + "\x7f" * 20 + "bill.yaml\r", "wrote bill.yaml")
    terminal.press("q", "")
    assert terminal.end() == 0
    assert read((bills.folder / "bill.yaml").read_text()).document.chain.failed_at_step == 4


def test_arrows_and_buffered_keys_work_and_ctrl_c_quits(bills, terminal):
    terminal.shows("q quit")
    terminal.press("\x1b[A\x1b[A\x1bOC", "event 4 of 10")
    terminal.press("jjke\r", "wrote bill.html")
    terminal.press("\x03", "")
    assert terminal.end() == 0
    assert "<html" in (bills.folder / "bill.html").read_text()


def test_steps_are_printed_without_terminal(bills):
    said = bills("debug", "bill").stdout.splitlines()
    assert said[0].startswith("run bill  FAILED at S3  ")
    assert [line.split()[:2] for line in said[1:]] == [["ok", "S1"], ["ok!", "S2"], ["FAIL", "S3"]]
    assert said[2].endswith("<- likely cause")
    told = bills.json("debug", "fine")
    assert [(row["step"], row["mark"]) for row in told["steps"]] == [
        ("S1", "ok"),
        ("S2", "ok"),
        ("S3", "ok"),
        ("S4", "skip"),
        ("S5", "ok"),
    ]
    assert bills("debug", "nobody").exit_code == 2
    assert bills("debug", "bill", "--json", "--step").exit_code == 2, "no option is ignored"


@pytest.mark.parametrize(("columns", "lines"), [(100, 24), (40, 10), (20, 3), (8, 2), (200, 60)])
def test_screen_is_restored_and_shows_selected_step(columns, lines):
    rows = tuple(
        Row(n, "ok", f"S{n}", "@日本 (x=\x1b[2J)", n, n, float(n), n + 1.0, "$a  F1 .95", n == 7)
        for n in range(50)
    )
    story = Story("run 日本 " * 9, rows, tuple(f"event {n}" for n in range(50)))
    pane = tuple(f"line {n} {'日' * n}" for n in range(80))
    for row in (0, 7, 49):
        drawn = screen_lines(story, Selected(row, 5, "pane", pane, 3), columns, lines)
        assert len(drawn) <= lines
        assert all(width(line.text) <= columns for line in drawn)
        assert "\x1b" not in "".join(line.text for line in drawn)
        if lines > 3:
            assert next(line.text for line in drawn if line.style is Style.SELECTED).split()[1] == f"S{row}"
            assert drawn[-1].text.rstrip("…") == KEYS[: columns - 1] or len(KEYS) <= columns
