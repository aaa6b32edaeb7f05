"""`plan diff`: plans in any syntax, exit statuses for scripts, calls by git."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from tests import forked

OLD = '# ltp: 1\nPLAN_START\nS1: @FETCH_PAGE (url="https://a") > $page\nS2: @RESPOND ($page)\nPLAN_END\n'
NEW = OLD.replace("https://a", "https://b")
MICRO = 'fetch "https://a" > page\nrespond page\n'


@pytest.fixture
def two(machine):
    machine.write("a.ltp", OLD)
    machine.write("b.ltp", NEW)
    machine.write("a.micro", MICRO)
    return machine


def test_differences_are_printed(two):
    result = two("plan", "diff", "a.ltp", "b.ltp")
    assert result.exit_code == 0
    assert result.stdout == (
        'a.ltp → b.ltp\n~ S1  @FETCH_PAGE\n    url: "https://a" → "https://b"\n1 changed, 1 unchanged\n'
    )


def test_plans_given_to_runs_diff_are_redirected_here(two):
    result = two("diff", "a.ltp", "b.ltp")
    assert result.exit_code == 2
    assert "callsheet plan diff a.ltp b.ltp" in result.stderr


def test_exit_code_is_1_for_difference_and_0_otherwise(two):
    assert two("plan", "diff", "--exit-code", "a.ltp", "b.ltp").exit_code == 1
    assert two("plan", "diff", "--exit-code", "a.ltp", "a.ltp").exit_code == 0


def test_plan_in_two_syntaxes_is_same_plan(two):
    result = two("plan", "diff", "--exit-code", "a.ltp", "a.micro")
    assert result.exit_code == 0
    assert result.stdout == (
        "a.ltp → a.micro\nsame plan, 2 steps; only the text differs (comments, formatting or spelling)\n"
    )
    assert two("plan", "diff", "a.ltp", "a.ltp").stdout.endswith("same plan, 2 steps\n")


def test_one_plan_may_be_stdin(two):
    assert "1 changed" in two("plan", "diff", "-", "b.ltp", stdin=MICRO).stdout
    assert "1 changed" in two("plan", "diff", "b.ltp", "-", stdin=OLD).stdout
    refused = two("plan", "diff", "-", "-", stdin=OLD)
    assert refused.exit_code == 2
    assert "CFG010" in refused.stderr


def test_plan_with_errors_is_named_with_position(two):
    two.write("c.micro", "respnd x\n")
    result = two("plan", "diff", "a.ltp", "c.micro")
    assert result.exit_code == 2
    assert "c.micro:1:1: error MIC012" in result.stderr
    assert two("plan", "diff", "a.ltp", "gone.ltp").exit_code == 2


def test_diff_as_json(two):
    said = two.json("plan", "diff", "a.ltp", "b.ltp")
    assert (said["same"], said["old"]["plan"], said["new"]["steps"]) == (False, "a.ltp", 2)
    counts = {"added": 0, "removed": 0, "changed": 1, "moved": 0, "renamed": 0, "unchanged": 1}
    assert said["summary"] == counts
    assert said["head"] == []
    assert said["steps"] == [
        {
            "kinds": ["changed"],
            "old": {"id": "S1", "number": 1},
            "new": {"id": "S1", "number": 1},
            "changes": [{"part": "argument", "name": "url", "old": '"https://a"', "new": '"https://b"'}],
        }
    ]


def test_colours_are_used_only_on_request(two):
    assert "\x1b[" not in two("plan", "diff", "a.ltp", "b.ltp").stdout
    assert '\x1b[32m"https://b"\x1b[0m' in two("plan", "diff", "--color", "always", "a.ltp", "b.ltp").stdout


def test_plan_diff_imports_no_heavy_modules(two):
    report = "import atexit, sys\natexit.register(lambda: print('M', *sys.modules, file=sys.__stderr__))\n"
    done = two.shell("plan", "diff", "a.ltp", "b.ltp", prefix=report, imports=True)
    assert not {"mcp", "asyncio", "sqlite3", "pydantic", "rich"} & set(done.stderr.split())


def test_unknown_subcommand_suggests_nearest(two):
    result = two("plan", "dif", "a.ltp", "b.ltp")
    assert (result.exit_code, "did you mean diff?" in result.stderr) == (2, True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_diff_shows_plans_by_step(two):
    """Uses the configuration from `docs/cli.md`."""

    def git(*line: str) -> str:
        user = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        done = subprocess.run(
            ["git", *user, *line], cwd=two.folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    command = shlex.join(forked.line("-m", "callsheet", "plan", "diff"))
    git("init", "-q")
    two.write(".gitattributes", "*.ltp diff=callsheet\n")
    git("config", "diff.callsheet.command", f"""sh -c '{command} "$1" "$4"'""")
    git("add", ".gitattributes", "a.ltp")
    git("commit", "-qm", "a plan")
    two.write("a.ltp", NEW)
    git("add", "-N", "b.ltp")
    shown = git("diff", "--ext-diff")
    assert '    url: "https://a" → "https://b"' in shown
    assert "/dev/null → b.ltp" in shown
    assert '+ S1: @FETCH_PAGE (url="https://b") > $page' in shown
    assert '"https://b"' in git("difftool", "-y", "-x", command, "--", "a.ltp")


def test_plans_with_blocks_are_compared_in_every_form(machine):
    machine.write("a.ltp", '# ltp: 2\n?IF (True) {\n  S1: @SEND (to="a")\n}\n')
    machine.write("b.ltp", '# ltp: 2\n?IF (True) {\n  S1: @SEND (to="b")\n}\n')
    shown = machine("plan", "diff", "a.ltp", "b.ltp", "--exit-code")
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[1:] == [
        "~ S1  @SEND  [in ?IF]",
        '    to: "a" → "b"',
        "1 changed, 1 unchanged",
    ]
    (step,) = machine.json("plan", "diff", "a.ltp", "b.ltp")["steps"]
    assert step["new"] == {"id": "S1", "number": 2, "kind": "@SEND", "within": "?IF"}
    assert step["changes"] == [{"part": "argument", "name": "to", "old": '"a"', "new": '"b"'}]
    markdown = machine("plan", "diff", "a.ltp", "b.ltp", "--format", "markdown").stdout
    assert '~ S1  @SEND  [in ?IF]\n    to: "a" → "b"\n1 changed, 1 unchanged' in markdown
