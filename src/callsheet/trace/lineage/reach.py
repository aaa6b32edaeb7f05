"""Finds the calls that data has reached.

In: a lineage and the nodes of a forward slice. Out: the calls, with the effects of their tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callsheet.ir import Effect
from callsheet.machine import CallModel, CallTool, RunAgent
from callsheet.trace.lineage.lineage import Lineage, Visit
from callsheet.trace.lineage.reads import Role
from callsheet.trace.lineage.slices import Node, touched


class Reached(NamedTuple):
    """A call that data has reached in the role `role`, for an argument in `argument`."""

    key: str
    tool: str
    effect: Effect
    visit: Visit
    role: Role
    argument: str


def reached_by(lineage: Lineage, nodes: Iterable[Node]) -> list[Reached]:
    """The calls that any of these nodes has reached, in the order in which they were made."""
    by_key: dict[str, Reached] = {}
    for node in nodes:
        for key, visit, role, argument in _touched_calls(lineage, node):
            tool = tool_of(lineage, key)
            known = by_key.get(key)
            if tool and (known is None or (known.role, role) == (Role.SOURCE, Role.ARGUMENT)):
                effect = effect_of(lineage, visit, key, tool)
                by_key[key] = Reached(key, tool, effect, visit, role, argument)
    order = {key: n for n, key in enumerate(lineage.commands)}
    return sorted(by_key.values(), key=lambda reached: order[reached.key])


def _touched_calls(lineage: Lineage, node: Node) -> Iterator[tuple[str, Visit, Role, str]]:
    """The key of each command of a visit that read the node, with the visit, the role and the argument."""
    for number in dict.fromkeys(lineage.readers.get(node.write, ())):
        visit = lineage.visits[number]
        for role, argument, item in touched(lineage, visit, node):
            keys = lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item)
            yield from ((key, visit, role, argument) for key in keys)


def tool_of(lineage: Lineage, key: str) -> str:
    """The tool of a call; "" for a wait, a question or a compilation."""
    command = lineage.commands.get(key)
    return command.tool if isinstance(command, CallTool | CallModel | RunAgent) else ""


def effect_of(lineage: Lineage, visit: Visit, key: str, tool: str) -> Effect:
    """The effect of a call."""
    code = lineage.code(visit)
    if "/t" in key and code.loop is not None and tool in code.loop.tools:
        return code.loop.tools[tool].effect
    return code.effect
