"""A project's configuration: it counts once the user trusts it, until it changes; plans in folders."""

from __future__ import annotations

import json
import os
import re

import pytest

CONFIG = """
tools = ["lib/tools.py"]
servers = ["servers.json"]
plans = ["plans", "more/*.ltp"]
policy = "house.toml"
workspace = "room"

[limits]
max_steps = 7
"""
POLICY = 'schema = 1\nextends = "open"\n[tools."@TWICE"]\negress = false\ndestructive = false\n'
PLAN = "# ltp: 1\nPLAN_START\nS1: @TWICE (n=4) > $a\nS2: @RESPOND ($a)\nPLAN_END\n"
TOOLS = '''
from callsheet import tool

@tool(effect="read")
def twice(n: int) -> int:
    """Twice a number."""
    return 2 * n
'''


@pytest.fixture
def project(machine):
    """A folder of a project, in a repository."""
    for folder in (".git", "lib", "plans/deep", "more", "room"):
        (machine.folder / folder).mkdir(parents=True)
    machine.write("callsheet.toml", CONFIG)
    machine.write("lib/tools.py", TOOLS)
    machine.write("house.toml", POLICY)
    machine.write("servers.json", '{"mcpServers": {}}')
    for name in ("plans/a.ltp", "plans/deep/b.ltp", "more/c.ltp"):
        machine.write(name, PLAN)
    return machine


def test_configuration_counts_once_trusted_and_until_it_changes(project):
    before = project("run", "plans/a.ltp")
    assert (before.exit_code, "CFG117" in before.stderr) == (2, True)
    shown = project("trust", "project")
    assert 'policy = "house.toml"' in shown.stdout, "people see what they trust"
    ran = project("run", "plans/a.ltp")
    assert (ran.exit_code, ran.stdout) == (0, "8\n")
    run = json.loads(project("runs", "--json").stdout)[0]["run_id"]
    start = json.loads(project("tail", run, "--json").stdout.splitlines()[0])
    assert json.dumps(str(project.folder / "room")) in json.dumps(start)
    assert '"max_steps": 7' in json.dumps(start)
    assert "house" in json.dumps(start)
    project.write("callsheet.toml", CONFIG.replace("house.toml", "open"))
    assert "CFG117" in project("run", "plans/a.ltp").stderr
    assert project("trust", "project").exit_code == 0
    assert project("trust", "project", "--revoke").exit_code == 0
    assert "CFG117" in project("check", "plans/a.ltp").stderr


def test_options_precede_the_configuration(project):
    project("trust", "project")
    project.write("strict.toml", 'schema = 1\nextends = "strict"\n')
    assert "strict" in project("verify", "plans/a.ltp", "--policy", "strict").stdout
    assert "house" in project("verify", "plans/a.ltp").stdout


def test_configuration_is_found_from_folders_below_but_not_above_the_repository(project, monkeypatch):
    project("trust", "project")
    monkeypatch.chdir(project.folder / "plans" / "deep")
    assert project("run", "b.ltp").stdout == "8\n"
    inner = project.folder / "room" / "inner"
    (inner / ".git").mkdir(parents=True)
    project.write("room/inner/p.ltp", PLAN)
    monkeypatch.chdir(inner)
    assert project("run", "p.ltp").exit_code == 2


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_folder_that_others_can_write_configures_nothing(project, monkeypatch):
    project("trust", "project")
    (project.folder / "plans").chmod(0o755)
    project.folder.chmod(0o777)
    monkeypatch.chdir(project.folder / "plans")
    assert project("run", "a.ltp").exit_code == 2


def test_table_in_pyproject_is_a_configuration(project):
    table = CONFIG.replace("[limits]", "[tool.callsheet.limits]")
    project.write("pyproject.toml", f'[project]\nname = "x"\n[tool.callsheet]\n{table}')
    (project.folder / "callsheet.toml").unlink()
    assert "CFG117" in project("check", "plans/a.ltp").stderr
    project("trust", "project")
    assert project("run", "plans/a.ltp").stdout == "8\n"
    project.write("pyproject.toml", '[tool.callsheet]\npolicies = "x"\n')
    project("trust", "project")
    wrong = project("check", "plans/a.ltp")
    assert (wrong.exit_code, "pyproject.toml:2" in wrong.output, "policy" in wrong.output) == (2, True, True)


def test_plans_are_those_of_folders_patterns_or_the_project(project):
    project("trust", "project")

    def checked(*names: str) -> list[str]:
        return [each["plan"] for each in json.loads(project("check", *names, "--json").stdout)["plans"]]

    assert checked("plans") == ["plans/a.ltp", "plans/deep/b.ltp"]
    assert checked("**/[bc].ltp") == ["more/c.ltp", "plans/deep/b.ltp"]
    assert [os.path.relpath(name) for name in checked()] == ["plans/a.ltp", "plans/deep/b.ltp", "more/c.ltp"]
    assert len(project("verify").stdout.splitlines()) >= 3
    assert project("fmt", "--check").exit_code == 0
    empty = project("check", "lib")
    assert (empty.exit_code, "it has no plan; name files" in empty.output) == (2, True)


def test_python_file_in_a_folder_is_a_plan_if_it_says_so(project):
    project("trust", "project")
    for name, text in {
        "main.py": 'async def main() -> str:\n    return "x"\n',
        "marked.py": 'from callsheet import plan\n\n\n@plan\nasync def f() -> str:\n    return "x"\n',
        "unsaid.py": 'async def report() -> str:\n    return "x"\n',
        "tools.py": "from callsheet import tool\n\n\n@tool\nasync def f() -> int:\n    return 1\n",
        "helpers.py": "def f():\n    return 1\n",
        ".venv/hidden.py": 'async def main() -> str:\n    return "x"\n',
        "lib/site-packages/installed.py": 'async def main() -> str:\n    return "x"\n',
    }.items():
        project.write(f"jobs/{name}", text)
    done = project("check", "jobs")
    assert done.stdout.splitlines() == ["jobs/main.py: ok, 0 steps", "jobs/marked.py: ok, 0 steps"]
    left = [line for line in done.stderr.splitlines() if ".py" in line]
    assert [line.split(":")[0] for line in left] == ["jobs/unsaid.py is left out"]
    assert "name it to take it" in left[0]
    assert project("check", "jobs/unsaid.py").exit_code == 0


MODULE = """
import functools, json
from callsheet import plan, tool

ROOT = json.loads('"/"')
print("a line of the module")


@tool(effect="read")
def fetch_it(word: str) -> str:
    return word


@plan
async def one(word: str) -> str:
    return await fetch_it(word=word)


@plan
async def two(word: str) -> str:
    return await one(word) + await fetch_it(word="b")


@functools.cache
def other():
    return ROOT
"""


def test_functions_with_plan_in_any_module_are_plans_of_their_own(project):
    """Only what a plan needs of its module is read; a command names one of several, `check` takes each."""
    project.write("jobs.py", MODULE)
    told = json.loads(project("check", "jobs.py", "--tools", "jobs.py", "--json").stdout)
    assert [each["plan"] for each in told["plans"]] == ["jobs.py:one", "jobs.py:two"]
    assert told["ok"]
    proved = project("verify", "jobs.py", "--tools", "jobs.py", "--policy", "open").stdout
    assert re.findall(r"^(\S+): proved", proved, re.MULTILINE) == ["jobs.py:one", "jobs.py:two"]
    run = ["run", "--tools", "jobs.py", "--var", "word=a"]
    assert project(*run, "jobs.py:two").stdout == "ab\n"
    assert project("fmt", "--check", "jobs.py").exit_code == 0
    several = project(*run, "jobs.py")
    assert (several.exit_code, "FILE.py:one" in several.stderr) == (2, True)
    wrong = project(*run, "jobs.py:three")
    assert (wrong.exit_code, "it has one, two" in wrong.stderr) == (2, True)


def test_doctor_shows_configuration_and_lock(project):
    project("lock")
    shown = project("doctor").stdout
    assert "callsheet.toml: is not trusted" in shown
    project("trust", "project")
    shown = project("doctor").stdout
    assert "sets tools, servers, plans, policy, workspace, limits" in shown
    assert "lock file" in shown


@pytest.mark.parametrize("name", ["callsheet.lock", "callsheet.toml"])
def test_no_plan_under_a_policy_writes_the_configuration(project, name):
    project("trust", "project")
    text = f'PLAN_START\nS1: @WRITE_FILE (path="{name}", content="x")\nPLAN_END\n'
    project.write("w.ltp", text)
    refused = project("run", "w.ltp", "--policy", "workspace", "--workspace", ".")
    assert (refused.exit_code, "POL" in refused.output) == (3, True), refused.output
