"""What a type checker tells a user of the package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

USE = """
import callsheet
from callsheet import CallContext, Limits, Runtime, RunEnded, StepFinished, tool
from callsheet import ToolError, gather, llm, llm_classify, note, now, plan
from typing import assert_type


@tool(effect="read")
def weather(city: str) -> dict[str, int]:
    return {"degrees": len(city)}


@tool(effect="keyed")
async def pay(amount: float, context: CallContext) -> str:
    return context.idempotency_key


async def watch() -> None:
    async with Runtime([weather, pay], journal="runs.db", limits=Limits(max_calls=3)) as runtime:
        async with runtime.start("S1: @WEATHER ($city)", {"city": "Oslo"}) as run:
            async for event in run:
                match event:
                    case StepFinished(step=step):
                        assert_type(step, str)
                    case RunEnded(result=result):
                        assert_type(result, callsheet.RunResult)
                    case _:
                        pass



@plan
async def greet(city: str, names: list[str]) -> str:
    try:
        texts = await gather(*[llm(f"Greet {name}") for name in names])
        assert_type(texts, list[str])
    except ToolError as error:
        note(str(error), now() - now())
    return await llm_classify(city, ["a", "b"])


async def outer() -> None:
    assert_type(await greet("Oslo", []), str)
    assert_type(await Runtime().run(greet, city="Oslo", names=["Ada"]), callsheet.RunResult)


assert_type(weather("Oslo"), dict[str, int])
assert_type(callsheet.run("S1: @WEATHER ($city)", tools=[weather]), callsheet.RunResult)
"""
MISTAKES = """
import callsheet
from callsheet import Rutime

callsheet.rum("S1: @CALC (1)")
callsheet.run("S1: @CALC (1)", tool=[])


@callsheet.plan
async def greet(city: str) -> str:
    return city


greet(town="Oslo")
"""


def test_documented_names_type_check_and_misspelled_ones_are_reported(tmp_path: Path) -> None:
    """In the strict mode of pyright."""
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(pyright, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    found = [
        (Path(one["file"]).name, one.get("rule", ""), one["range"]["start"]["line"] + 1)
        for one in json.loads(done.stdout)["generalDiagnostics"]
    ]
    assert [one for one in found if one[0] != "mistakes.py"] == []
    assert {line for _, rule, line in found if rule.startswith(("reportA", "reportC"))} == {3, 5, 6, 14}
