"""Micro-CLI wherever a PLAN is accepted, and conversions between syntaxes."""

from __future__ import annotations

import pytest

MICRO = 'add 1 2 > n:int\nrespond "The sum is" n\n'.replace("add ", "@add ")
LTP = '# ltp: 1\nPLAN_START\nS1: @ADD (1, 2) > $n:int\nS2: @RESPOND ("The sum is", $n)\nPLAN_END\n'
TOOLS = ("--tools", "tools.py")


def test_a_micro_plan_runs(machine):
    machine.write("p.micro", MICRO)
    result = machine("run", "p.micro", *TOOLS)
    assert (result.exit_code, result.stdout) == (0, "The sum is 3\n")


@pytest.mark.parametrize("name", ["p.micro", "P.MICRO", "p.txt", "p"])
def test_check_and_graph_read_it_by_its_suffix_or_its_look(machine, name):
    machine.write(name, MICRO)
    assert machine("check", name, *TOOLS).stdout == f"{name}: ok, 2 steps\n"
    assert "@ADD (1, 2) > $n:int" in machine("graph", name).stdout


def test_standard_input_is_looked_at(machine):
    assert machine("run", "-", *TOOLS, stdin=MICRO).stdout == "The sum is 3\n"
    assert machine("run", "-", *TOOLS, stdin=LTP).stdout == "The sum is 3\n"


def test_the_spelling_can_be_forced(machine):
    machine.write("p.ltp", MICRO)
    assert machine("check", "p.ltp", *TOOLS).exit_code == 2
    assert machine("check", "p.ltp", *TOOLS, "--syntax", "micro").exit_code == 0
    assert machine("graph", "p.ltp", "--syntax", "micro").exit_code == 0


def test_an_error_keeps_its_place_and_its_caret(machine):
    machine.write("p.micro", "@add 1 2 > n\nrespnd n\n")
    result = machine("check", "p.micro", *TOOLS)
    assert "p.micro:2:1: error MIC012" in result.stdout
    assert "  2 | respnd n\n    | ^^^^^^\n" in result.stdout
    (found,) = machine.json("check", "p.micro", *TOOLS)["diagnostics"]
    assert (found["code"], found["line"], found["column"]) == ("MIC012", 2, 1)


def test_a_text_with_errors_says_how_it_was_read(machine):
    result = machine("check", "-", "--no-tools", stdin='search "a" > hits\nrespnd hits\n')
    assert "hint CFG020: this was read as Micro-CLI" in result.stdout
    assert "--syntax ltp reads it as LTP text" in result.stdout


def test_a_suffix_that_the_text_belies_is_named(machine):
    machine.write("p.ltp", MICRO)
    assert "its text looks like Micro-CLI" in machine("check", "p.ltp").stdout
    machine.write("q.micro", "PLAN_START\nS1: @ADD (a=1\nPLAN_END\n")
    assert "its text looks like LTP text" in machine("check", "q.micro").stdout


@pytest.mark.parametrize("command", ["run", "check", "fmt", "graph"])
def test_a_text_that_is_no_plan_is_called_that(machine, command):
    result = machine(command, "-", stdin="\n  Book a table for two.\n")
    assert result.exit_code == 2
    assert "<stdin>:2:3: error CFG019: this text is neither LTP text nor Micro-CLI" in result.output
    assert "  2 |   Book a table for two.\n    |   ^^^^^^^^^^^^^^^^^^^^^\n" in result.output
    assert "LTP0" not in result.output
    assert "MIC0" not in result.output


def test_an_empty_text_is_called_empty(machine):
    assert "this text is empty" in machine("check", "-", stdin="").stdout


def test_a_bare_word_that_only_the_command_line_sets_is_warned_about(machine):
    machine.write("p.micro", "respond city\n")
    result = machine("run", "p.micro", "--var", "city=Oslo")
    assert result.stdout == "Oslo\n"
    assert "warning MIC103: city is a variable here, because the run gets it" in result.stderr
    assert "help: write $city" in result.stderr
    assert machine("run", "p.micro").stdout == "city\n"


# ---------------------------------------------------------------- fmt


def test_fmt_keeps_the_spelling_of_a_file(machine):
    machine.write("p.micro", "@ADD  1   2 >n:int\nrespond n")
    assert machine("fmt", "p.micro").exit_code == 0
    assert (machine.folder / "p.micro").read_text() == "@ADD 1 2 > n:int\nrespond $n\n"
    assert machine("fmt", "--check", "p.micro").exit_code == 0


def test_fmt_loses_no_prose_around_commands(machine):
    machine.write("p.micro", "Here is the plan.\n\n" + MICRO)
    result = machine("fmt", "p.micro")
    assert result.exit_code == 2
    assert "MIC102" in result.stderr


def test_fmt_converts_and_writes_no_file(machine):
    machine.write("p.micro", MICRO)
    result = machine("fmt", "--to", "ltp", "p.micro")
    assert (result.exit_code, result.stdout) == (0, LTP)
    assert (machine.folder / "p.micro").read_text() == MICRO
    back = machine("fmt", "--to", "micro", "-", stdin=LTP)
    assert back.stdout == '@ADD 1 2 > n:int\nrespond "The sum is" $n\n'


def test_fmt_refuses_what_the_other_spelling_cannot_say_and_names_the_place(machine):
    machine.write("p.ltp", LTP.replace("S2:", "LAST:"))
    result = machine("fmt", "--to", "micro", "p.ltp")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "p.ltp:4:1: error MIC070: Micro-CLI cannot express the id of the step 'LAST'" in result.stderr
    assert "help: commands are counted: it would be S2" in result.stderr
    (found,) = machine.json("fmt", "--to", "micro", "p.ltp")["diagnostics"]
    assert (found["code"], found["line"], found["step"]) == ("MIC070", 4, "LAST")


def test_fmt_to_takes_one_plan_and_no_other_way_of_printing(machine):
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
