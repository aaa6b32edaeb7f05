"""Tools for inbox.ltp beside this file, a plan of version 1 that tests of cases and recordings use."""

from __future__ import annotations

from callsheet import tool

MESSAGES = [
    {"sender": "ada@example.test", "subject": "URGENT: the build is red"},
    {"sender": "bo@example.test", "subject": "Lunch on Friday?"},
    {"sender": "cy@example.test", "subject": "URGENT: a disk is full"},
]


@tool(effect="read")
async def list_messages(folder: str) -> list[dict[str, str]]:
    """The messages in a folder."""
    return MESSAGES


@tool(effect="read")
async def count_messages(folder: str) -> int:
    """The number of messages in a folder."""
    return len(MESSAGES)


@tool(effect="unsafe")
async def reply(to: str, text: str) -> str:
    """Send an answer; a repeated call sends it twice."""
    return f"answered {to}"


@tool(effect="idempotent")
async def file_messages(folder: str, into: str) -> dict[str, int]:
    """Move all messages of a folder; a repeated call changes nothing."""
    return {"count": len(MESSAGES)}
