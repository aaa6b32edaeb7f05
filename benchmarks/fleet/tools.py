"""Tools that write a line to a log for every call, before they return."""

import os
import time

from callsheet.ports.python_tools import tool

_PAUSE = float(os.environ.get("FLEET_PAUSE", "0.5"))


def _log(line: str) -> None:
    log = os.open(os.environ["FLEET_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(log, f"{line}\n".encode())
    finally:
        os.close(log)


@tool(effect="read")
def look(run: str, item: int) -> int:
    """Reads something; may be repeated."""
    _log(f"look {run} {item}")
    time.sleep(_PAUSE)
    return item * 2


@tool
def write(run: str, item: int) -> str:
    """Changes something; must not be repeated without a decision."""
    _log(f"write {run} {item}")
    time.sleep(_PAUSE)
    return f"{run}:{item}"


@tool
def bulk(run: str, size: int) -> str:
    """Returns a text of this many bytes; must not be repeated without a decision."""
    _log(f"bulk {run} {size}")
    return "x" * size
