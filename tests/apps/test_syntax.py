"""Micro-CLI wherever a PLAN is accepted, and conversions between syntaxes."""

from __future__ import annotations

import pytest

MICRO = 'add 1 2 > n:int\nrespond "The sum is" n\n'.replace("add ", "@add ")
LTP = '# ltp: 1\nPLAN_START\nS1: @ADD (1, 2) > $n:int\nS2: @RESPOND ("The sum is", $n)\nPLAN_END\n'
TOOLS = ("--tools", "tools.py")
BLOCKS = """\
# ltp: 2
INPUT $xs: list[int]
PLAN twice ($n: int) -> int {
  RETURN ($n * 2)
}
S1: ?FOREACH ($x IN $xs) {
  ?IF ($x > 1) {
    S2: CALL twice (n=$x) > $y
    YIELD ($y)
  } ELSE {
    YIELD (0)
  }
} > $ys
@RESPOND ($ys)
"""


def test_micro_plan_runs(machine):
    machine.write("p.micro", MICRO)
    result = machine("run", "p.micro", *TOOLS)
    assert (result.exit_code, result.stdout) == (0, "The sum is 3\n")


@pytest.mark.parametrize("name", ["p.micro", "P.MICRO", "p.txt", "p"])
def test_check_and_graph_detect_syntax_by_suffix_or_content(machine, name):
    machine.write(name, MICRO)
    assert machine("check", name, *TOOLS).stdout == f"{name}: ok, 2 steps\n"
    assert "@ADD (1, 2) > $n:int" in machine("graph", name).stdout


def test_graph_of_blocks_is_an_outline(machine):
    """Inputs and sub-plans first; each block one deeper, further ones behind a line of their own."""
    machine.write("p.ltp", BLOCKS)
    assert machine("graph", "p.ltp").stdout.splitlines() == [
        "  INPUT $xs",
        "  PLAN twice ($n)",
        "  │  RETURN ($n * 2)",
        "○ S1: ?FOREACH ($x IN $xs) > $ys",
        "  │  ?IF ($x > 1)",
        "○ │  │  S2: CALL twice (n=$x) > $y",
        "  │  │  YIELD ($y)",
        "  │  ELSE",
        "  │  │  YIELD (0)",
        "  @RESPOND ($ys)",
    ]


def test_stdin_syntax_is_detected(machine):
    assert machine("run", "-", *TOOLS, stdin=MICRO).stdout == "The sum is 3\n"
    assert machine("run", "-", *TOOLS, stdin=LTP).stdout == "The sum is 3\n"


def test_syntax_can_be_forced(machine):
    machine.write("p.ltp", MICRO)
    assert machine("check", "p.ltp", *TOOLS).exit_code == 2
    assert machine("check", "p.ltp", *TOOLS, "--syntax", "micro").exit_code == 0
    assert machine("graph", "p.ltp", "--syntax", "micro").exit_code == 0


def test_error_keeps_position_and_caret(machine):
    machine.write("p.micro", "@add 1 2 > n\nrespnd n\n")
    result = machine("check", "p.micro", *TOOLS)
    assert "p.micro:2:1: error MIC012" in result.stdout
    assert "  2 | respnd n\n    | ^^^^^^\n" in result.stdout
    (found,) = machine.json("check", "p.micro", *TOOLS)["diagnostics"]
    assert (found["code"], found["line"], found["column"]) == ("MIC012", 2, 1)


def test_errors_name_detected_syntax(machine):
    result = machine("check", "-", "--no-tools", stdin='search "a" > hits\nrespnd hits\n')
    assert "hint CFG020: this was read as Micro-CLI" in result.stdout
    assert "--syntax ltp reads it as LTP text" in result.stdout


def test_suffix_contradicting_content_is_named(machine):
    machine.write("p.ltp", MICRO)
    assert "its text looks like Micro-CLI" in machine("check", "p.ltp").stdout
    machine.write("q.micro", "PLAN_START\nS1: @ADD (a=1\nPLAN_END\n")
    assert "its text looks like LTP text" in machine("check", "q.micro").stdout


@pytest.mark.parametrize("command", ["run", "check", "fmt", "graph"])
def test_text_without_plan_is_reported(machine, command):
    result = machine(command, "-", stdin="\n  Book a table for two.\n")
    assert result.exit_code == 2
    assert "<stdin>:2:3: error CFG019: this text is neither LTP text nor Micro-CLI" in result.output
    assert "  2 |   Book a table for two.\n    |   ^^^^^^^^^^^^^^^^^^^^^\n" in result.output
    assert "LTP0" not in result.output
    assert "MIC0" not in result.output


def test_empty_text_is_reported(machine):
    assert "this text is empty" in machine("check", "-", stdin="").stdout


def test_bare_word_set_only_by_command_line_is_warning(machine):
    machine.write("p.micro", "respond city\n")
    result = machine("run", "p.micro", "--var", "city=Oslo")
    assert result.stdout == "Oslo\n"
    assert "warning MIC103: city is a variable here, because the run gets it" in result.stderr
    assert "help: write $city" in result.stderr
    assert machine("run", "p.micro").stdout == "city\n"


# ---------------------------------------------------------------- fmt


def test_fmt_keeps_syntax_of_file(machine):
    machine.write("p.micro", "@ADD  1   2 >n:int\nrespond n")
    assert machine("fmt", "p.micro").exit_code == 0
    assert (machine.folder / "p.micro").read_text() == "@ADD 1 2 > n:int\nrespond $n\n"
    assert machine("fmt", "--check", "p.micro").exit_code == 0


def test_fmt_keeps_prose_around_commands(machine):
    machine.write("p.micro", "Here is the plan.\n\n" + MICRO)
    result = machine("fmt", "p.micro")
    assert result.exit_code == 2
    assert "MIC102" in result.stderr


def test_fmt_to_prints_and_writes_no_file(machine):
    machine.write("p.micro", MICRO)
    result = machine("fmt", "--to", "ltp", "p.micro")
    assert (result.exit_code, result.stdout) == (0, LTP)
    assert (machine.folder / "p.micro").read_text() == MICRO
    back = machine("fmt", "--to", "micro", "-", stdin=LTP)
    assert back.stdout == '@ADD 1 2 > n:int\nrespond "The sum is" $n\n'


def test_fmt_to_refuses_inexpressible_steps_with_position(machine):
    machine.write("p.ltp", LTP.replace("S2:", "LAST:"))
    result = machine("fmt", "--to", "micro", "p.ltp")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "p.ltp:4:1: error MIC070: Micro-CLI cannot express the id of the step 'LAST'" in result.stderr
    assert "help: commands are numbered: it would be S2" in result.stderr
    (found,) = machine.json("fmt", "--to", "micro", "p.ltp")["diagnostics"]
    assert (found["code"], found["line"], found["step"]) == ("MIC070", 4, "LAST")


def test_fmt_to_excludes_other_output_options(machine):
    machine.write("p.micro", MICRO)
    for more in (["p.micro"], ["--check"], ["--diff"]):
        result = machine("fmt", "--to", "ltp", "p.micro", *more)
        assert result.exit_code == 2
        assert "CFG010" in result.stderr


def test_fmt_to_as_json(machine):
    machine.write("p.micro", "Sure!\n\n" + MICRO)
    said = machine.json("fmt", "--to", "ltp", "p.micro")
    assert (said["ok"], said["syntax"], said["text"]) == (True, "ltp", LTP)
    assert [d["code"] for d in said["diagnostics"]] == ["MIC102"]
