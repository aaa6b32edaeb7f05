"""`callsheet new`, and `callsheet check --watch`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner, Result

from callsheet.apps.cli.main import main
from callsheet.apps.cli.new import TEMPLATES


def callsheet(*args: str) -> Result:
    return CliRunner().invoke(main, args)


@pytest.mark.parametrize("name", [*TEMPLATES])
def test_each_template_is_right_formatted_and_covered(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = f"plans/mine{TEMPLATES[name].suffix}"
    made = callsheet("new", file, "--template", name)
    assert made.exit_code == 0, made.output
    checked = json.loads(callsheet("check", file, "--json").output)
    assert (checked["ok"], checked["diagnostics"]) == (True, [])
    if not file.endswith(".py"):
        assert callsheet("fmt", "--check", file).exit_code == 0
    tested = callsheet("test", "plans", "--min-cover", "100")
    assert tested.exit_code == 0, tested.output
    again = callsheet("new", file, "--template", name)
    assert (again.exit_code, "exists already" in again.output) == (2, True)


def test_the_name_of_the_file_and_a_missing_one_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert callsheet("new").exit_code == 2
    assert "no file for the template python" in callsheet("new", "a.ltp", "--template", "python").output
    assert json.loads(callsheet("new", "b.py", "--json").output)["template"] == "python"
    assert callsheet("new", "--list").output.count("\n") == len(TEMPLATES)


def test_check_watches_plans_until_ctrl_c(tmp_path: Path) -> None:
    plan = tmp_path / "a.ltp"
    plan.write_text("S1: GOTO S9\n")
    command = [sys.executable, "-m", "callsheet", "check", "--watch", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        before = _until(process.stdout, "watching 1 plan")
        assert "CHK012" in before
        plan.write_text('# ltp: 1\nPLAN_START\nS1: @RESPOND ("on")\nPLAN_END\n')
        assert "a.ltp: ok, 1 step" in _until(process.stdout, "watching 1 plan")
        (tmp_path / "b.ltp").write_text("S1: GOTO S8\n")
        assert "S8" in _until(process.stdout, "watching 2 plans")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert callsheet("check", "--watch", "-").exit_code == 2


def _until(stream: IO[str], words: str) -> str:
    seen: list[str] = []
    for line in stream:
        seen.append(line)
        if words in line:
            break
    return "".join(seen)
