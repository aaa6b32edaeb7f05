"""What a server asks and tells during calls: how often, and which client hears it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from callsheet.ir import JSON
from callsheet.ports.mcp.front import PASSAGE, Front, OpenCall, OpenCalls, Passage


async def test_server_that_keeps_asking_cannot_hold_its_call() -> None:
    asked: list[str] = []

    async def answer(method: str, params: dict[str, JSON]) -> JSON:
        asked.append(method)
        return {}

    async def keep_asking() -> None:
        async with asyncio.timeout(0.2) as scope:
            call = OpenCall("run", answer, scope, 0.2)
            for _ in range(100):
                assert await call.answer("roots/list", {}) == {}
            while True:
                assert await call.answer("roots/list", {}) is None
                await asyncio.sleep(0.01)

    with pytest.raises(TimeoutError):
        await keep_asking()
    assert len(asked) == 100


async def test_log_line_during_single_call_of_run_reaches_its_watcher() -> None:
    got: list[str] = []
    calls = OpenCalls("desk", None)
    with calls.during(OpenCall("run", None, asyncio.timeout(None), 1.0, logs=got.append)):
        await calls.logged({"level": "info", "data": "page 3"})
        await calls.logged({"level": "info", "data": {"page": 4}})
        with calls.during(OpenCall("run", None, asyncio.timeout(None), 1.0, logs=got.append)):
            await calls.logged({"level": "info", "data": "of either"})
    assert got == ["page 3", '{"page": 4}']


@pytest.mark.parametrize(
    ("owners", "is_alone", "heard"),
    [
        ("aa", False, ["a", "a"]),
        ("ab", False, []),
        ("ab", True, ["a", "b"]),
        ("", False, []),
        ("", True, ["front"]),
    ],
)
async def test_log_line_reaches_no_other_client(owners: str, is_alone: bool, heard: list[str]) -> None:
    got: list[str] = []
    front = Front(logged=(lambda server, params: got.append("front")) if is_alone else None)
    calls = OpenCalls("desk", front)

    def hear(*sent: Any) -> None:
        pass

    with ExitStack() as stack:
        for owner in owners:

            async def logged(params: dict[str, JSON], owner: str = owner) -> None:
                got.append(owner)

            PASSAGE.set(Passage(hear=hear, refused=hear, logged=logged))
            stack.enter_context(calls.during(OpenCall(owner, None, asyncio.timeout(None), 1.0)))
        await calls.logged({"level": "info", "data": "the milk of ann"})
    assert got == heard
