"""Informational commands (help, explain, graph, completion), and wrong command lines."""

from __future__ import annotations

import pytest

from callsheet.apps.cli.main import COMMANDS
from callsheet.diagnostics import CODES

OURS = [
    "CFG001",
    "CFG010",
    "CFG011",
    "CFG012",
    "CFG014",
    "CFG015",
    "CFG017",
    "CFG019",
    "CFG020",
    "RUN001",
    "RUN010",
    "JRN020",
    "JRN021",
]


def test_help_lists_every_command(machine):
    result = machine("--help")
    assert result.exit_code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert entry.summary in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_agrees_with_list(machine, name):
    result = machine(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: callsheet {name}")


def test_version(machine):
    assert machine("--version").stdout.startswith("callsheet 0.")


@pytest.mark.parametrize("code", OURS)
def test_every_code_has_page_with_example_and_fix(machine, code):
    result = machine("explain", code.lower())
    assert result.stdout.startswith(f"# {code}: {CODES[code].title}\n")
    assert "## Example" in result.stdout
    assert "## Repair" in result.stdout


def test_explain_as_json(machine):
    said = machine.json("explain", "CFG011")
    assert said["code"] == "CFG011"
    assert said["page"].startswith("# CFG011")


def test_unknown_code_suggests_nearest(machine):
    result = machine("explain", "CFG11")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr
    assert machine.json("explain", "XYZ999")["diagnostics"][0]["code"] == "CFG015"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["chek", "p.ltp"], "did you mean check"),
        (["zzz"], "`callsheet --help` lists the commands"),
        (["check"], "missing argument"),
        (["check", "p.ltp", "--foo"], "no such option"),
        (["run", "p.ltp", "--max-steps", "0"], "--max-steps"),
        (["run", "p.ltp", "--durability", "some"], "--durability"),
        (["run", "p.ltp", "--no-journal", "--run-id", "x"], "--no-journal"),
    ],
)
def test_wrong_command_line_is_one_diagnostic(machine, line, said):
    result = machine(*line)
    assert result.exit_code == 2
    assert result.stderr.startswith("error CFG010: ")
    assert said in result.stderr
    assert machine.json(*line)["diagnostics"][0]["code"] == "CFG010"


def test_bug_is_short_message_and_traceback_with_debug(machine, monkeypatch):
    def broken(*_args, **_options):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("callsheet.apps.cli.arguments.read_plan", broken)
    result = machine("graph", "p.ltp")
    assert result.exit_code == 70
    assert result.stderr.startswith("internal error: ZeroDivisionError: oh\n")
    assert "Traceback" not in result.stderr
    assert isinstance(machine("--debug", "graph", "p.ltp").exception, ZeroDivisionError)


def test_graph_draws_for_terminal_and_as_mermaid(machine):
    plan = machine.plan('S1: @READ_FILE (path="a") > $a', "S2: @RESPOND ($a)")
    lines = machine("graph", plan).stdout.splitlines()
    assert "S1" in lines[0]
    assert "\x1b" not in lines[0]
    assert machine("graph", plan, "--format", "mermaid").stdout.startswith("graph TD\n")
    assert machine.json("graph", plan)["format"] == "terminal"


def test_graph_of_invalid_plan_prints_errors(machine):
    result = machine("graph", "-", stdin="S1: @READ_FILE (path=)\n")
    assert result.exit_code == 2
    assert "LTP022" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_script(machine, shell):
    result = machine("completion", shell)
    assert result.exit_code == 0
    assert "_CALLSHEET_COMPLETE" in result.stdout


def test_commands_are_completed_without_loading_them(machine):
    done = machine.shell(
        prefix="import os; os.environ.update("
        "_CALLSHEET_COMPLETE='bash_complete', COMP_WORDS='callsheet ru', COMP_CWORD='1')"
    )
    assert done.stdout.split() == ["plain,run", "plain,runs"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (("run", "--replan"), "run"),
        (("runs", "--limit"), "runs"),
        (("run", "--nope"), "run"),
        (("--nope",), ""),
    ],
)
def test_wrong_option_refers_to_help_of_its_command(machine, line, command):
    result = machine(*line)
    assert result.exit_code == 2
    assert f"`callsheet {command} --help`".replace("  ", " ") in result.stderr
