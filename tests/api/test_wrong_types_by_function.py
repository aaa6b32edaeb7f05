"""The functions of the public modules say which argument has a wrong type."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet import CallContext, Limits, compat, lctl, planning

FUNCTIONS: list[Callable[..., Any]] = [
    *(one for name in lctl.__all__ if inspect.isfunction(one := getattr(lctl, name))),
    compat.plan_to_mermaid,
    compat.validate_plan,
    compat.verify_plan,
    planning.compute_batches,
    planning.handle_plan_tool,
    Limits.from_json,
]


def completed(outcome: object) -> None:
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)


@pytest.mark.parametrize("given", [7, Path("plan.ltp"), [1]], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_wrong_type_is_named_by_function(function: Callable[..., Any], given: object) -> None:
    if function is lctl.band_of and given == 7:
        return  # a number, if a large one
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    with pytest.raises(TypeError, match=r"must be .*, not (int|PosixPath|list)$"):
        completed(function(*[given] * len(needed)))


def test_none_as_text_is_named() -> None:
    with pytest.raises(TypeError, match="text must be a text or its bytes, not NoneType"):
        lctl.parse(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("half",), "done must be a number, not str"),
        ((None,), "done must be a number, not NoneType"),
        ((1, "2"), "total must be a number or None, not str"),
        ((1, 2, 3), "message must be a text, not int"),
    ],
)
def test_wrong_type_in_progress_is_named(given: tuple[Any, ...], named: str) -> None:
    with pytest.raises(TypeError, match=named):
        CallContext("run", "S1.0.1").report_progress(*given)
