"""A run under the debugger: over the Debug Adapter Protocol, and on a terminal."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.apps.test_debugger import Terminal

BLOCKS = """\
# ltp: 2
PLAN twice ($n: int) -> int {
  ADDED: @ADD (a=$n, b=$n) > $sum
  RETURN ($sum)
}

LET $xs = [1, 2]
S2: ?FOREACH ($x IN $xs) IN ORDER {
  S3: CALL twice (n=$x) > $y
  S4: ?IF ($y > 2) {
    S5: @CHAT (text="big {$y}") > $said
  }
  YIELD ($y + $x)
} > $ys
@RESPOND ($ys)
"""
FLAT = """\
# ltp: 1
PLAN_START
S1: @ADD (a=1) > $one
S2: ?FOREACH ($i IN [1, 2]) THEN @ADD (a=$i, b=$one) > $sums
S3: @RESPOND ($sums)
PLAN_END
"""
PYTHON = """\
async def main(xs: list[int]) -> list[int]:
    sums = []
    for x in xs:
        sums.append(await add(a=x))
    return sums
"""
GRAPH = json.dumps(
    {
        "steps": [
            {"index": 1, "title": "a", "tool": "add", "args": {"a": 1}, "depends_on": []},
            {"index": 2, "title": "b", "tool": "add", "args": {"a": 2}, "depends_on": [1]},
        ]
    },
    indent=1,
)


class Editor:
    """An editor that debugs a plan: a client of the Debug Adapter Protocol over standard input and output."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seq = folder, 0
        command = [sys.executable, "-m", "callsheet", "dap"]
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._arrived: queue.Queue = queue.Queue()
        self.output: list[str] = []
        self.other: list[dict] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        stream = self.process.stdout
        while line := stream.readline():
            length = int(line.partition(b":")[2])
            stream.readline()
            self._arrived.put(json.loads(stream.read(length)))

    def _next(self, wanted):
        """The first message that is wanted; output is collected, others are kept for later."""
        for one in [*self.other]:
            if wanted(one):
                self.other.remove(one)
                return one
        while True:
            message = self._arrived.get(timeout=60)
            if message.get("event") == "output":
                self.output.append(message["body"]["output"])
            elif wanted(message):
                return message
            else:
                self.other.append(message)

    def ask(self, command, **arguments):
        """The response to a request."""
        self._seq += 1
        seq = self._seq
        content = json.dumps({"seq": seq, "type": "request", "command": command, "arguments": arguments})
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content.encode()))
        self.process.stdin.flush()
        return self._next(lambda one: one["type"] == "response" and one["request_seq"] == seq)

    def get(self, command, **arguments):
        """The body of a response, which must be good."""
        response = self.ask(command, **arguments)
        assert response["success"], response
        return response["body"]

    def event(self, name):
        """The body of the next event with a name."""
        return self._next(lambda one: one.get("event") == name)["body"]

    def launch(self, plan, *options, breakpoints=(), filters=("ending",), **given):
        """Start a plan with breakpoints, or what else is given to be started."""
        self.get("initialize", adapterID="callsheet")
        self.event("initialized")
        if not given.keys() & {"resume", "recorded"}:
            given, options = {"program": plan, **given}, ("--tools", "tools.py", *options)
        self.get("launch", args=list(options), **given)
        path = str(self._folder / plan)
        self.get("setBreakpoints", source={"path": path}, breakpoints=list(breakpoints))
        self.get("setExceptionBreakpoints", filters=list(filters))
        self.get("configurationDone")

    def stop(self):
        """Where the run stops next: the reason, and the lines and names of the stack."""
        reason = self.event("stopped")["reason"]
        frames = self.get("stackTrace", threadId=1)["stackFrames"]
        return reason, [(frame["line"], frame["name"].split()[0]) for frame in frames]

    def go(self, how):
        """Go on, and where the run stops next."""
        self.get(how, threadId=1)
        return self.stop()

    def variables(self, frame=1):
        """The variables of a frame as they are shown, by name."""
        (scope,) = self.get("scopes", frameId=frame)["scopes"]
        rows = self.get("variables", variablesReference=scope["variablesReference"])["variables"]
        return {row["name"]: row["value"] for row in rows}

    def end(self):
        """The exit status of the run, once it has ended and the editor has disconnected."""
        status = self.event("exited")["exitCode"]
        self.event("terminated")
        self.get("disconnect")
        assert self.process.wait(timeout=30) == 0
        return status

    def close(self):
        """End the adapter and the thread that reads from it."""
        self.process.kill()
        self.process.wait()
        self._reading.join()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def editor(machine):
    made = Editor(machine.folder)
    yield made
    made.close()


def test_blocks_are_stepped_over_into_and_out_of(machine, editor) -> None:
    editor.launch(machine.write("p.ltp", BLOCKS), "--run-id", "r1", stopOnEntry=True)
    assert editor.stop() == ("entry", [(7, "plan")])
    assert editor.go("next") == ("step", [(8, "plan")])
    assert editor.go("stepIn") == ("step", [(9, "S2[0]"), (8, "plan")])
    assert editor.go("stepIn") == ("step", [(3, "twice"), (9, "S2[0]"), (8, "plan")])
    assert editor.variables() == {"$n": "1"}
    assert editor.variables(2) == {"$x": "1"}
    assert editor.variables(3) == {"$xs": "[1,2]"}
    assert editor.go("stepOut") == ("step", [(10, "S2[0]"), (8, "plan")])
    assert editor.go("next") == ("step", [(13, "S2[0]"), (8, "plan")])  # the condition does not hold
    found = editor.get("evaluate", expression="{'both': $xs[0] + y, 'all': $xs}", frameId=1)
    assert found["result"] == '{"both":3,"all":[1,2]}'
    members = editor.get("variables", variablesReference=found["variablesReference"])["variables"]
    assert [(one["name"], one["value"]) for one in members] == [("both", "3"), ("all", "[1,2]")]
    wrong = editor.ask("evaluate", expression="$n", frameId=1)
    assert (wrong["success"], wrong["message"]) == (False, "there is no $n here")
    assert editor.go("stepOut") == ("step", [(15, "plan")])
    editor.get("continue", threadId=1)
    assert editor.end() == 0
    assert "[3, 6]" in "".join(editor.output)
    assert machine.json("show", "r1")["status"] == "done"  # it is in the journal as every run


def test_breakpoints_stop_at_lines_of_all_spellings(machine) -> None:
    """With conditions, counts and texts; the nearest statement counts."""
    for name, text, line, options, stack in (
        ("p.ltp", FLAT, 4, (), [(4, "plan")]),
        ("p.py", PYTHON, 4, ("--var", "xs=[1,2]"), [(4, "main.for_x[0]"), (3, "plan")]),
        ("p.json", GRAPH, 16, (), [(12, "plan")]),
    ):
        with closing(Editor(machine.folder)) as editor:
            editor.launch(machine.write(name, text), *options, breakpoints=[{"line": line}])
            changed = editor.event("breakpoint")["breakpoint"]
            assert (changed["verified"], changed["line"]) == (True, stack[0][0]), name
            assert editor.stop() == ("breakpoint", stack), name
            source = {"path": str(machine.folder / name)}
            for lines in ([1], [1, 2, 3], []):
                points = [{"line": one} for one in lines]
                set_now = editor.get("setBreakpoints", source=source, breakpoints=points)["breakpoints"]
                assert len({one["id"] for one in set_now}) == len(lines)
            editor.get("continue", threadId=1)
            assert editor.end() == 0, name


def test_breakpoints_have_conditions_counts_and_texts(machine, editor) -> None:
    points = [
        {"line": 11},
        {"line": 9, "logMessage": "item {$x} of {nothing}"},
        {"line": 13, "condition": "$x > 1"},
        {"line": 3, "hitCondition": "2"},
        {"line": 99},
        {"line": 7, "condition": "len($xs"},
    ]
    editor.launch(machine.write("p.ltp", BLOCKS), breakpoints=points)
    told = [editor.event("breakpoint")["breakpoint"] for _ in points]
    assert [one["verified"] for one in told] == [True, True, True, True, False, False]
    assert told[-1]["message"].startswith("the condition 'len($xs': ")
    reason, stack = editor.stop()
    assert (reason, stack[0]) == ("breakpoint", (3, "twice"))
    assert editor.variables() == {"$n": "2"}
    assert editor.go("continue")[1][0] == (11, "S2[1]")
    assert editor.go("continue")[1][0] == (13, "S2[1]")
    editor.get("continue", threadId=1)
    assert editor.end() == 0
    assert "item 1 of <nothing is not known here>\n" in editor.output


def test_run_stops_where_it_fails(machine, editor) -> None:
    plan = BLOCKS.replace("LET $xs = [1, 2]", "LET $xs = [1, 0]").replace("YIELD ($y + $x)", "YIELD (1 / $x)")
    editor.launch(machine.write("p.ltp", plan))
    assert editor.stop() == ("exception", [(13, "S2[1]"), (8, "plan")])
    assert editor.variables()["$x"] == "0"
    assert editor.get("exceptionInfo", threadId=1)["description"] == "ZERO: division by zero"
    editor.get("continue", threadId=1)
    assert editor.end() == 1


def test_questions_are_answered_in_editor_and_labels_are_shown(machine, editor) -> None:
    """Nothing is approved by itself; what is said is in the journal."""
    plan = machine.plan("S1: @CHAT (text=$who) > $said", "S2: @NOTE (line=$said)", "S3: @RESPOND ($said)")
    options = ("--approve", "NOTE", "--policy", "open", "--run-id", "r1", "--var", "who=ann")
    editor.launch(plan, *options, breakpoints=[{"line": 4}])
    assert editor.stop() == ("breakpoint", [(4, "plan")])
    assert editor.variables()["$said"] == "ann   [U/pub]"
    assert not editor.ask("evaluate", expression="1", frameId=9)["success"]
    assert not editor.ask("evaluate", expression=":approve")["success"]
    editor.get("continue", threadId=1)
    asked = editor.event("callsheet/asked")
    assert asked["kind"] == "approval"
    wrong = editor.ask("evaluate", expression=":answer 3")
    assert "approved or denied" in wrong["message"]
    watched = editor.ask("evaluate", expression=":approve", context="watch")
    assert "in the debug console only" in watched["message"]
    assert editor.get("callsheet/answer", key=asked["key"], line=":approve")["told"].endswith("approve")
    assert editor.end() == 0
    bodies = [event["body"] for event in map(json.loads, machine("tail", "r1", "--json").stdout.splitlines())]
    assert any(body and body.get("verdict") == "approve" and body.get("by") for body in bodies)


def test_run_that_editor_leaves_is_resumed_and_its_recording_stepped_through(machine) -> None:
    """Each under the debugger again; a recording executes nothing, and shows its text if the file changed."""
    folder = machine.folder
    with closing(Editor(folder)) as editor:
        editor.launch(machine.write("p.ltp", BLOCKS), "--run-id", "r1", breakpoints=[{"line": 13}])
        editor.stop()
        editor.get("terminate")
        assert editor.end() == 130
        assert "continue with: callsheet resume r1" in "".join(editor.output)
    with closing(Editor(folder)) as editor:
        editor.launch("p.ltp", resume="r1", breakpoints=[{"line": 11}, {"line": 15}])
        assert editor.stop() == ("breakpoint", [(11, "S2[1]"), (8, "plan")])
        assert editor.variables()["$y"] == "4"
        assert editor.go("continue") == ("breakpoint", [(15, "plan")])
        editor.get("continue", threadId=1)
        assert editor.end() == 0
        assert "[3, 6]" in "".join(editor.output)
    events = machine.json("show", "r1")["events"]
    with closing(Editor(folder)) as editor:
        editor.launch("p.ltp", recorded="r1", breakpoints=[{"line": 11}], stopOnEntry=True)
        assert editor.stop() == ("entry", [(7, "plan")])
        assert editor.go("continue") == ("breakpoint", [(11, "S2[1]"), (8, "plan")])
        assert editor.variables()["$y"] == "4"
        assert editor.go("stepOut") == ("step", [(15, "plan")])
        editor.get("continue", threadId=1)
        assert editor.end() == 0
    machine.write("p.ltp", BLOCKS.replace("[1, 2]", "[7]"))
    with closing(Editor(folder)) as editor:
        editor.launch("p.ltp", recorded="r1", stopOnEntry=True)
        editor.event("stopped")
        (frame,) = editor.get("stackTrace", threadId=1)["stackFrames"]
        assert "path" not in frame["source"]
        assert editor.get("source", sourceReference=1)["content"] == BLOCKS
        editor.get("disconnect")
    assert machine.json("show", "r1")["events"] == events


def test_secrets_are_shown_nowhere_and_several_questions_are_told_apart(machine, editor) -> None:
    lines = ['LET $xs = ["a", "b"]', "?FOREACH ($x IN $xs) TOGETHER {", "  @NOTE (line=$x)", "}"]
    plan = machine.write("p.ltp", "\n".join(["# ltp: 2", "INPUT $token: str", *lines, ""]))
    options = ("--secret", "token=env:TOKEN", "--approve", "NOTE")
    point = {"line": 3, "logMessage": "{$token} {$token[0:4]} {int($token)}"}
    editor.launch(plan, *options, breakpoints=[point, {"line": 4}], env={"TOKEN": "very-secret-12345"})
    assert editor.stop()[0] == "breakpoint"
    assert editor.variables()["$token"] == "[secret]"
    assert editor.get("evaluate", expression="$token[5:]", frameId=1)["result"] == "et]"
    editor.get("continue", threadId=1)
    keys = [editor.event("callsheet/asked")["key"] for _ in range(2)]
    assert keys[0] in editor.ask("evaluate", expression=":approve")["message"]
    for key, word in zip(keys, ("approve", "deny"), strict=True):
        assert editor.get("evaluate", expression=f":{word} {key}")["result"] == f"{key}: {word}"
    assert editor.stop()[0] == "exception"
    editor.get("continue", threadId=1)
    assert editor.end() == 1
    assert "very" not in "".join(editor.output)


def test_terminal_steps_through_run(machine) -> None:
    machine.write("p.ltp", BLOCKS)
    line = "run", "p.ltp", "--tools", "tools.py", "--step", "--break", "11 if $y > 1"
    terminal = Terminal(machine.folder, *line)
    try:
        terminal.shows("(callsheet) ")
        terminal.press("c\r", "p.ltp:11  S2[1]  S2[1]/S5")
        terminal.press("w\r", "plan  S2  line 8")
        terminal.press("v\r", "$y = 4")
        terminal.press("p $x + len($xs)\r", "4\r\n")
        terminal.press("up\r", "p.ltp:8  plan")
        terminal.press("b nowhere\r", "no statement has this id or line")
        terminal.press("b 13 if $y +\r", "the condition '$y +': ")
        terminal.press("help\r", "into a block, an item, a sub-plan")
        terminal.press("o\r", "p.ltp:15  plan")
        terminal.press("c\r", "[3, 6]")
        assert terminal.end() == 0
    finally:
        terminal.stop()


def test_debugger_needs_terminal_or_editor(machine) -> None:
    plan = machine.write("p.ltp", BLOCKS)
    for options, told in (
        (("--step",), "standard input is no terminal"),
        (("--break", "3", "--no-journal"), "must be in the journal"),
    ):
        done = machine("run", plan, "--tools", machine.tools, *options)
        assert (done.exit_code, told in done.stderr) == (2, True), done.stderr
