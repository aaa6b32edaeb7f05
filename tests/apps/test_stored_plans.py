"""Stored plans on the command line: parameters, runs by name, versions, changed tools, exports."""

from __future__ import annotations

import json

import pytest

TRIAGE = 'PLAN_START\nS1: @ADD (a=$first, b=$second) > $sum\nS2: @RESPOND ("$label: $sum")\nPLAN_END\n'
PARAMS = 'first:integer,second:int=2,label:text="sum"'


@pytest.fixture
def home(machine):
    machine.write("triage.ltp", TRIAGE)
    saved = machine(
        "save",
        "triage.ltp",
        "--as",
        "triage",
        "--params",
        PARAMS,
        "--goal",
        "Sum them up",
        "--tools",
        "tools.py",
    )
    assert saved.exit_code == 0, saved.stderr
    assert saved.stdout.startswith("triage@1  ")
    assert '(first:integer, second:integer=2, label:text="sum")' in saved.stdout
    (machine.folder / "triage.ltp").rename(machine.folder / "source.ltp")
    return machine


def run(home, name="triage", *more):
    return home("run", name, "--tools", "tools.py", "--progress", "none", *more)


def codes(home, *line):
    return [d["code"] for d in home.json(*line)["diagnostics"]]


def test_stored_plan_runs_by_name_with_parameters(home):
    done = run(home, "triage", "--var", "first=40", "--var", "label=7")
    assert (done.exit_code, done.stdout) == (0, "7: 42\n")
    assert run(home, "tri", "--var", "first=1").stdout == "sum: 3\n"
    assert home("plan", "run", "triage", "--tools", "tools.py", "--var", "first=1").stdout == "sum: 3\n"
    shown = home.json("show", "last")
    assert (shown["variables"]["first"], shown["variables"]["second"]) == (1, 2)
    assert home("resume", "last").stdout == "sum: 3\n"


def test_missing_parameter_is_named_with_option(home):
    refused = run(home, "triage", "--var", "frist=1")
    assert refused.exit_code == 2
    assert (
        "error PLN023: the parameter first (a whole number) of the plan triage is missing" in refused.stderr
    )
    assert "give --var first=VALUE; is frist a misspelling of it?" in refused.stderr
    assert codes(home, "run", "triage", "--tools", "tools.py", "--var", "first=x") == ["PLN024"]
    assert codes(home, "dry-run", "triage", "--tools", "tools.py") == ["PLN023"]
    told = home("dry-run", "triage", "--tools", "tools.py", "--var", "first=1")
    assert "ADD" in told.stdout
    assert home.json("runs") == []


def test_file_takes_precedence_over_stored_plan_with_note(home):
    home.write("triage", 'PLAN_START\nS1: @RESPOND ("the file")\nPLAN_END\n')
    done = run(home)
    assert done.stdout == "the file\n"
    assert "triage is a file; to run the plan of the library: callsheet plan run triage" in done.stderr
    (home.folder / "triage").unlink()
    (home.folder / "triage").mkdir()
    assert run(home, "triage", "--var", "first=1").stdout == "sum: 3\n"


def test_unknown_name_is_reported(home):
    refused = run(home, "triag3")
    assert refused.exit_code == 2
    assert "CFG012: triag3 cannot be read: there is no such file, and no plan of this id" in refused.stderr
    assert "did you mean triage?" in refused.stderr
    assert codes(home, "run", "./triage") == ["CFG012"]
    assert codes(home, "run", "triage", "--syntax", "ltp") == ["CFG012"]
    home("plan", "rename", "triage", "triage-a")
    home("save", "source.ltp", "--as", "triage-b")
    assert "CFG012: tri is not a file, and more than one plan begins with tri" in run(home, "tri").stderr


def test_versions_are_listed_run_shown_and_compared(home):
    home.write("other.ltp", TRIAGE.replace("$label: ", "total "))
    assert home("save", "other.ltp", "--as", "triage", "--tools", "tools.py").stdout.startswith("triage@2  ")
    listed = home("plan", "list", "--versions").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["triage@1", "triage@2"]
    assert "(first:integer, second:integer=2)" in listed[1]
    assert "Sum them up" in listed[1]
    assert [each["version"] for each in home.json("plan", "list", "--versions")] == [1, 2]
    assert run(home, "triage@1", "--var", "first=1").stdout == "sum: 3\n"
    assert run(home, "triage", "--var", "first=1").stdout == "total 3\n"
    compared = home("plan", "diff", "triage@1", "triage@2").stdout
    assert compared.startswith("triage@1 → triage@2\n~ S2  @RESPOND")
    assert '"$label: $sum"' in compared
    assert home("plan", "diff", "triage@2", "other.ltp", "--exit-code").exit_code == 0
    assert home("plan", "show", "triage@1", "--text").stdout == TRIAGE
    shown = home("plan", "show", "triage")
    assert shown.stdout.startswith("triage@2")
    assert "params   first:integer, second:integer=2\n" in shown.stdout
    assert "tool     @ADD  sha256:" in shown.stdout
    assert "callsheet plan run triage --var first=…" in shown.stderr
    assert codes(home, "run", "triage@3") == ["PLN021"]
    assert home("graph", "triage@1").exit_code == 0


def test_changed_tools_are_refused_unless_accepted(home):
    tools = (home.folder / "tools.py").read_text()
    home.write("tools.py", tools.replace("def add(a: int, b: int = 1)", "def add(a: int, b: int = 3)"))
    refused = run(home, "triage", "--var", "first=1")
    assert refused.exit_code == 2
    assert (
        "error PLN025: the plan triage@1 was saved for other tools: @ADD is declared differently now"
        in refused.stderr
    )
    assert home.json("runs") == []
    accepted = run(home, "triage", "--var", "first=1", "--accept-changed-tools")
    assert accepted.stdout == "sum: 3\n"
    assert "warning PLN025" in accepted.stderr
    home("save", "source.ltp", "--as", "triage", "--tools", "tools.py")
    assert run(home, "triage", "--var", "first=1").stdout == "sum: 3\n"
    assert codes(home, "run", "triage@1", "--tools", "tools.py", "--var", "first=1") == ["PLN025"]


def test_plan_with_unknown_tools_is_stored_with_note(home):
    home.write("far.ltp", "PLAN_START\nS1: @FAR_AWAY ($where)\nPLAN_END\n")
    saved = home("save", "far.ltp", "--as", "far")
    assert saved.exit_code == 0
    assert "unknown tools, which are not reachable here: @FAR_AWAY" in saved.stderr
    assert "save it with --params where" in saved.stderr
    assert home.json("plan", "show", "far")["tools"] == {"FAR_AWAY": None}


def test_declarations_of_server_tools_are_stored(with_server):
    with_server.write("greet.ltp", "PLAN_START\nS1: @GREET (name=$who) > $t\nS2: @RESPOND ($t)\nPLAN_END\n")
    saved = with_server("save", "greet.ltp", "--as", "greet", "--params", "who")
    assert saved.exit_code == 0, saved.stderr
    pin = with_server.json("plan", "show", "greet")["tools"]["GREET"]
    assert pin.startswith("sha256:")
    done = with_server("run", "greet", "--var", "who=Ada")
    assert done.stdout == "greet Ada\n"
    server = (with_server.folder / "server.py").read_text()
    assert '"properties": {"name"' in server
    with_server.write("server.py", server.replace('{"name": {"type": "string"}}', '{"name": {}}'))
    assert "PLN025" in codes(with_server, "run", "greet", "--var", "who=Ada")


def test_manual_edits_of_stored_plan_are_shown_run_and_kept(home):
    path = home.folder / "home" / "data" / "callsheet" / "plans" / "triage.ltp"
    path.write_text(TRIAGE.replace("$label", "by hand"))
    assert run(home, "triage", "--var", "first=1").stdout == "by hand: 3\n"
    assert "edited   its file has changed since version 1" in home("plan", "show", "triage").stdout
    assert home("save", "source.ltp", "--as", "triage").stdout.startswith("triage@3")
    assert "changed by hand" in home("plan", "list", "--versions").stdout
    assert run(home, "triage@2", "--var", "first=1").stdout == "by hand: 3\n"


def test_plans_are_exported_and_imported_as_one_file(home):
    home.write("other.ltp", TRIAGE.replace("$label: ", "total "))
    home("save", "other.ltp", "--as", "triage")
    assert home("plan", "export", "triage", "-o", "plans.json").exit_code == 0
    taken = home("plan", "import", "plans.json", "--plans", "team")
    assert (taken.exit_code, taken.stdout) == (0, "triage  2 new versions, 2 in all\n")
    assert (
        home("plan", "import", "plans.json", "--plans", "team").stdout
        == "triage  no new versions, 2 in all\n"
    )
    assert run(home, "triage@1", "--plans", "team", "--var", "first=1").stdout == "sum: 3\n"
    home("save", "source.ltp", "--as", "triage", "--plans", "team")
    home("save", "source.ltp", "--as", "triage", "--goal", "Another")
    text = home("plan", "export", "triage").stdout
    assert json.loads(text)["callsheet"] == "plans"
    home.write("newer.json", text)
    assert codes(home, "plan", "import", "newer.json", "--plans", "team") == ["PLN027"]
    taken = home.json("plan", "import", "newer.json", "--plans", "team", "--as", "triage-2")
    assert taken["plans"] == [{"id": "triage-2", "added": 3, "versions": 3}]
    home.write("damaged.json", text.replace("total", "grand"))
    assert codes(home, "plan", "import", "damaged.json", "--plans", "new") == ["PLN026"]
    assert not (home.folder / "new").exists()
    assert codes(home, "plan", "import", "nowhere.json") == ["CFG012"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("--as", "../x"), "PLN001"),
        (("--as", "x", "--params", "frist"), "PLN022"),
        (("--as", "x", "--params", "first:colour"), "PLN022"),
    ],
)
def test_failed_save_gives_reason_and_stores_nothing(home, line, code):
    assert codes(home, "save", "source.ltp", *line) == [code]
    assert [plan["id"] for plan in home.json("plan", "list")] == ["triage"]


def test_micro_plan_parameters_need_no_dollar_sign(machine):
    machine.write("tea.micro", "respond greeting name\n")
    saved = machine("save", "tea.micro", "--as", "tea", "--params", 'name,greeting="hello"')
    assert saved.exit_code == 0, saved.stderr
    done = machine("run", "tea", "--var", "name=Ada", "--progress", "none")
    assert done.stdout == "hello Ada\n"
    assert "MIC103" not in done.stderr


def test_graph_initial_values_are_defaults(machine):
    step = {
        "index": "1",
        "title": "Say",
        "tool": "respond",
        "args": {"values": ["${city}"]},
        "depends_on": [],
    }
    plan = {"id": "say", "title": "Say", "variables": {"city": "Oslo"}, "steps": [step]}
    machine.write("say.json", json.dumps(plan))
    assert '(city="Oslo")' in machine("save", "say.json", "--params", "city").stdout
    assert machine("run", "say", "--progress", "none").stdout == "Oslo\n"
    assert machine("run", "say", "--progress", "none", "--var", "city=Bergen").stdout == "Bergen\n"


def test_run_of_stored_plan_that_was_edited_stops(home, monkeypatch):
    """By a save or by hand; a version that was asked for by its number stays as it is."""
    text = 'PLAN_START\nS1: @ASK_HUMAN (prompt="Go?") > $a\nS2: @NOTE (line="{}") > $b\nPLAN_END\n'

    def save(line):
        home.write("go.ltp", text.format(line))
        assert home("save", "go.ltp", "--as", "go", "--tools", "tools.py").exit_code == 0
        (home.folder / "go.ltp").unlink()

    save("old")
    for number, name in enumerate(("go", "go", "go@1")):
        assert run(home, name, "--run-id", f"r{number}").exit_code == 4
    for number in (0, 2):
        home("approve", f"r{number}", "--answer", "yes")
    monkeypatch.chdir(home.folder)
    save("old")
    assert home("resume", "r0").exit_code == 0
    save("new")
    for line in (("resume", "r1"), ("rerun", "r0", "--from", "S2", "--yes")):
        stopped = home(*line)
        assert stopped.exit_code == 2
        assert f"JRN024: the plan go of the library was edited after run {line[1]} began" in stopped.stderr
        assert "step S2 (argument line)" in stopped.stderr
        assert "--as-recorded" in stopped.stderr
        assert "callsheet run go" in stopped.stderr.replace("\n  ", " ")
    assert home("rerun", "r0", "--from", "S2", "--yes", "--as-recorded").exit_code == 0
    assert home("resume", "r2").exit_code == 0
    assert home("plan", "resume", "go", "--as-recorded").exit_code == 0
    assert home("plan", "delete", "go").exit_code == 0
    assert home("resume", "r1").exit_code == 4
