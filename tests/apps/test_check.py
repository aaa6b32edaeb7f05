"""`check`: every error with its position, warnings, and the exit status."""

from __future__ import annotations

import json

import pytest

FIVE_BROKEN = """PLAN_START
S1: @FETCH_PAGE (url=) > $a
S2: ?IF ($a conains "x") THEN @RESPOND ($a)
S3: @READ_FILE (path="x" > $b
S4: @WRITE_FILE (path="x", content="abc)
S5: @READ_FILE (path="x", path="y")
S6: @RESPOND ("fine")
PLAN_END
"""


def test_five_broken_lines_give_five_errors_with_line_and_caret(machine):
    result = machine("check", machine.write("p.ltp", FIVE_BROKEN))
    assert result.exit_code == 2
    heads = [line for line in result.stdout.splitlines() if ": error " in line]
    assert [head.split(":")[1] for head in heads] == ["2", "3", "4", "5", "6"]
    assert sum(line.strip(" |^") == "" and "^" in line for line in result.stdout.splitlines()) == 5
    assert result.stdout.splitlines()[-1] == "p.ltp: 5 errors"


def test_errors_as_json_are_on_stdout(machine):
    found = machine.json("check", machine.write("p.ltp", FIVE_BROKEN))
    assert found["ok"] is False
    assert [d["line"] for d in found["diagnostics"]] == [2, 3, 4, 5, 6]
    assert all(d["source"] == "p.ltp" and d["code"].startswith("LTP") for d in found["diagnostics"])


def test_only_worst_of_many_findings_are_printed_with_count(machine):
    steps = [f"S{n}: @NONE ($missing) > $x{n}" for n in range(1_000)]
    plan = machine.write("p.ltp", "\n".join(steps))
    result = machine("check", plan)
    heads = [line for line in result.stdout.splitlines() if line.startswith("p.ltp:")]
    assert (result.exit_code, len(heads)) == (2, 101)
    assert all(": error CHK040: " in head for head in heads[:-1])
    assert "… and 900 errors, 1001 warnings, 1 hint more; --json lists all" in result.stdout
    assert heads[-1] == "p.ltp: 1000 errors, 1001 warnings, 1 hint"
    assert len(machine.json("check", plan)["diagnostics"]) == 2_002
    ran = machine("run", plan)
    assert (ran.exit_code, ran.stderr.count(": error ")) == (2, 100)


def test_valid_plan_is_ok_with_hash(machine):
    plan = machine.plan('S1: @READ_FILE (path="a") > $a', "S2: @RESPOND ($a)")
    assert machine("check", plan).stdout == "plan.ltp: ok, 2 steps\n"
    (row,) = machine.json("check", plan)["plans"]
    assert row["ok"]
    assert row["steps"] == 2
    assert len(row["plan_hash"]) == 64


def test_several_plans_are_all_checked(machine):
    good = machine.plan('S1: @RESPOND ("x")')
    result = machine("check", good, "absent.ltp", machine.write("bad.ltp", FIVE_BROKEN))
    assert result.exit_code == 2
    assert "plan.ltp: ok" in result.stdout
    assert "CFG012" in result.stdout
    assert "bad.ltp: 5 errors" in result.stdout


def test_dash_reads_standard_input(machine):
    result = machine("check", "-", stdin='PLAN_START\nS1: @RESPOND ("x")\nPLAN_END\n')
    assert result.stdout == "<stdin>: ok, 1 step\n"


def test_unknown_tool_is_error_with_nearest_name(machine):
    result = machine("check", machine.plan('S1: @FETCH_PGE (url="x") > $a', "S2: @RESPOND ($a)"))
    assert result.exit_code == 2
    assert "no tool is called @FETCH_PGE" in result.stdout
    assert "did you mean @FETCH_PAGE?" in result.stdout


def test_unknown_tool_is_warning_without_asked_configuration(machine):
    machine.write(".mcp.json", '{"mcpServers": {"git": {"command": "no-such-program"}}}')
    result = machine(
        "check", machine.plan("S1: @GIT_LOG () > $a", "S2: @FETCH_PGE ($a)", "S3: @RESPOND ($a)")
    )
    assert result.exit_code == 0
    assert ".mcp.json was not asked" in result.stdout
    assert "help: `callsheet lock` asks the servers" in result.stdout
    assert "help: did you mean @FETCH_PAGE? `callsheet lock` asks" in result.stdout


def test_named_configuration_is_asked(with_server):
    good = with_server.plan('S1: @GREET (name="x") > $a', "S2: @RESPOND ($a)")
    bad = with_server.plan('S1: @GREETS (name="x") > $a', "S2: @RESPOND ($a)", name="bad.ltp")
    assert with_server("check", good, "--mcp-config", ".mcp.json").exit_code == 0
    result = with_server("check", bad, "--mcp-config", ".mcp.json")
    assert result.exit_code == 2
    assert "did you mean @GREET?" in result.stdout


def test_no_tools_checks_plan_alone(machine):
    plan = machine.plan('S1: @ANYTHING (x="y") > $a', "S2: @RESPOND ($a)")
    assert machine("check", "--no-tools", plan).exit_code == 0


def test_tools_file_declares_tools_and_arguments(machine):
    plan = machine.plan("S1: @ADD (a=1, c=2) > $a", "S2: @RESPOND ($a)")
    result = machine("check", plan, "--tools", machine.tools)
    assert result.exit_code == 2
    assert "@ADD has no argument c" in result.stdout


def test_given_variable_counts_as_set(machine):
    plan = machine.plan("S1: @RESPOND ($city)")
    assert "1 warning" in machine("check", plan).stdout
    assert machine("check", plan, "--var", "city=Oslo").stdout == "plan.ltp: ok, 1 step\n"


def test_loose_spellings_are_hints_and_with_strict_errors(machine):
    plan = machine.write("p.ltp", "RESPOND ('x')\n")
    assert machine("check", plan).exit_code == 0
    assert machine("check", "--strict", plan).exit_code == 2


@pytest.mark.parametrize("step", ['@LLM_SUMMARIZE ("x")', '@AGENT_SOLVE (goal="x")', 'RE-PLAN ("x")'])
def test_check_reports_what_this_version_cannot_run(machine, step):
    plan = machine.plan(f"S1: {step}", 'S2: @RESPOND ("x")')
    assert "RUN010" in machine("check", plan).stdout


def test_tools_hidden_from_agents_are_errors(machine, monkeypatch):
    plan = machine.plan('S1: @AGENT_SOLVE (goal="x", tools=["note"]) > $a', "S2: @RESPOND ($a)")
    line = ("check", plan, "--tools", machine.tools)
    assert machine(*line).exit_code == 0
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", 'agent_tools = ["look"]\n'))
    done = machine(*line)
    assert (done.exit_code, "AGT002" in done.stdout) == (2, True)
    unknown = machine.plan('S1: @AGENT_SOLVE (goal="x", tools=["lok"]) > $a', "S2: @RESPOND ($a)")
    assert "TOL001" in machine("check", unknown, "--tools", machine.tools).stdout


def test_configured_model_executes_agents(machine, monkeypatch):
    model = machine.write("config.toml", '[model]\nmodel = "openai:some-model"\n')
    monkeypatch.setenv("CALLSHEET_CONFIG", model)
    plan = machine.plan('S1: @AGENT_SOLVE (goal="x") > $a', "S2: @RESPOND ($a)")
    assert "RUN010" not in machine("check", plan).stdout


def test_canonical_json_plan_is_read(machine):
    from callsheet.frontends.ltp import parse
    from callsheet.ir import plan_to_json

    plan = parse('S1: @RESPOND ("x")').require()
    machine.write("p.json", json.dumps(plan_to_json(plan)))
    assert machine("check", "p.json").stdout == "p.json: ok, 1 step\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"ir": 1, "steps": [', "CFG001"),
        ('{"ir": 1}', "canonical JSON"),
        ('{"steps": [', "DAG001"),
        ('{"a": 1}', "DAG010"),
        ('{"a":' * 2000, "DAG003"),
    ],
)
def test_json_without_plan_is_refused(machine, text, said):
    result = machine("check", machine.write("p.json", text))
    assert result.exit_code == 2
    assert said in result.stdout


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'S1: @RESPOND ("\xe9")', "it is not UTF-8 text (byte 15)"),
        ('\ufeffS1: @RESPOND ("x")'.encode("utf-16-le"), "it is UTF-16 text"),
        ('\ufeffS1: @RESPOND ("x")'.encode("utf-16-be"), "it is UTF-16 text"),
    ],
)
def test_non_utf8_bytes_are_refused(machine, data, told):
    (machine.folder / "p.ltp").write_bytes(data)
    result = machine("check", "p.ltp")
    assert result.exit_code == 2
    assert f"the plan p.ltp cannot be read: {told}" in result.stdout
    assert "help: save it in the encoding UTF-8" in result.stdout


def test_folder_is_not_plan(machine):
    (machine.folder / "my plans").mkdir()
    told = machine("check", "my plans").stdout
    assert "error CFG012: the plan my plans cannot be read: it is a folder" in told
    assert "help: it has no plan; name files, for example with the pattern 'my plans'/*.json." in told


def test_syntax_and_check_errors_are_reported_together(machine, tmp_path):
    plan = tmp_path / "plan.ltp"
    plan.write_text(
        'S1: @READ_FILE (path="a" > $b\n'
        "S2: GOTO S99\n"
        'S3: @READ_FLE (path="x")\n'
        'S4: @READ_FILE (pth="x")\n'
        "S5: GOTO S1\n"
        'S6: ?IF ($b == ) THEN @RESPOND ("x")\n'
        'S7: @RESPOND ("y")\n'
    )
    done = machine("check", str(plan))
    assert done.exit_code == 2
    lines = [line.split(":")[1] for line in done.stdout.splitlines() if ": error " in line]
    assert lines == ["1", "2", "3", "4", "4", "6"]


TYPED = """# ltp: 2
TYPE Ticket = {id: int, title: str}
INPUT $ticket: Ticket
@RESPOND ("Ticket ${ticket.titel}")
"""


def test_a_wrong_field_of_a_plan_of_version_2_is_found_also_without_calls(machine):
    result = machine("check", machine.write("p.ltp", TYPED))
    assert result.exit_code == 2
    assert "p.ltp:4:21: error CHK120: $ticket: a Ticket has no field titel" in result.stdout
    assert "did you mean title? there is id and title" in result.stdout


def test_an_input_that_a_plan_of_version_2_does_not_declare_is_an_error(machine):
    plan = machine.write("p.ltp", TYPED.replace("titel", "title"))
    assert machine("check", plan, "--var", 'ticket={"id": 1}').exit_code == 0
    result = machine("check", plan, "--var", "tikcet=1")
    assert result.exit_code == 2
    assert "error RUN036: the plan has no input $tikcet" in result.stdout
    assert "did you mean $ticket?" in result.stdout
