"""Machine-readable output of commands."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
from tests import forked

from apps.conftest import Machine
from callsheet.apps.cli.output import print_json


def test_long_lists_have_one_item_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    deep: list[Any] = [1]
    for _ in range(16):
        deep = [deep, deep]
    told = {
        "a": {"b": [1, "two\nlines"]},
        "many": [{"n": n, "text": "\x9b\n"} for n in range(1_001)],
        "parts": {"of": {"parts": {"x": deep}}},
        "none": [],
    }
    print_json(told)
    text = capsys.readouterr().out
    assert json.loads(text) == told
    assert text.count("\n") < 1_030
    assert len(text) < 700_000
    assert '\n    {"n": 7, "text": "\\u009b\\n"},\n' in text
    assert '\n  "a": {\n    "b": [\n      1,' in text


def test_unencodable_characters_are_escaped(machine: Machine) -> None:
    plan = machine.plan('S1: @RESPOND ("\u2192", $b)')
    said = machine.shell("check", plan, prefix="import sys; sys.stdout.reconfigure(encoding='latin-1')")
    assert (said.returncode, said.stderr) == (0, "")
    assert '@RESPOND ("\\u2192", $b)' in said.stdout


def test_newline_in_file_name_is_escaped(machine: Machine) -> None:
    name = machine.plan('S1: @RESPOND ("x")', name="a\nb.ltp: ok, 9 steps\n\x1b[2J.ltp")
    for line in (("check", name), ("verify", "--policy", "open", name)):
        said = machine(*line)
        assert said.stdout.startswith("a b.ltp: ok, 9 steps")
        assert "\x1b" not in said.stdout


def test_undecodable_file_name_is_shown(machine: Machine) -> None:
    name = os.fsdecode(b"plan\xff.ltp")
    (machine.folder / name).write_text('PLAN_START\nS1: @RESPOND ("x")\nPLAN_END\n', encoding="utf-8")
    said = machine.shell("check", name)
    assert (said.returncode, said.stdout) == (0, "plan\N{REPLACEMENT CHARACTER}.ltp: ok, 1 step\n")


@pytest.mark.parametrize("line", [("graph", "plan.ltp"), ("run", "plan.ltp"), ("show", "last"), ("top",)])
@pytest.mark.parametrize("closed", ["stdout", "stderr", "stdin"])
def test_closed_stream_is_no_terminal(machine: Machine, line: tuple[str, ...], closed: str) -> None:
    machine("run", machine.plan('S1: @RESPOND ("x")'))
    said = machine.shell(*line, prefix=f"import sys; sys.{closed} = None", stdin=subprocess.DEVNULL)
    assert (said.returncode, "bug" in said.stderr) == (0, False)


@pytest.mark.parametrize("line", ["report last -o -", "runs export last -o -"])
def test_document_needs_writable_stdout(machine: Machine, line: str) -> None:
    assert machine("run", machine.plan('S1: @RESPOND ("x")')).exit_code == 0
    fork, own = shlex.join(forked.line("-m", "callsheet")), f'"{sys.executable}" -m callsheet'
    for command, where, status, said in (
        (fork, ">/dev/full", 1, "CFG018"),
        (own, ">&-", 0, ""),
        (fork, "| true", 0, ""),
    ):
        done = subprocess.run(
            ["sh", "-c", f"{command} {line} {where}"],
            cwd=machine.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, said in done.stderr, "a bug" in done.stderr) == (status, True, False), where
