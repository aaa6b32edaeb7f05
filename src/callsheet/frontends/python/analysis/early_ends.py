"""Loops over `as_completed` that are left early: a plan has made all their calls before the first round."""

from __future__ import annotations

import ast

from callsheet.frontends.python.source import Nodes, Refused, jumps_out, last_name


def early_ends(nodes: Nodes) -> list[Refused]:
    """The warnings (PYT106) for the loops of a file that a `break` or `return` leaves, at its place.

    >>> found = early_ends(Nodes(ast.parse('''async def main():
    ...     for done in asyncio.as_completed([f(1), f(2)]):
    ...         if await done:
    ...             break''')))
    >>> [(one.code, one.node.lineno) for one in found]
    [('PYT106', 4)]
    """
    return [
        Refused(
            "PYT106",
            end,
            "the loop begins when all calls of as_completed have ended: to leave it here stops none of them",
            "await one call after another, if the later ones need not be made; if the first stops the"
            " others: done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED), and"
            " right behind it for task in pending: task.cancel()",
        )
        for one in nodes.of(ast.For, ast.AsyncFor)
        if _is_as_completed(one.iter)
        for end in [each for each in jumps_out(one.body) if not isinstance(each, ast.Continue)][:1]
    ]


def _is_as_completed(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "as_completed"
