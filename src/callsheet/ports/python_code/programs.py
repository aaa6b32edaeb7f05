"""Whole programs in the interpreter: Python that calls tools as it goes, for what no plan can say.

In: the text of a program with an async function `main`, its inputs, and a function for each tool that it may
call. Out: an `Outcome`, as of pure code. The program has no files, network, environment or clock; all that it
can do is call those functions. Nothing is lowered and nothing resumed: it means what Monty makes of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self, cast

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.pure_code import Place
from callsheet.ir import JSON
from callsheet.ports.python_code.interpreter import (
    CodeLimits,
    LimitReached,
    NotUnderstood,
    Outcome,
    Outputs,
    Raised,
    WorkerDied,
    interpreter_version,
    limit_of,
)

Calling = Callable[[list[JSON], dict[str, JSON]], Awaitable[JSON]]
"""A function that makes a call with these arguments; it raises ToolError for one that gave no result."""
ANSWER: Final = "answer"
"""The name of what `main` returned, in the outcome."""
_PRELUDE: Final = "ToolError = RuntimeError"
_FILE: Final = "<python-input-1>"
_MOST_CALLS: Final = 100_000


class ToolError(RuntimeError):
    """A call gave no result; a program catches it as `ToolError`."""


class CallingProgram:
    """A program in a worker of its own, as an async context manager; entering it reads the program.

    Raises CallsheetError: CFG232 without the interpreter, PYT026 for a program that it cannot read, or whose
    definitions fail.
    """

    def __init__(self, text: str, limits: CodeLimits | None = None) -> None:
        self._text = text
        self._limits = limits or CodeLimits()
        self._pool: Any = None
        self._checkout: Any = None
        self._session: Any = None
        self._printed: Any = None

    async def __aenter__(self) -> Self:
        interpreter_version()
        from pydantic_monty import AsyncMonty, CollectString, MontyError  # noqa: PLC0415 - 20 ms

        self._printed = CollectString(max_bytes=self._limits.printed)
        self._pool = await AsyncMonty(max_processes=1).__aenter__()
        try:
            self._checkout = self._pool.checkout(
                script_name="plan.py",
                limits={
                    "max_feed_duration_secs": self._limits.seconds,
                    "max_memory": self._limits.memory,
                    "max_recursion_depth": self._limits.depth,
                    "max_suspensions": _MOST_CALLS,
                },
                assert_message_annotations=False,
                os_policy={"datetime": "call_host", "sleep": "call_host", "random_start": "call_host"},
            )
            self._session = await self._checkout.__aenter__()
            await self._session.feed_run(_PRELUDE)
            await self._session.feed_run(self._text, print_callback=self._printed)
        except MontyError as error:
            await self._close()
            message = f"the interpreter cannot run this program either: {_said(error)}"
            raise CallsheetError.single("PYT026", message, help="write it in another way") from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._close()

    async def run(self, inputs: Mapping[str, JSON], calls: Mapping[str, Calling]) -> Outcome:
        """Run `main` once. Its answer must be JSON data: tuples are lists, sets and objects are no answer."""
        from pydantic_monty import MontyCrashedError, MontyError  # noqa: PLC0415 - loaded by now

        def external(call: Calling) -> Callable[..., Awaitable[JSON]]:
            async def made(*args: Any, **named: Any) -> JSON:
                try:
                    return await call(cast("list[JSON]", [*args]), cast("dict[str, JSON]", named))
                except ToolError as error:
                    failures.add(str(error))
                    raise

            return made

        failures: set[str] = set()
        functions = {name: external(call) for name, call in calls.items()}
        try:
            value = await self._session.feed_run(
                "await main(**_callsheet_inputs)",
                inputs={"_callsheet_inputs": dict(inputs)},
                external_lookup=functions,
                print_callback=self._printed,
            )
        except MontyCrashedError as error:
            return WorkerDied(f"the process that ran the program ended: {error}")
        except MontyError as error:
            return self._failed(error, failures)
        try:
            answer = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            return NotUnderstood(f"what main returned is no JSON data: {error}", None, "return plain data")
        return Outputs({ANSWER: answer}, self._printed.output)

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return str(self._printed.output)

    def _failed(self, error: Any, failures: set[str]) -> Outcome:
        raised = error.exception()
        message = _said(error)
        place = _place_of(error)
        limit = limit_of(raised, message, self._limits)
        if limit is not None:
            return LimitReached(*limit, place)
        kind = "ToolError" if message in failures else type(raised).__name__
        return Raised(kind, message, (kind,), place, {})

    async def _close(self) -> None:
        session, self._session = self._session, None
        pool, self._pool = self._pool, None
        if session is not None:
            await self._checkout.__aexit__(None, None, None)
        if pool is not None:
            await asyncio.shield(pool.__aexit__(None, None, None))


def _said(error: Any) -> str:
    raised = error.exception()
    return str(raised.args[0]) if len(raised.args) == 1 else str(raised)


def _place_of(error: Any) -> Place | None:
    """The innermost place in the program; definitions are the second input of the session."""
    frames = error.traceback() if hasattr(error, "traceback") else ()
    for frame in reversed(frames):
        if frame.filename == _FILE:
            return Place(frame.line, frame.column)
    return None
