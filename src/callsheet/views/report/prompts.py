"""Reconstructs the prompt of a model call from the journal: its name and its messages.

In: a call of a model, and the remarks beside its answer. Out: the name of the prompt, and its messages. They
are made of what the journal has of the call, so what is sealed or blackened there is so here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.ir import JSON
from callsheet.machine import CallModel
from callsheet.machine.commands import Awaited
from callsheet.ports.models.prompts import MAX_CHARACTERS, OPERATIONS, PROMPT_VERSION, prompt_for


def prompt_of(command: Awaited, remarks: Sequence[Mapping[str, Any]]) -> tuple[str, JSON]:
    """The name of the prompt that was answered, "" where none is told, and its messages.

    None instead of messages where this version has the prompt no more, or the journal does not have all that
    stood in it, as for the turns of an agent.
    """
    name = next((str(each.get("text", "")) for each in remarks if each.get("fact") == "prompt"), "")
    if not isinstance(command, CallModel) or command.tool not in OPERATIONS:
        return name, None
    if name != f"{command.tool}/{PROMPT_VERSION}":
        return name, None
    most = min((int(each["kept"]) for each in remarks if "cut" in each), default=MAX_CHARACTERS)
    messages = prompt_for(command.tool, command.inputs, command.args, most).messages
    return name, [dict(message) for message in messages]
