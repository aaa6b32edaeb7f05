"""Answering questions of runs: `run --approve`, `inbox`, `approve`, `resume`."""

from __future__ import annotations

import pwd
import time

import pytest

from callsheet.apps.cli.arguments import actor_name

PLAN = 'S1: @NOTE ("hello $who") > $n\nS2: @RESPOND ("wrote", $n)\n'
ASK = """
S1: @ASK_HUMAN ("Send it?", options=["now", "later"], timeout="2d") > $when
S2: @RESPOND ("send", $when)
"""
TOOLS = ("--tools", "tools.py")


@pytest.fixture
def waiting(machine):
    """A run that waits for approval of a call."""
    machine.write("p.ltp", PLAN)
    result = machine("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--run-id", "r1", "--approve", "note")
    assert result.exit_code == 4, result.stderr
    return result


@pytest.fixture
def later(monkeypatch):
    """Moves the wall clock forward by seconds."""
    real = time.time
    return lambda seconds: monkeypatch.setattr(time, "time", lambda: real() + seconds)


def notes(machine) -> str:
    path = machine.folder / "notes.txt"
    return path.read_text() if path.exists() else ""


def test_waiting_run_exits_with_4_and_prints_commands(machine, waiting):
    assert "may @NOTE be called with exactly this?" in waiting.stderr
    assert '"hello Ada"' in waiting.stderr
    assert "callsheet approve r1 S1.0.1" in waiting.stderr
    assert "callsheet resume r1" in waiting.stderr
    assert notes(machine) == ""


def test_approved_run_continues(machine, waiting):
    result = machine("approve", "r1", "--by", "Bo", "--note", "fine")
    assert result.exit_code == 0, result.stderr
    assert "callsheet resume r1" in result.stderr
    done = machine("resume", "r1")
    assert (done.exit_code, done.stdout) == (0, "wrote hello Ada\n")
    assert notes(machine) == "hello Ada\n"
    signal = next(e for e in machine.json("show", "r1", "--events") if e["type"] == "signal")
    assert (signal["body"]["by"], signal["body"]["note"]) == ("Bo", "fine")
    assert "approve by Bo: fine" in machine("show", "r1").stdout


def test_denied_call_is_not_made(machine, waiting):
    assert machine("approve", "r1", "S1", "--deny", "--by", "Bo").exit_code == 0
    assert "denied by Bo" in machine("resume", "r1").stdout
    assert notes(machine) == ""


def test_run_resumed_without_answer_keeps_waiting(machine, waiting):
    assert machine("resume", "r1").exit_code == 4
    assert machine.json("resume", "r1")["status"] == "waiting"


def test_runs_and_show_report_waiting_run(machine, waiting):
    assert "waiting" in machine("runs").stdout
    assert machine.json("runs", "--status", "waiting")[0]["run_id"] == "r1"
    shown = machine("show", "r1").stdout
    assert "status   waiting" in shown
    assert "callsheet approve r1 S1.0.1" in shown
    machine("approve", "r1")
    assert "continue with: callsheet resume r1" in machine("show", "r1").stdout


def test_inbox_lists_questions_of_all_runs(machine, waiting):
    machine.write("q.ltp", ASK)
    machine("run", "q.ltp", "--run-id", "r2")
    text = machine("inbox").stdout
    assert "may @NOTE be called" in text
    assert "Send it?" in text
    assert 'one of "now", "later"' in text
    first, second = machine.json("inbox")
    assert (first["tool"], first["args"]) == ("NOTE", {"line": "hello Ada"})
    assert (second["run_id"], second["options"]) == ("r2", ["now", "later"])
    assert second["until"] > second["since"]


def test_empty_inbox_is_reported(machine):
    assert machine("inbox").stdout == "no pending requests\n"


def test_question_takes_valid_answer(machine):
    machine.write("q.ltp", ASK)
    machine("run", "q.ltp", "--run-id", "r2")
    wrong = machine("approve", "r2", "--answer", "soon")
    assert wrong.exit_code == 2
    assert "RUN031: S1.0.1 of run r2: the answer must be one of " in wrong.stderr
    assert '"now", "later", and not "soon"' in wrong.stderr
    assert machine("approve", "r2").exit_code == 2
    assert machine("approve", "r2", "--answer", "later").exit_code == 0
    assert machine("resume", "r2").stdout == "send later\n"


@pytest.mark.parametrize("again", [(), ("--deny",)])
def test_second_answer_is_refused(machine, waiting, again):
    machine("approve", "r1")
    early = machine("approve", "r1", *again)
    assert (early.exit_code, "answered already" in early.stderr) == (2, True)
    machine("resume", "r1")
    late = machine("approve", "r1", *again)
    assert (late.exit_code, "has no pending question" in late.stderr) == (2, True)


def test_approval_of_other_digest_is_refused(machine, waiting):
    (ask,) = machine.json("inbox")
    assert machine("approve", "r1", "--digest", "0" * 64).exit_code == 2
    assert machine("approve", "r1", "--digest", ask["digest"]).exit_code == 0


def test_approving_unknown_run_or_another_step_is_error(machine, waiting):
    assert "JRN002" in machine("approve", "nobody").stderr
    assert "S7 of run r1 has no pending question" in machine("approve", "r1", "S7").stderr
    assert machine("approve", "r1", "--deny", "--answer", "x").exit_code == 2


def test_approval_rule_may_be_in_configuration(machine, monkeypatch):
    machine.write("config.toml", 'approve = ["note"]\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", str(machine.folder / "config.toml"))
    machine.write("p.ltp", PLAN)
    assert machine("run", "p.ltp", *TOOLS, "--var", "who=Ada").exit_code == 4
    machine.write("q.ltp", 'S1: @RESPOND ("hi")\n')
    quiet = machine("run", "q.ltp")
    assert "RUN032" not in quiet.stderr


def test_command_line_rule_matching_no_step_is_warning(machine):
    machine.write("p.ltp", 'S1: @ADD (1) > $n\nS2: @RESPOND ("$n")\n')
    result = machine("run", "p.ltp", *TOOLS, "--approve", "ad")
    assert "warning RUN032: no step calls @AD" in result.stderr
    assert "a step is named by its id" in result.stderr
    late = machine("run", "p.ltp", *TOOLS, "--approve", "add", "--approval-timeout", "sub=1h")
    assert "warning RUN032: no step calls @SUB" in late.stderr
    for command in ("run", "dry-run", "explain-schedule"):
        nameless = machine(command, "p.ltp", *TOOLS, "--approve", "")
        assert (nameless.exit_code, "RUN034: '' names no tool" in nameless.stderr) == (2, True)


@pytest.mark.parametrize("head", ["# ltp: 1\nPLAN_START\n", "# ltp: 2\n"])
def test_run_stops_before_the_calls_of_a_step_that_is_named(machine, head):
    machine.write("p.ltp", head + 'S1: @NOTE ("a") > $a\nlast: @NOTE ("b") > $b\nS3: @RESPOND ($a)\n')
    stopped = machine(
        "run", "p.ltp", *TOOLS, "--run-id", "r1", "--approve", "last", "--approve", "S9", "--approve", "S3"
    )
    assert (stopped.exit_code, notes(machine)) == (4, "a\n"), stopped.stderr
    assert stopped.stderr.count("RUN032") == 2  # S3 calls nothing
    assert "$a" in machine("debug", "r1").stdout
    assert machine("approve", "r1").exit_code == 0
    assert machine("resume", "r1", *TOOLS).exit_code == 0
    assert notes(machine) == "a\nb\n"


def test_control_characters_are_escaped_in_questions(machine):
    machine.write("p.ltp", PLAN)
    machine("run", "p.ltp", *TOOLS, "--var", "who=a\x1b[2Kb\u202ec", "--approve", "note")
    assert "\\u001b[2K" in machine("inbox").stdout
    assert "\\u202e" in machine("inbox").stdout
    assert "\x1b" not in machine("inbox").stdout


def test_impossible_question_is_found_before_run(machine):
    machine.write(
        "p.ltp", 'S1: @ASK_HUMAN ("?", timeout="soon") > $a\nS2: @ASK_HUMAN ("?", option=["a"]) > $b\n'
    )
    found = machine("check", "p.ltp").stdout
    assert "CHK045: the argument timeout of @ASK_HUMAN is not valid" in found
    assert "CHK041" in found


def test_wait_keeps_process_until_answer(machine):
    machine.write("p.ltp", PLAN)
    command = ("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--run-id", "r1", "--approve", "note", "--wait")
    with machine.spawn(*command) as process:
        deadline = time.monotonic() + 60
        while not machine.json("inbox"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        said = machine("approve", "r1")
        assert "its process continues" in said.stderr
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, "wrote hello Ada")
    assert "may @NOTE be called with exactly this?" in err
    assert "callsheet approve r1" in err


def test_call_needing_approval_without_journal_is_denied(machine):
    machine.write("p.ltp", PLAN)
    result = machine("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--approve", "note", "--no-journal")
    assert "nobody can be asked" in result.stdout
    assert notes(machine) == ""


def test_call_not_approved_in_time_is_denied(machine, later):
    machine.write("p.ltp", PLAN)
    run = ("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--run-id", "r1", "--approve", "note")
    waits = machine(*run, "--approval-timeout", "3d", "--approval-timeout", "NOTE=30s")
    assert waits.exit_code == 4
    assert ", until " in waits.stderr
    (asked,) = machine.json("inbox")
    assert asked["until"] is not None
    later(31)
    late = machine("approve", "r1")
    assert late.exit_code == 2
    assert "help: continue the run without an answer: callsheet resume r1" in late.stderr
    assert "its time has run out; continue without an answer: callsheet resume r1" in machine("inbox").stdout
    assert "nobody approved the call of @NOTE within 30s" in machine("resume", "r1").stdout
    assert notes(machine) == ""


def test_approval_timeout_may_be_in_configuration(machine, later):
    machine.write("p.ltp", PLAN)
    machine.write(
        "home/config/callsheet/config.toml",
        'approve = ["note"]\napproval_timeout = "3d"\n[approval_timeout_by_tool]\nnote = "30s"\n',
    )
    run = ("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--run-id", "r1")
    assert machine(*run).exit_code == 4
    later(31)
    assert "nobody approved the call of @NOTE within 30s" in machine("resume", "r1").stdout


@pytest.mark.parametrize("said", ["soon", "0s", "NOTE=", "2000d"])
def test_invalid_approval_timeout_is_refused(machine, said):
    machine.write("p.ltp", PLAN)
    refused = machine("run", "p.ltp", *TOOLS, "--var", "who=Ada", "--approval-timeout", said)
    assert refused.exit_code == 2
    assert "the time for an approval must be seconds" in refused.stderr
    machine.write("home/config/callsheet/config.toml", f'approval_timeout = "{said}"')
    refused = machine("run", "p.ltp", *TOOLS, "--var", "who=Ada")
    assert "CFG016" in refused.stderr


def test_confusable_letters_are_spelled_out_in_approvals(machine):
    plan = machine.plan('S1: @NOTE (line="to p\u0430ypal@x.org") > $a')
    forged = machine("run", plan, "--tools", machine.tools, "--approve", "NOTE")
    assert r"line has letters that look like Latin ones: p\u0430ypal@x.org" in forged.stderr
    plan = machine.plan(
        'S1: @NOTE (line="\u041f\u0440\u0438\u0432\u0435\u0442, tell Ann: \u0434\u043e\u043c.txt") > $a'
    )
    plain = machine("run", plan, "--tools", machine.tools, "--approve", "NOTE")
    assert "may @NOTE be called with exactly this?" in plain.stderr
    assert "look like" not in plain.stderr


def test_user_whom_the_system_does_not_know_acts_without_a_name(monkeypatch):
    def nobody(uid):
        raise KeyError(uid)

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert (actor_name(), actor_name("Ada")) == ("", "Ada")
