"""The methods of a runtime for programs without an event loop do what those with one do."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from callsheet import Policy, PolicyRefused, RunResult, RunStatus, Runtime
from callsheet.api.continuation import ForkOptions, RerunOptions, UndoOptions

LEAKS = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @WEB_SEARCH (query=$a) > $b'
DOUBLES = 'S1: @CALC ("$n * 2") > $twice\nS2: @RESPOND ($twice)'
OPTIONS = {"rerun_sync": RerunOptions, "fork_sync": ForkOptions, "undo_sync": UndoOptions}
SYNC_METHODS = sorted(name for name in dir(Runtime) if name.endswith("_sync") and not name.startswith("_"))
NEEDS_AN_EVENT_LOOP = {"create_plan": {"call"}, "tail": {"follow"}}
"""Arguments that make sense only with an event loop: the context of a tool's call, and waiting for events."""


def parameters(method: str) -> dict[str, inspect.Parameter]:
    """The parameters of a method of a runtime, options in a TypedDict spread out."""
    found = dict(inspect.signature(getattr(Runtime, method)).parameters)
    if found.pop("given", None) is not None:
        for name in OPTIONS[method].__annotations__:
            found[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
    return found


@pytest.mark.parametrize("method", SYNC_METHODS)
def test_method_without_event_loop_takes_the_same_arguments(method: str) -> None:
    other = method.removesuffix("_sync")
    expected, found = parameters(other), parameters(method)
    assert set(found) == set(expected) - NEEDS_AN_EVENT_LOOP.get(other, set())
    for name, parameter in found.items():
        assert parameter.kind == expected[name].kind


@pytest.mark.parametrize("method", OPTIONS)
def test_options_of_new_runs_have_the_types_of_the_arguments(method: str) -> None:
    types = getattr(Runtime, method.removesuffix("_sync")).__annotations__
    for name, reference in OPTIONS[method].__annotations__.items():
        assert reference.__forward_arg__ == types[name]


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
