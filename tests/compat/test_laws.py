"""Laws of the documented form over generated plans."""

from __future__ import annotations

import asyncio
import math
from typing import Any
from unittest.mock import patch
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compat.worlds import plan_of
from tests.plans import plan_texts

from callsheet.compat import LTPRuntime, plan_to_mermaid, validate_plan, verify_plan
from callsheet.compat.models import plan_of as rebuilt
from callsheet.frontends.ltp import parse

_ANSWERS: tuple[Any, ...] = (
    {"success": True, "output": [1, "2", None]},
    {"success": True, "output": '{"k": {"0": "$a"}}'},
    {"success": False, "error": "down"},
    {"output": {1: (2, {3})}},
    {"success": True, "output": math.nan},
    {"success": True, "output": object()},
    "no known shape",
    None,
    ValueError("raised"),
)
_sleep = asyncio.sleep


async def _at_once(seconds: float = 0, result: Any = None) -> Any:
    await _sleep(0)
    return result


@given(plan_texts())
@settings(max_examples=60, deadline=None)
def test_unchanged_plan_equals_parsed_plan(text: str) -> None:
    """rebuilt(view(plan)) == plan."""
    assert rebuilt(plan_of(text)) == parse(text).require()


@given(plan_texts(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_execute_returns_result_for_any_callbacks(text: str, seed: int) -> None:
    """execute(plan, …) is a dict with the documented keys, for every plan and every answer."""
    made = 0

    def answer() -> Any:
        nonlocal made
        made += 1
        chosen = _ANSWERS[crc32(f"{seed}.{made}".encode()) % len(_ANSWERS)]
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    async def tool(name: str, args: dict[str, Any], namespace: str) -> Any:
        return answer()

    async def model(messages: list[dict[str, str]]) -> Any:
        answer()
        return 'S1: @READ ($a) > $b\nS2: @RESPOND ("$b")'

    with patch.object(asyncio, "sleep", _at_once):
        result = asyncio.run(LTPRuntime().execute(plan_of(text), tool, model))
    types = {name: type(result[name]) for name in ("response", "steps_executed", "terminated")}
    assert types == {"response": str, "steps_executed": int, "terminated": bool}
    assert isinstance(result["variables"], dict)


@given(plan_texts())
@settings(max_examples=60, deadline=None)
def test_validation_drawing_and_proof_accept_every_plan(text: str) -> None:
    """validate_plan, plan_to_mermaid and verify_plan are total, and give the same twice."""
    plan = plan_of(text)
    assert all(isinstance(message, str) for message in validate_plan(plan))
    assert plan_to_mermaid(plan) == plan_to_mermaid(plan_of(text))
    assert verify_plan(plan) == verify_plan(plan_of(text))
