"""Crashes at every call of a plan, and the plugin of pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from callsheet import tool
from callsheet.testing import Answer, Reply, Stage, crash_at_every_call, fails, gives

PLAN = "S1: @LOOK > $a\nS2: @SEND (to=$a) > $b ON_FAIL @RETRY(1)\nS3: @RESPOND ($a, $b)"


@tool(effect="read")
def look() -> int: ...


@tool(effect="idempotent")
def save(n: int) -> int: ...


def test_every_crash_comes_to_the_same_end_and_unsafe_calls_take_place_once() -> None:
    def world() -> dict[str, object]:
        return {"look": 1, "send": [fails("busy", times=1), gives("sent")]}

    report = crash_at_every_call(PLAN, fakes=world)  # pyright: ignore[reportArgumentType]
    assert report.undisturbed.response == "1 sent"
    assert len(report.points) == 6
    report.assert_same_end()
    report.assert_once("send", "look")
    assert {point.in_doubt for point in report.points} == {("@LOOK ()",), ("@SEND (to=1)",)}


def test_a_tool_that_is_said_to_be_idempotent_is_called_again_and_that_is_seen() -> None:
    sums: list[int] = []
    plan = "S1: @SAVE (n=2) > $a\nS2: @RESPOND ($a)"
    stage = Stage(tools=[save])

    def add(n: int) -> int:  # which is not idempotent, as the declaration claims
        sums.append(n)
        return sum(sums)

    def world() -> dict[str, object]:
        sums.clear()
        return {"save": add}

    report = crash_at_every_call(plan, fakes=world, stage=stage)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match=r"after @SAVE \(n=2\): done, '4'"):
        report.assert_same_end()
    with pytest.raises(AssertionError, match="took place twice"):
        report.assert_once("save")


def test_of_two_equal_calls_a_person_finds_the_one_that_is_in_doubt() -> None:
    numbers: list[int] = []

    def send(to: int) -> int:
        numbers.append(to)
        return len(numbers)

    def world() -> dict[str, object]:
        numbers.clear()
        return {"send": send}

    plan = "S1: @SEND (to=1) > $a\nS2: @SEND (to=1) > $b\nS3: @RESPOND ($a, $b)"
    report = crash_at_every_call(plan, fakes=world)  # pyright: ignore[reportArgumentType]
    assert report.undisturbed.response == "1 2"
    report.assert_same_end()


def test_approvals_are_kept_through_a_crash() -> None:
    plan = "S1: @SEND (to=1) > $a\nS2: @SEND (to=2) > $b\nS3: @RESPOND ($a, $b)"
    report = crash_at_every_call(
        plan, fakes={"send": "ok"}, replies=[Reply("send", Answer.approve())], stage=Stage(approve=["send"])
    )
    report.assert_same_end()
    assert report.undisturbed.response == "ok ok"


def test_pytest_collects_cases(tmp_path: Path) -> None:
    (tmp_path / "one.ltp").write_text("S1: @A > $a\nS2: @RESPOND ($a)\n")
    (tmp_path / "one.test.toml").write_text(
        '[[cases]]\nname = "good"\nfakes = [{ tool = "a", answer = 1 }]\nanswer = "1"\n\n'
        '[[cases]]\nname = "bad"\nfakes = [{ tool = "a", answer = 1 }]\nanswer = "2"\n'
    )
    (tmp_path / "odd.ltp").write_text('S1: @RESPOND ("on")\n')
    (tmp_path / "odd.test.toml").write_text('tools = ["none.py"]\n[[cases]]\nname = "x"\n')
    plugin = "callsheet.testing.pytest_plugin"
    blocked = ("-p", "no:callsheet", "-p", plugin)  # it may be installed as well
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *blocked, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "none.py cannot be read" in done.stdout
    assert "Traceback" not in done.stdout
    assert "def load_tools" not in done.stdout
    assert 'one.ltp:2: answer: expected "2", was "1"' in done.stdout
