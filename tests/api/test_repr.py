"""The `repr` of results and events shows no secret, while the values are unchanged."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import callsheet
from callsheet import RunFailed, Runtime

TOKEN = "Kq9-canary-4711/xyz"
LOOKS = f"ghp_{'a1B2' * 9}"


@callsheet.tool(effect="read")
def login(token: str) -> dict[str, Any]:
    """Returns its argument and more."""
    return {"token": LOOKS, "said": [f"welcome {token}", token.encode().hex()]}


@callsheet.tool(effect="read")
def fail(token: str) -> str:
    """Fails with its argument in the error."""
    raise ValueError(f"no {token}")


PLAN = """
S1: @LOGIN ($token) > $session
S2: @FAIL ($token) > $f ON_FAIL GOTO S3
S3: @RESPOND ("$session.said")
"""


def check(shown: str) -> None:
    assert "[secret]" in shown
    for secret in (TOKEN, LOOKS, TOKEN.encode().hex()):
        assert secret not in shown


@pytest.mark.parametrize("is_recorded", [True, False])
async def test_repr_of_run_shows_no_secret(tmp_path: Path, is_recorded: bool) -> None:
    runtime = Runtime([login, fail], journal=tmp_path / "journal.db" if is_recorded else None)
    handle = runtime.start(PLAN, secrets={"token": TOKEN}, run_id="r")
    events = [event async for event in handle]
    result = await handle.result()
    assert result.variables["token"] == TOKEN
    assert TOKEN in result.response
    assert any(TOKEN in str(getattr(event, "value", "")) for event in events)
    notebook = result._repr_html_()
    assert "<b>run r: done</b>" in notebook
    for shown in (repr(result), str(result), f"{result}", repr(events), f"{ {'r': result} }", notebook):
        check(shown)
    assert repr(result).startswith("RunResult(run_id='r', status=<RunStatus.DONE: 'done'>, response=")
    long = replace(result, response="<" * 30_000)._repr_html_()
    assert "20,002 more characters" in long
    assert len(long) < 60_000
    assert asdict(result)["variables"]["token"] == TOKEN
    assert pickle.loads(pickle.dumps(result)) == result
    assert replace(result, run_id="s").variables == result.variables


async def test_resumed_run_is_masked(tmp_path: Path) -> None:
    runtime = Runtime([login, fail], journal=tmp_path / "journal.db", approve=["LOGIN"])
    waits = await runtime.run(PLAN, secrets={"token": TOKEN}, run_id="r")
    check(repr(waits))
    assert waits.variables == {"token": TOKEN}
    assert waits.waiting[0].args == {"token": TOKEN}
    check(repr(waits.waiting[0]))
    check(waits._repr_html_())
    again = Runtime([login, fail], journal=tmp_path / "journal.db", approve=["LOGIN"])
    await again.answer("r")
    handle = again.start_resume("r")
    check(repr([event async for event in handle]))
    check(repr(await handle.result()))
    check(repr(await again.resume("r")))
    check(repr(await again.fork("r", 1, new_id="f", effects=True)))


async def test_errors_of_failed_runs_show_no_secret() -> None:
    result = await Runtime([fail]).run(
        "S1: @FAIL ($token) > $f ON_FAIL TERMINATE ($f)", secrets={"token": TOKEN}
    )
    with pytest.raises(RunFailed) as failed:
        result.raise_for_status()
    assert TOKEN not in str(failed.value) + repr(failed.value)
    assert TOKEN in failed.value.result.response


async def test_graph_steps_are_masked() -> None:
    graph = {
        "title": "p",
        "steps": [
            {
                "index": "1",
                "title": "log in",
                "tool": "login",
                "args": {"token": "${token}"},
                "result_variable": "s",
                "depends_on": [],
            }
        ],
    }
    result = await Runtime([login]).run(json.dumps(graph), secrets={"token": TOKEN})
    check(repr(result.steps))
    assert result.steps[0].value["token"] == LOOKS  # type: ignore[index]
