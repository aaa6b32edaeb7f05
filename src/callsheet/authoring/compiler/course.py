"""Predicts the course of a plan: which tools it will call, in the order of the goal's parts.

Pure. In: the parts of a goal with their candidates, and the descriptions of tools. Out: legs, or none if
the words are not clear enough. It is only a heuristic on words, so a deviation is a reason to ask once
more, not to refuse a plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from callsheet.authoring.compiler.catalogue import finds
from callsheet.authoring.compiler.goal_parts import mentions_all
from callsheet.frontends.export import CourseStep
from callsheet.ir import Plan

_CONDITION = re.compile(
    r"(?:only\s+)?(?:if|unless|otherwise|when|should|in case|whether|provided)\b"
    r"|(?:re)?tr(?:y|ying)\b|retry|stop\b|end\b|give up\b|giving up\b|terminate\b|abort\b",
    re.IGNORECASE,
)
"""How a part begins that states a condition or what to do after a failure."""
_SAYS = re.compile(r"(?:answer|respond|reply with|say|tell|report to|let (?:me|us))\b", re.IGNORECASE)
_UNCLEAR = re.compile(
    r"(?:how|what|which|who|where|of|to|in|on|at|with|from|for|by|as|the|an?|its|their|his|her|my|both|also)\b",
    re.IGNORECASE,
)
"""How a part begins that belongs to another one, or asks for what another one looks up."""
_FEWEST, _LONGEST = 2, 8
"""The fewest and most legs of a course; a single part may take any number of steps."""

Parts = Sequence[tuple[str, Sequence[str]]]
"""The parts of a goal, each with the canonical names of its candidates, the best first."""


def course_of(parts: Parts, lines: Mapping[str, str]) -> tuple[CourseStep, ...]:
    """The expected legs for a goal; none if a part is not understood.

    `lines` are the prompt's lines of the tools. A part that speaks of each of several things takes two legs
    if its candidates include a tool that finds them and one that acts on each.

    >>> said = {"CANCEL_TRIP": "Cancel a trip", "LIST_TRIPS": "Gives a list of trips"}
    >>> [(*leg.tools, leg.is_each) for leg in course_of([("Cancel all trips", [*said])], said)]
    [('LIST_TRIPS', False), ('CANCEL_TRIP', True)]
    """
    legs: list[CourseStep] = []
    spoken = sum(" " in text for text, _ in parts)
    for text, names in parts:
        if _CONDITION.match(text) and (legs or not names):
            if legs:  # the condition may refer to what the previous part looks up
                legs[-1] = legs[-1]._replace(tools=legs[-1].tools | frozenset(names))
            continue
        if not names:
            if _SAYS.match(text) is None:
                return ()
            continue
        if spoken > 1 and _UNCLEAR.match(text):
            return ()
        legs_found = _legs(text, names, lines, is_found=bool(legs))
        if legs and legs[-1].tools & legs_found[0].tools:  # one call may serve both
            return ()
        legs += legs_found
    return tuple(legs) if _FEWEST <= len(legs) <= _LONGEST else ()


def keeps_to(plan: Plan, course: Sequence[CourseStep]) -> bool:
    """Whether a plan makes exactly the calls of a course, in its order."""
    calls = [(step.call.tool, step.foreach is not None) for step in plan.steps if step.call is not None]
    return len(calls) == len(course) and all(
        tool in leg.tools and (is_each or not leg.is_each)
        for (tool, is_each), leg in zip(calls, course, strict=True)
    )


def course_text(course: Sequence[CourseStep]) -> str:
    """A course as text for a model.

    >>> course_text((CourseStep(frozenset({"LIST_TRIPS"})), CourseStep(frozenset({"CANCEL_TRIP"}), True)))
    '@list_trips, then @cancel_trip for each $x'
    """
    return ", then ".join(
        " or ".join(f"@{name.lower()}" for name in sorted(leg.tools))
        + (" for each $x" if leg.is_each else "")
        for leg in course
    )


def _legs(text: str, names: Sequence[str], lines: Mapping[str, str], *, is_found: bool) -> list[CourseStep]:
    """The legs of one part; `is_found` says whether an earlier part may have found what it refers to."""
    if not mentions_all(text):
        return [CourseStep(frozenset(names))]
    finders = [name for name in names if finds(name, lines.get(name, ""))]
    doers = [name for name in names if name not in finders]
    if not doers:
        return [CourseStep(frozenset(finders))]
    each = CourseStep(frozenset(doers), is_each=True)
    if is_found or not finders:
        return [each if is_found else CourseStep(frozenset(names))]
    return [CourseStep(frozenset(finders)), each] if names[0] in doers else [CourseStep(frozenset(finders))]
