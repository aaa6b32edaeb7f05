"""`callsheet dry-run` and `run --dry-run`: full reports, and no side effect."""

from __future__ import annotations

import json
import sys


def files_of(machine):
    return {p.relative_to(machine.folder) for p in machine.folder.rglob("*") if "__pycache__" not in p.parts}


def test_tools_are_not_called_and_nothing_is_written(machine):
    plan = machine.plan('S1: @LOOK (path="mark") > $seen', "S2: @NOTE (line=$seen)", "S3: @RESPOND ($seen)")
    before = files_of(machine)

    result = machine("dry-run", plan, "--tools", machine.tools)

    assert result.exit_code == 0
    assert 'path: "mark"' in result.stdout
    assert "line: <LOOK result>" in result.stdout
    assert files_of(machine) == before


def test_run_dry_run_prints_same_report(machine):
    plan = machine.plan('S1: @LOOK (path="mark") > $seen', "S2: @RESPOND ($seen)")
    line = (plan, "--tools", machine.tools)

    assert machine("run", *line, "--dry-run").stdout == machine("dry-run", *line).stdout
    assert not machine.journal.exists()


def test_agent_calls_are_in_totals_and_limited_by_operator(machine, monkeypatch):
    plan = machine.plan(
        'S1: @AGENT_SOLVE (goal="x", tools=["look", "note"], max_turns=4) > $a', "S2: @RESPOND ($a)"
    )
    line = ("dry-run", plan, "--tools", machine.tools)
    totals = machine.json(*line)["totals"]
    assert totals["calls"] == {"least": 1, "most": 4}
    assert totals["writes"] == {"least": 0, "most": 3}
    assert {tool["tool"] for tool in totals["tools"]} == {"AGENT_SOLVE", "LOOK", "NOTE"}
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", 'agent_tools = ["look"]\n'))
    done = machine(*line)
    assert (done.exit_code, "AGT002" in done.stderr) == (2, True)


def test_assume_needs_dry_run(machine):
    plan = machine.plan('S1: @RESPOND ("x")')

    result = machine("run", plan, "--assume", "S1=3")

    assert result.exit_code == 2
    assert "--dry-run" in result.stderr


def test_servers_start_only_on_request(machine):
    server = machine.write("server.py", "open('started', 'w').close()\n")
    config = {"mcpServers": {"hall": {"command": sys.executable, "args": [server]}}}
    machine.write(".mcp.json", json.dumps(config))
    plan = machine.plan('S1: @GREET (name="Ada") > $g', "S2: @RESPOND ($g)")

    result = machine("dry-run", plan)

    assert result.exit_code == 0
    assert not (machine.folder / "started").exists()
    assert "unsafe (undeclared)" in result.stdout
    assert "--ask-servers" in result.stderr
    assert machine("dry-run", plan, "--ask-servers").exit_code == 2
    assert (machine.folder / "started").exists()


def test_asked_servers_provide_argument_names(with_server):
    plan = with_server.plan('S1: @GREET ("Ada") > $g', "S2: @RESPOND ($g)")

    shown = with_server("dry-run", plan, "--ask-servers").stdout

    assert 'name: "Ada"' in shown


def test_assumed_results_resolve_later_steps(machine):
    plan = machine.plan(
        'S1: @LOOK (path="mark") > $seen:json',
        "S2: ?IF ($seen.n > 2) THEN @NOTE (line=$seen.text)",
        'S3: @RESPOND ("done")',
    )
    given = 'S1={"n": 3, "text": "t"}'
    steps = machine.json("dry-run", plan, "--tools", machine.tools, "--assume", given)["steps"]

    assert steps[1]["when"] == "always"
    assert steps[1]["visits"][0]["arguments"] == {"line": {"value": "t"}}
    assert steps[0]["result"] == {"is": "assumed", "value": {"n": 3, "text": "t"}}


def test_missing_step_cannot_be_assumed(machine):
    plan = machine.plan('S1: @LOOK (path="mark") > $seen', "S2: @RESPOND ($seen)")

    for said, hint in (("S11=3", "did you mean S1"), ("S2=3", "calls nothing"), ("S1", "has no =")):
        result = machine("dry-run", plan, "--tools", machine.tools, "--assume", said)
        assert (result.exit_code, "RUN040" in result.stderr) == (2, True)
        assert hint in result.stderr


def test_plan_refused_by_run_is_refused(machine):
    plan = machine.plan("S1: @LOOKS ($x) > $y", "S2: GOTO S9")

    assert machine("dry-run", plan, "--tools", machine.tools).exit_code == 2
    found = machine.json("dry-run", plan, "--tools", machine.tools)
    assert found["ok"] is False
    assert {"CHK040", "CHK012"} <= {d["code"] for d in found["diagnostics"]}


def test_transforms_are_evaluated(machine):
    plan = machine.plan(
        'S1: @CALC ("$n * 2") > $m', 'S2: @SELECT ($l, query="[?k].v") > $v', "S3: @RESPOND ($m, $v)"
    )

    data = machine.json("dry-run", plan, "--var", "n=21", "--var", 'l=[{"k":true,"v":1}]')

    assert data["steps"][2]["visits"][0]["inputs"] == [{"value": 42}, {"value": [1]}]


OURS = """schema = 1
name = "ours"
extends = "workspace"
[tools."@LOOK"]
egress = false
destructive = false
[tools."@NOTE"]
egress = true
destructive = true
control = ["path"]
"""


def test_policy_verdict_is_shown_per_step(machine):
    machine.write("ours.toml", OURS)
    plan = machine.plan(
        'S1: @FETCH_PAGE (url="https://example.org/") > $p',
        'S2: @NOTE (line="hello") > $n',
        'S3: @LOOK (path="mark") > $l',
        "S4: @NOTE (line=$l) > $m",
    )
    line = ("run", plan, "--tools", machine.tools, "--policy", "ours.toml", "--dry-run")

    result = machine(*line)

    assert result.exit_code == 3
    told = result.stdout.splitlines()
    assert any(
        "enforced: only public addresses and audiences are reached (example.org)" in line for line in told
    )
    assert sum("needs approval: @NOTE cannot be undone" in line for line in told) == 2
    assert any("refused (POL103): private data in line ($l) of @NOTE would reach" in line for line in told)
    assert any("  path: S3 $l → S4 line → outside" in line for line in told)
    assert told[-1] == "refused by ours: S4"
    assert any(line == "needs approval: S2, S4" for line in told)
    data = machine.json(*line)
    assert (data["ok"], data["policy"]["name"], data["policy"]["ok"]) == (False, "ours", False)
    steps = {step["id"]: step for step in data["policy"]["steps"]}
    assert steps["S2"]["asks"] == ["@NOTE cannot be undone"]
    assert [found["code"] for found in steps["S4"]["refuses"]] == ["POL103"]
    assert set(steps) == {"S1", "S2", "S4"}


def test_steps_needing_approval_are_named_as_by_run(machine):
    plan = machine.plan('S1: @NOTE (line="one") > $a', "S2: @ADD (a=1) > $b")
    told = machine("dry-run", plan, "--tools", machine.tools, "--approve", "note", "--json")
    as_run = machine("run", plan, "--tools", machine.tools, "--approve", "note", "--dry-run", "--json")
    assert json.loads(told.stdout) == json.loads(as_run.stdout)
    assert (
        "needs approval: S1" in machine("dry-run", plan, "--tools", machine.tools, "--approve", "note").stdout
    )


def test_accepted_plan_is_reported_and_approved_step_not_asked(machine):
    machine.write("ours.toml", OURS)
    plan = machine.plan('S1: @NOTE (line="hello") > $n', 'S2: @RESPOND ("done")')
    line = ("dry-run", plan, "--tools", machine.tools, "--policy", "ours.toml", "--approved", "S1")

    result = machine(*line)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "proved against ours"
    assert "a person is asked" not in result.stdout


def test_unrecorded_run_cannot_ask_people(machine):
    machine.write("ours.toml", OURS)
    plan = machine.plan('S1: @NOTE (line="hello") > $n')
    line = ("run", plan, "--tools", machine.tools, "--policy", "ours.toml", "--dry-run", "--no-journal")

    result = machine(*line)

    assert result.exit_code == 3
    assert "refused (POL108): @NOTE cannot be undone, and is not approved" in result.stdout
