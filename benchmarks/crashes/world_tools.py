"""The tools of the plan `world.ltp`: every call leaves a line in a log that survives any crash.

The log is in the folder named by $CALLSHEET_CRASH_WORLD; a line has the call's key and the tool. The result
of a tool depends only on its arguments and its key, never on the log.
"""

import os
import time
from pathlib import Path

import callsheet
from callsheet import CallContext


def _leave(tool: str, context: CallContext) -> None:
    """Write a line, synced before the tool returns, with a pause before and after."""
    pause = float(os.environ.get("CALLSHEET_CRASH_PAUSE", "0"))
    time.sleep(pause)
    log = os.open(
        Path(os.environ["CALLSHEET_CRASH_WORLD"]) / "calls.log",
        os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
        0o600,
    )
    try:
        os.write(log, f"{context.key} {tool}\n".encode())
        os.fsync(log)
    finally:
        os.close(log)
    time.sleep(pause)


@callsheet.tool(effect="read")
def look(n: int, context: CallContext) -> int:
    """Twice the number."""
    _leave("LOOK", context)
    return 2 * n


@callsheet.tool(effect="unsafe")
def append(text: str, context: CallContext) -> str:
    """The text with an exclamation mark."""
    _leave("APPEND", context)
    return f"{text}!"


@callsheet.tool(effect="idempotent")
def put(name: str, value: int, context: CallContext) -> str:
    """The name and the value as a text."""
    _leave("PUT", context)
    return f"{name} is {value}"


@callsheet.tool(effect="read")
def flaky(n: int, context: CallContext) -> int:
    """The number, at the second attempt."""
    _leave("FLAKY", context)
    return _second_time(n, context)


@callsheet.tool(effect="unsafe")
def flaky_append(n: int, context: CallContext) -> int:
    """The number, at the second attempt; each attempt is a write."""
    _leave("FLAKY_APPEND", context)
    return _second_time(n, context)


@callsheet.tool(effect="read")
def fail(text: str, context: CallContext) -> str:
    """Nothing: it always fails."""
    _leave("FAIL", context)
    raise ValueError(text)


@callsheet.tool(effect="pure", inline=True)
def total(numbers: list[int]) -> int:
    """The sum of the numbers."""
    return sum(numbers)


def _second_time(n: int, context: CallContext) -> int:
    if context.key.endswith(".1"):
        raise ValueError("not at the first attempt")
    return n
