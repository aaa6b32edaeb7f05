"""Reconstructs the prompt of a model call from the journal: its name and its messages.

In: a call of a model, and the remarks of its answer. Out: the name of the prompt, and its messages. They are
made from the journal, so what is sealed or redacted there is so here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.ir import JSON
from callsheet.machine import CallModel
from callsheet.machine.commands import Awaited
from callsheet.ports.models.prompts import MAX_CHARACTERS, OPERATIONS, PROMPT_VERSION, prompt_for


def prompt_of(command: Awaited, remarks: Sequence[Mapping[str, Any]]) -> tuple[str, JSON]:
    """Returns the name of the prompt ("" if unknown) and its messages.

    The messages are None if this version does not have the prompt any more, or if the journal does not
    contain all of its parts, as for the turns of an agent.
    """
    name = next((str(each.get("text", "")) for each in remarks if each.get("fact") == "prompt"), "")
    if not isinstance(command, CallModel) or command.tool not in OPERATIONS:
        return name, None
    if name != f"{command.tool}/{PROMPT_VERSION}":
        return name, None
    most = min((int(each["kept"]) for each in remarks if "cut" in each), default=MAX_CHARACTERS)
    messages = prompt_for(command.tool, command.inputs, command.args, most).messages
    return name, [dict(message) for message in messages]
