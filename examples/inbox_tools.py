"""Tools for examples/inbox.ltp: Python functions with typed signatures and declared effects."""

from __future__ import annotations

from callsheet import tool

MESSAGES = [
    {"sender": "ada@example.test", "subject": "URGENT: the build is red"},
    {"sender": "bo@example.test", "subject": "Lunch on Friday?"},
    {"sender": "cy@example.test", "subject": "URGENT: a disk is full"},
]


@tool(effect="read")
async def list_messages(folder: str) -> list[dict[str, str]]:
    """The messages of a folder."""
    return MESSAGES


@tool(effect="read")
async def count_messages(folder: str) -> int:
    """How many messages a folder holds."""
    return len(MESSAGES)


@tool(effect="unsafe")
async def reply(to: str, text: str) -> str:
    """Send an answer; doing it twice would send it twice."""
    return f"answered {to}"


@tool(effect="idempotent")
async def file_messages(folder: str, into: str) -> dict[str, int]:
    """Move all messages of a folder; doing it twice is doing it once."""
    return {"count": len(MESSAGES)}
