"""Adds tools that supply what others need: an id, or a list of the things that a goal speaks of.

Pure. In: a goal, its parts, and the offers. Out: the parts, with such tools added to or before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from callsheet.authoring.compiler.goal_parts import mentions_all, wanted_by
from callsheet.authoring.compiler.matching import Part
from callsheet.authoring.compiler.ranking import scores, words_of
from callsheet.authoring.compiler.tool_lines import Offer

_ID = re.compile(r"[a-z]+(?:_[a-z]+)*_id")
"""Arguments that identify one thing; the text before `_id` is its kind."""
_TOKEN = re.compile(r"\b\w{0,40}\d|\b[a-z]{1,40}_\w")
"""What may be an id in a goal: a word with a digit or an underscore."""
_GIVES = re.compile(r"\b(?:gives?|returns?|each with)\b", re.IGNORECASE)


_FINDS = re.compile(r"(?:\w+__)?(?:SEARCH|LIST|FIND|QUERY)_")
_A_LIST = re.compile(
    r"\b(?:gives?|returns?|yields?|lists?)\b.{0,20}\b(?:list|paths|rows|names)\b", re.IGNORECASE
)


def finds(name: str, line: str) -> bool:
    """Whether a tool finds things, by its name or its description of the result.

    >>> finds("LIST_TRIPS", ""), finds("READ_REVIEWS", "Gives a list of strings"), finds("CANCEL_TRIP", "")
    (True, True, False)
    """
    return _FINDS.match(name) is not None or _A_LIST.search(line) is not None


def with_finders(parts: Sequence[Part], offers: Sequence[Offer]) -> list[Part]:
    """The parts, with a finding tool added to each that speaks of all things and has none.

    It is matched by the words of its name: for `assign every open issue` a tool that lists issues.
    """
    parts_found: list[Part] = []
    for part in parts:
        known = [offers[n] for near in (*parts_found, part) for n in near.candidates]
        if part.candidates and mentions_all(part.text) and not any(finds(o.name, o.line) for o in known):
            words = set(words_of(part.text)[1:])
            shared = [
                (len(words & set(words_of(offer.name.lower())[1:])), -n)
                for n, offer in enumerate(offers)
                if offer.parameters is not None and finds(offer.name, offer.line)
            ]
            most, number = max(shared, default=(0, 0))
            with_finder = part._replace(candidates=(*part.candidates, -number))
            parts_found.append(with_finder if most else part)
        else:
            parts_found.append(part)
    return parts_found


def with_givers(goal: str, parts: Sequence[Part], offers: Sequence[Offer]) -> list[Part]:
    """The parts, with one inserted before each that needs an id which nothing before it supplies.

    The text of an inserted part is the name of the argument.
    """
    if _TOKEN.search(goal):
        return list(parts)
    parts_found: list[Part] = []
    for part in parts:
        needed = _needed(offers[part.candidates[0]]) if part.candidates else ()
        known = [offers[n] for earlier in parts_found for n in earlier.candidates]
        for name in needed:
            if not any(_gives(offer, name) for offer in known):
                giver = _giver(part.text, name, part.candidates[0], offers)
                parts_found += [Part(name, (giver,))] if giver is not None else []
        parts_found.append(part)
    return parts_found


def _needed(offer: Offer) -> Iterator[str]:
    """The ids that a tool requires."""
    required = cast("list[Any]", (offer.parameters or {}).get("required") or [])
    return (name for name in required if isinstance(name, str) and _ID.fullmatch(name))


def _gives(offer: Offer, name: str) -> bool:
    begins = _GIVES.search(offer.line)
    return (
        begins is not None and re.search(rf"\b{re.escape(name)}\b", offer.line[begins.start() :]) is not None
    )


def _giver(text: str, name: str, needs: int, offers: Sequence[Offer]) -> int | None:
    """The best match for a text among the tools that give an id and do not require it."""
    able = [
        n
        for n, offer in enumerate(offers)
        if n != needs and _gives(offer, name) and name not in _needed(offer)
    ]
    near = scores(wanted_by(text), [offers[n].about for n in able])
    best = max(zip(near, able, strict=True), key=lambda pair: (pair[0], -pair[1]), default=(0.0, 0))
    return best[1] if best[0] > 0 else None
