"""`run`: answer, progress, exit status; what is refused before anything runs."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest


def test_answer_is_on_stdout_and_steps_on_stderr(machine):
    plan = machine.plan(
        "S1: @ADD (a=1) > $a",
        "S2: ?IF ($a > 5) THEN @ADD (a=5) > $b",
        "S3: ?FOREACH ($i IN [1, 2]) THEN @ADD (a=$i) > $c",
        'S4: @RESPOND ("a=$a c=$c")',
    )
    result = machine("run", plan, "--tools", machine.tools, "--run-id", "r1")
    assert result.exit_code == 0
    assert result.stdout == "a=2 c=[2,3]\n"
    said = re.sub(r"\d+ ms|[\d.]+ s$", "T", result.stderr, flags=re.MULTILINE)
    assert said.splitlines() == [
        "S1    started  @ADD (a=1)",
        "S3    early    @ADD (a=$i)",
        "S1    ok       $a = 2  (T)",
        "S2    skipped  the condition does not hold",
        "S3    started  @ADD (a=$i), 2 items",
        "S3    ok       $c = [2,3]  (T)",
        'S4    started  @RESPOND ("a=$a c=$c")',
        "S4    ok  (T)",
        "used 3 steps · 3 calls (ADD 3) · 2 of them early · T",
        "run r1 · callsheet show r1",
    ]


def test_json_is_one_complete_object(machine):
    plan = machine.plan('S1: @CHAT (text="hi") > $a', "S2: @RESPOND ($a)")
    result = machine("run", plan, "--tools", machine.tools, "--json", "--run-id", "r1")
    assert result.stderr == "chatter hi\n"
    told = json.loads(result.stdout)
    usage = told.pop("usage")
    assert (usage["steps"], usage["calls_by_tool"], usage["bytes"]) == (2, {"CHAT": 1}, 2)
    assert 0 < usage["seconds"] < 60
    assert told == {
        "run_id": "r1",
        "status": "done",
        "outcome": "done",
        "response": "hi",
        "answer": None,
        "variables": {"a": "hi"},
        "steps_executed": 2,
        "terminated": False,
        "error": None,
        "ended_at": "S2",
        "failed_steps": [],
        "refusal": None,
        "objection": None,
        "replanned": False,
        "in_doubt": [],
        "waiting": [],
        "unanswered": [],
        "pause": None,
        "journal": str(machine.journal),
        "diagnostics": [],
    }


def test_progress_as_json_lines(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)")
    result = machine("run", plan, "--tools", machine.tools, "--json", "--progress", "json")
    rows = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(r["event"], r.get("step")) for r in rows] == [
        ("begin", None),
        ("started", "S1"),
        ("finished", "S1"),
        ("started", "S2"),
        ("finished", "S2"),
        ("ended", "S2"),
    ]
    assert rows[2]["var"] == "a"
    assert rows[2]["preview"] == "2"


def test_progress_live_draws_steps(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: @RESPOND ($a)")
    result = machine("run", plan, "--tools", machine.tools, "--progress", "live")
    assert result.exit_code == 0
    assert result.stdout == "2\n"
    assert "✓ S1 @ADD (a=1)" in result.stderr


@pytest.mark.parametrize("stage", ["plain", "live"])
def test_progress_of_new_plan_excludes_old_steps(machine, stage):
    plan = machine.plan("S1: @ADD (a=1) > $a", 'S2: @RE-PLAN ("once more")', 'S3: @RESPOND ("never")')
    machine.write("again.py", "def ask(messages):\n    return 'S1: @ADD (a=5) > $b\\nS2: @RESPOND ($b)'\n")
    line = ("run", plan, "--tools", machine.tools, "--model", "again.py:ask", "--progress", stage)
    result = machine(*line)
    assert result.exit_code == 0, result.stderr
    told = result.stderr.rpartition("new plan" if stage == "plain" else "done · ")[2]
    assert "$b = 6" in told
    assert "S2" in told
    assert "@ADD (a=1)" not in told
    assert "once more" not in told


def test_show_lists_steps_of_new_plan(machine):
    """They may reuse ids of older steps that did something else."""
    plan = machine.plan("S1: @ADD (a=1) > $a", 'S2: RE-PLAN ("once more")')
    machine.write("again.py", "def ask(messages):\n    return 'S1: @ADD (a=5) > $b\\nS2: @RESPOND ($b)'\n")
    machine("run", plan, "--tools", machine.tools, "--model", "again.py:ask", "--run-id", "anew")
    told = [line.split("(", 1) for line in machine("show", "anew").stdout.splitlines() if " S1 " in line]
    assert [rest.split(")")[0] for _, rest in told] == ["a=1", "a=5"]
    times = machine("show", "anew", "--timeline").stdout.splitlines()
    assert [line[:14] for line in times if line.startswith("S1")] == ["S1  @ADD (a=1)", "S1  @ADD (a=5)"]


def test_plan_from_stdin_runs(machine):
    result = machine("run", "-", "--progress", "none", stdin='PLAN_START\nS1: @RESPOND ("x")\nPLAN_END\n')
    assert result.stdout == "x\n"
    assert machine.json("runs")[0]["plan"].startswith("plan ")  # it has no name and no goal


def test_variables_are_json_or_text(machine):
    plan = machine.plan('S1: @RESPOND ("$n $tags.1 $city")')
    result = machine(
        "run",
        plan,
        "--var",
        "n=3",
        "--var",
        'tags=["a", "b"]',
        "--var",
        "city=New York",
        "--progress",
        "none",
    )
    assert result.stdout == "3 b New York\n"


@pytest.mark.parametrize("given", ["city", "=x", "1a=x", "a b=x", "ä=1"])
def test_invalid_variable_is_one_message(machine, given):
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--var", given)
    assert result.exit_code == 2
    assert result.stderr.startswith("error CFG011: ")
    assert len(result.stderr.splitlines()) == 2
    assert not machine.journal.exists()


@pytest.mark.parametrize(
    ("step", "option"),
    [("@ADD (b=2)", ()), ('@NO_SUCH_TOOL (a="x")', ()), ("@ADD (a=1)", ("--policy", "strict"))],
    ids=["wrong arguments", "unknown tool", "refused by policy"],
)
def test_refused_plan_creates_no_journal(machine, step, option):
    plan = machine.plan(f"S1: {step} > $a", 'S2: @NOTE (line="$a")')
    result = machine("run", plan, "--tools", machine.tools, *option)
    assert result.exit_code in (2, 3), result.stderr
    assert not machine.journal.parent.exists()


def test_repeated_variable_is_refused(machine):
    assert machine("run", "-", "--var", "a=1", "--var", "a=2", stdin="").exit_code == 2


def test_failed_plan_exits_with_1_and_names_step(machine):
    plan = machine.plan('S1: @FAIL (text="no luck") > $a ON_FAIL TERMINATE ("gave up: $a")')
    result = machine("run", plan, "--tools", machine.tools)
    assert result.exit_code == 1
    assert "S1    failed   RuntimeError: no luck" in result.stderr
    assert "the plan failed at S1, plan.ltp:3:1" in result.stderr
    assert machine.json("runs")[0]["status"] == "failed"


def test_terminated_plan_is_not_failed(machine):
    result = machine("run", machine.plan('S1: TERMINATE ("enough")'), "--progress", "none")
    assert result.exit_code == 0
    assert result.stdout == "enough\n"
    assert "TERMINATE at S1" in result.stderr


def test_step_budget_applies(machine):
    plan = machine.plan("S1: @ADD (a=1) > $a", "S2: ?IF ($a > 0) THEN GOTO S1", "S3: @RESPOND ($a)")
    result = machine("run", plan, "--tools", machine.tools, "--max-steps", "20", "--progress", "none")
    assert result.exit_code == 1
    assert "20 steps" in result.stderr
    assert "the plan failed at S1" in result.stderr


def test_plan_with_errors_is_refused_before_run(machine):
    plan = machine.plan('S1: @NOTE (line="x") > $a', "S2: @FETCH_PGE (url=$a) > $b", "S3: @RESPOND ($b)")
    result = machine("run", plan, "--tools", machine.tools)
    assert result.exit_code == 2
    assert "did you mean @FETCH_PAGE?" in result.stderr
    assert not (machine.folder / "notes.txt").exists()
    assert machine.json("runs") == []


def test_unparsable_text_is_refused(machine):
    found = machine.json("run", "-", stdin="S1: @READ_FILE (path=)\nS2: @READ_FILE (path=)\n")
    assert found["ok"] is False
    assert [d["line"] for d in found["diagnostics"] if d["severity"] == "error"] == [1, 2]


@pytest.mark.parametrize("command", ["run", "dry-run", "check"])
def test_all_lines_with_errors_are_reported_together(machine, command):
    """Unreadable lines do not hide errors in other lines."""
    plan = machine.plan(
        "S1: @READ_FILE (path=)",
        "S2: @READ_FLE (path=1)",
        "S3: GOTO S9",
        "S4: ?IF ($a == ) THEN GOTO S1",
        "S5: @READ_FILE (pth=1)",
    )
    found = machine.json(command, plan)
    lines = {d["line"] for d in found["diagnostics"] if d["severity"] == "error"}
    assert len(lines) == 5


def test_missing_model_fails_step_after_warning(machine):
    plan = machine.plan('S1: @LLM_SUMMARIZE ("x") > $a', "S2: @RESPOND ($a)")
    result = machine("run", plan)
    assert "warning RUN010" in result.stderr
    assert "this run has none" in result.stdout


def test_run_id_is_used_once(machine):
    plan = machine.plan('S1: @RESPOND ("x")')
    assert machine("run", plan, "--run-id", "mine").exit_code == 0
    result = machine("run", plan, "--run-id", "mine")
    assert result.exit_code == 2
    assert "JRN003" in result.stderr
    assert "JRN001" in machine("run", plan, "--run-id", "../x").stderr


def test_nothing_is_recorded_without_journal(machine):
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--no-journal", "--json")
    assert json.loads(result.stdout)["journal"] is None
    assert json.loads(result.stdout)["run_id"] is None
    assert not machine.journal.exists()


def test_file_tools_stay_in_workspace(machine):
    machine.write("ws/a.txt", "inside")
    plan = machine.plan(
        'S1: @READ_FILE (path="a.txt") > $a', 'S2: @READ_FILE (path="../tools.py") > $b', "S3: @RESPOND ($a)"
    )
    done = machine.json("run", plan, "--workspace", "ws")
    assert done["response"] == "inside"
    assert "Tools of the tests" not in done["variables"]["b"]
    assert machine("run", plan, "--workspace", "absent").exit_code == 2


OWN = """
from callsheet.ports.python_tools import tool

@tool(effect="read")
def read_file(path: str) -> str:
    return "mine"
"""


def test_python_tool_overrides_builtin(machine):
    machine.write("own.py", OWN)
    plan = machine.plan('S1: @READ_FILE (path="a") > $a', "S2: @RESPOND ($a)")
    assert machine.json("run", plan, "--tools", "own.py")["response"] == "mine"


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "CFG100"), ("def f(:\n", "CFG101"), ("1/0\n", "CFG102"), ("x = 1\n", "CFG103")],
)
def test_invalid_tools_file_is_one_message(machine, text, code):
    if text is not None:
        machine.write("bad.py", text)
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--tools", "bad.py")
    assert result.exit_code == 2
    assert result.stderr.count("error ") == 1
    assert code in result.stderr


# ---------------------------------------------------------------- servers


def test_missing_server_is_one_message(machine):
    machine.write("mcp.json", '{"mcpServers": {"git": {"command": "no-such-program"}}}')
    plan = machine.plan("S1: @GIT_LOG () > $a", "S2: @RESPOND ($a)")
    result = machine("run", plan, "--mcp-config", "mcp.json")
    assert result.exit_code == 2
    assert "TOL010" in result.stderr
    assert "no-such-program" in result.stderr
    assert result.stderr.count("error ") == 1
    assert "warning CHK040: no tool is called @GIT_LOG here, and an MCP server that could" in result.stderr


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "CFG110"),
        ("{", "CFG111"),
        ('{"mcpServer": {}}', "CFG112"),
        ('{"mcpServers": {"a": {"command": "${NOPE_X}"}}}', "CFG113"),
    ],
)
def test_invalid_configuration_is_one_message(machine, text, code):
    if text is not None:
        machine.write("mcp.json", text)
    plan = machine.plan("S1: @GIT_LOG () > $a", "S2: @RESPOND ($a)")
    result = machine("run", plan, "--mcp-config", "mcp.json")
    assert result.exit_code == 2
    assert result.stderr.count("error ") == 1
    assert code in result.stderr


def test_configuration_is_not_read_for_simple_plan(machine):
    machine.write(".mcp.json", "{ broken")
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--progress", "none")
    assert result.exit_code == 0
    assert "mcp" not in result.stderr


def test_discovered_server_provides_missing_tool_and_is_named(with_server):
    plan = with_server.plan('S1: @GREET (name="Ada") > $a', "S2: @RESPOND ($a)")
    result = with_server("run", plan, "--progress", "none")
    assert result.stdout == "greet Ada\n"
    assert f"MCP servers: hall (from {with_server.folder / '.mcp.json'})" in result.stderr
    assert "warning TOL010" in result.stderr


def test_qualified_names_start_only_their_servers(with_server):
    plan = with_server.plan('S1: @HALL__READ_FILE (name="x") > $a', "S2: @RESPOND ($a)")
    result = with_server("run", plan, "--progress", "none")
    assert result.stdout == "read_file x\n"
    assert "broken" not in result.stderr


def test_server_does_not_override_local_name(with_server):
    with_server.write("f.txt", "local")
    plan = with_server.plan(
        'S1: @READ_FILE (path="f.txt") > $a', 'S2: @GREET (name="x") > $b', 'S3: @RESPOND ("$a $b")'
    )
    assert with_server.json("run", plan)["response"] == "local greet x"


def test_name_of_two_servers_must_be_qualified(with_server):

    hall = {"command": sys.executable, "args": [str(with_server.folder / "server.py")]}
    with_server.write(".mcp.json", json.dumps({"mcpServers": {"hall": hall, "yard": hall}}))
    plan = with_server.plan('S1: @GREET (name="x") > $a', "S2: @RESPOND ($a)")
    result = with_server("run", plan)
    assert result.exit_code == 2
    assert "error TOL003: @GREET is offered by more than one server" in result.stderr
    assert "write @HALL__GREET or @YARD__GREET" in result.stderr


def test_name_of_two_servers_is_ambiguous_while_one_is_down(with_server):
    """A call intended for one server must not reach another that offers the same name and is up."""
    program = with_server.folder / "yard.py"
    program.write_text((with_server.folder / "server.py").read_text())
    hall, yard = (
        {"command": sys.executable, "args": [str(with_server.folder / name)]}
        for name in ("server.py", "yard.py")
    )
    with_server.write(".mcp.json", json.dumps({"mcpServers": {"hall": hall, "yard": yard}}))
    plan = with_server.plan('S1: @GREET (name="x") > $a', "S2: @RESPOND ($a)")
    assert with_server("run", plan).exit_code == 2
    program.unlink()
    result = with_server("run", plan)
    assert result.exit_code == 2
    assert "error TOL003: @GREET is offered by more than one server" in result.stderr
    assert "write @HALL__GREET or @YARD__GREET" in result.stderr
    qualified = with_server.plan('S1: @HALL__GREET (name="x") > $a', "S2: @RESPOND ($a)")
    assert with_server("run", qualified, "--progress", "none").stdout == "greet x\n"


def test_resume_opens_discovered_server_again(with_server):
    marker = with_server.folder / "m"
    plan = with_server.plan(
        f'S1: @DIE (marker="{marker}") > $a', 'S2: @GREET (name="x") > $b', "S3: @RESPOND ($b)"
    )
    assert (
        with_server.shell("run", plan, "--tools", "tools.py", "--run-id", "r").returncode == -signal.SIGKILL
    )
    elsewhere = with_server.folder / "elsewhere"
    elsewhere.mkdir()
    done = with_server.shell("resume", "r", "--in-doubt", "retry", cwd=elsewhere)
    assert (done.returncode, done.stdout) == (0, "greet x\n"), done.stderr


# ---------------------------------------------------------------- a disk that is full, Ctrl-C


def test_uncreatable_journal_is_one_message(machine):
    machine.write("file", "x")
    result = machine("run", machine.plan('S1: @RESPOND ("x")'), "--journal", "file/journal.db")
    assert result.exit_code == 1
    assert result.stderr.startswith("error JRN010: ")
    assert "JRN008" in machine("run", machine.plan('S1: @RESPOND ("x")'), "--journal", "file").stderr


def test_full_disk_is_one_message(machine):
    steps = [f"S{n}: @BULK (size=20000) > $a{n}" for n in range(1, 12)]
    plan = machine.plan(*steps, 'S99: @RESPOND ("done")')
    limit = """import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))"""
    done = machine.shell(
        "run", plan, "--tools", "tools.py", "--run-id", "r", "--progress", "none", prefix=limit
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error JRN006: the journal of run r could not be written: ")
    assert "callsheet resume r" in done.stderr
    assert "Traceback" not in done.stderr
    again = machine.shell("resume", "r", "--progress", "none")
    assert (again.returncode, again.stdout) == (0, "done\n"), again.stderr


def test_ctrl_c_leaves_resumable_run(machine, wait_for):
    plan = machine.plan(
        "S1: @ADD (a=1) > $a", 'S2: @LOOK (path="here", wait=300) > $b', 'S3: @RESPOND ("$a $b")'
    )
    process = machine.spawn("run", plan, "--tools", "tools.py", "--run-id", "r")
    wait_for(machine.folder / "here")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "callsheet resume r" in err
    assert "Traceback" not in err
    assert machine.json("runs")[0]["status"] == "interrupted"
    machine.write("tools.py", (machine.folder / "tools.py").read_text().replace("time.sleep(wait)", "pass"))
    done = machine("resume", "r", "--progress", "none")
    assert (done.exit_code, done.stdout) == (0, "2 seen\n")


FAILURES = (
    'S1: @FAIL (text="no") > $a',
    'S2: @FAIL (text="no") ON_FAIL GOTO S3',
    'S3: ?FOREACH ($x IN [1]) THEN @FAIL (text="no") > $c',
    'S4: @FAIL (text="no") ON_FAIL @RETRY(1, delay=0)',
    'S5: @RESPOND ("done")',
)
FAILED = "done with failures: S1, S3, S4 failed and the plan went on (ON_FAIL decides whether it does)"


def test_run_with_failures_is_told_apart_everywhere(machine):
    plan = machine.plan(*FAILURES)
    told = machine("run", plan, "--tools", machine.tools, "--progress", "none", "--run-id", "r")
    assert (told.exit_code, told.stdout) == (0, "done\n")
    assert told.stderr.splitlines()[0] == FAILED
    again = machine("resume", "r").stderr
    assert FAILED in again
    assert "callsheet rerun r --from STEP (--failed-items:" in again
    assert f"status   {FAILED}" in machine("show", "r").stdout
    shown = machine.json("show", "r")
    assert (shown["status"], shown["outcome"]) == ("done", "done_with_failures")
    assert shown["failed_steps"] == ["S1", "S3", "S4"]
    assert machine("tail", "r", "--follow").stderr.strip() == "run r: ended: done with failures"
    assert "done with failures" in machine("top", "r").stderr


def test_hints_are_printed_once_on_stderr_and_not_for_json(machine):
    plan = machine.plan('S1: ?FOREACH ($e IN [{"n": 1}]) THEN @NOTE (path="x/$e.n.md")')
    tools = machine.folder / "noting.py"
    tools.write_text(
        'import callsheet\n\n\n@callsheet.tool(effect="read")\ndef note(path: str) -> str:\n    return path\n'
    )
    told = machine("run", plan, "--tools", str(tools), "--run-id", "r1")
    assert told.stderr.count("hint CHK033") == 1
    assert "warning  item 1 of 1: $e.n.md has no value: the text has nothing there" in told.stderr
    as_data = machine("run", plan, "--tools", str(tools), "--json")
    assert as_data.stderr == ""
    assert [d["code"] for d in json.loads(as_data.stdout)["diagnostics"]] == ["CHK033", "CHK015"]
    shown = machine("show", "r1")
    assert "warning: S1: item 1 of 1: $e.n.md has no value" in shown.stdout


def test_variable_that_no_step_reads_is_reported(machine):
    plan = machine.plan("S1: @ADD (a=$city) > $a", "S2: @RESPOND ($a)")
    told = machine("run", plan, "--tools", machine.tools, "--var", "city=1", "--var", "citty=2")
    assert "warning RUN033: no step reads $citty, which is given to the run" in told.stderr
    assert told.stderr.count("RUN033") == 1


def test_lists_find_runs_with_failures(machine):
    machine("run", machine.plan(*FAILURES), "--tools", machine.tools, "--run-id", "partial")
    machine("run", machine.plan('S1: @RESPOND ("done")'), "--run-id", "whole")
    outcomes = {row["run_id"]: (row["status"], row["outcome"]) for row in machine.json("runs")}
    assert outcomes == {"partial": ("done", "done_with_failures"), "whole": ("done", "done")}
    found = machine.json("runs", "--status", "done_with_failures")
    assert [row["run_id"] for row in found] == ["partial"]
    assert len(machine.json("runs", "--status", "done")) == 2
    assert "done with failures" in machine("runs").stdout
    assert machine("runs", "verify").exit_code == 0


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_strict_gives_exit_status_1_for_failures(machine, as_json):
    plan = machine.plan(*FAILURES)
    told = machine("run", plan, "--tools", machine.tools, "--strict", "--run-id", "r", *as_json)
    assert told.exit_code == 1
    assert machine("resume", "r", "--strict", *as_json).exit_code == 1
    assert machine("rerun", "r", "--from", "S5", "--yes", "--strict", *as_json).exit_code == 1
    assert machine("tail", "r", "--follow", "--strict").exit_code == 1
    assert machine("top", "r", "--strict").exit_code == 1
    assert machine("top", "r").exit_code == 0
    whole = machine.plan('S1: @RESPOND ("done")')
    assert machine("run", whole, "--strict", *as_json).exit_code == 0
