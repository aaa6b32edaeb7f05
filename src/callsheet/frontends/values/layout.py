"""The layout shared by the printers of LTP text and Micro-CLI: metadata, comments and groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.values.printer import placed
from callsheet.ir import Order, Plan, Step

Refusal: TypeAlias = "Callable[[str, str | None], CallsheetError]"
"""Makes the error for a construct that the syntax cannot express; the second argument is the help."""

LINES = re.compile(r"\r\n|\r|\n")
"""The line endings within a comment."""


def about_lines(plan: Plan, refuse: Refusal) -> Iterator[str]:
    """The comment lines with the id, title and goal.

    Raises the error of `refuse` for a dependency graph and for initial variables.
    """
    if plan.order is not Order.TEXT:
        raise refuse("a plan whose steps are ordered by their dependencies", "write it as a JSON DAG plan")
    if plan.variables:
        raise refuse("initial variables", "give them to the run, or set them in a first step")
    for name, text in (("id", plan.id), ("title", plan.title), ("goal", plan.goal)):
        if text is None:
            continue
        if "\r" in text:
            raise refuse(f"a carriage return in the plan's {name}", None)
        yield from (f"# {name}: {line}" if line else f"# {name}:" for line in text.split("\n"))


def comment_lines(comments: Iterable[str], indent: str = "") -> Iterator[str]:
    """Comments, each line with `# ` before it."""
    for comment in comments:
        for line in LINES.split(comment):
            yield f"{indent}# {line}".rstrip()


def step_lines(steps: tuple[Step, ...], write: Callable[[Step, str], str], refuse: Refusal) -> Iterator[str]:
    """The lines of the steps, with their comments and groups; `write` gets a step and its indentation."""
    seen: set[int] = set()
    for group, adjacent in groupby(steps, key=lambda step: step.group):
        members = tuple(adjacent)
        if group is None:
            yield from _written(members, "", write)
            continue
        if group in seen:
            apart = f"a group whose steps are not adjacent (at {members[0].id})"
            raise placed(refuse(apart, "move them next to each other"), members[0])
        seen.add(group)
        yield "@PARALLEL {"
        yield from _written(members, "  ", write)
        yield "}"


def _written(steps: Iterable[Step], indent: str, write: Callable[[Step, str], str]) -> Iterator[str]:
    """The lines of steps with their comments; an error of `write` gets the place of its step."""
    for step in steps:
        yield from comment_lines(step.comments, indent)
        try:
            yield indent + write(step, indent)
        except CallsheetError as error:
            raise placed(error, step) from None
