"""The methods of a runtime for programs without an event loop do what those with one do."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from callsheet import Policy, PolicyRefused, RunResult, RunStatus, Runtime

LEAKS = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @WEB_SEARCH (query=$a) > $b'
DOUBLES = 'S1: @CALC ("$n * 2") > $twice\nS2: @RESPOND ($twice)'
SYNC_METHODS = sorted(name for name in dir(Runtime) if name.endswith("_sync") and not name.startswith("_"))


@pytest.mark.parametrize("name", SYNC_METHODS)
def test_method_without_event_loop_takes_the_same_arguments(name: str) -> None:
    runtime = Runtime()
    method, other = getattr(runtime, name), getattr(runtime, name.removesuffix("_sync"))
    assert method.__name__ == name
    assert not inspect.iscoroutinefunction(method)
    expected, found = inspect.signature(other).parameters, inspect.signature(method).parameters
    without_loop = [each for each in expected.values() if name != "tail_sync" or each.name != "follow"]
    assert [*found.values()] == without_loop


def test_plan_is_proved_without_event_loop() -> None:
    runtime = Runtime(builtins=True, policy=Policy())
    proof = runtime.verify_sync(LEAKS)
    assert not proof.ok
    assert proof.diagnostics[0].code == "POL103"
    with pytest.raises(PolicyRefused):
        proof.raise_if_refused()
    assert runtime.verify_sync('S1: @READ_FILE (path="notes.txt") > $a').ok
    with pytest.raises(ValueError, match="policy"):
        Runtime(builtins=True).verify_sync(LEAKS)


def test_runs_are_listed_and_forked_without_event_loop(tmp_path: Path) -> None:
    runtime = Runtime(journal=tmp_path / "runs.db")
    runtime.run_sync(DOUBLES, {"n": 21}, run_id="first")
    assert runtime.fork_sync("first", 1, variables={"n": 4}, new_id="second").response == "8"
    assert [run.run_id for run in runtime.runs_sync(limit=1)] == ["second"]
    assert [run.status for run in runtime.runs_sync(status="done")] == [RunStatus.DONE] * 2


async def test_method_without_event_loop_is_refused_within_one() -> None:
    with pytest.raises(RuntimeError, match="await"):
        Runtime(policy=Policy()).verify_sync(DOUBLES)


def test_no_text_is_made_of_a_result_that_nobody_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[RunResult] = []
    monkeypatch.setattr(RunResult, "__repr__", lambda result: printed.append(result) or "a result")
    text = '# ltp: 2\n@RESPOND ("x")'
    assert Runtime().run_sync(text).response == "x"
    with Runtime() as runtime:
        assert [runtime.run_sync(text).response for _ in range(2)] == ["x", "x"]
    assert printed == []
