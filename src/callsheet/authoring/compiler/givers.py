"""Tools that give what others need and a goal does not say: an id of whom it names, a list of all it means.

Pure. In: a goal, its parts, what may be called. Out: the parts with such tools beside or before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from callsheet.authoring.compiler.focus import speaks_of_all, wanted_by
from callsheet.authoring.compiler.nearness import Part
from callsheet.authoring.compiler.offers import Offer
from callsheet.authoring.compiler.ranking import scores, words_of

_ID = re.compile(r"[a-z]+(?:_[a-z]+)*_id")
"""Arguments that name one thing among many; what stands before `_id` says of which kind it is."""
_TOKEN = re.compile(r"\b\w{0,40}\d|\b[a-z]{1,40}_\w")
"""What may be an id: a word with a digit in it."""
_GIVES = re.compile(r"\b(?:gives?|returns?|each with)\b", re.IGNORECASE)


_FINDS = re.compile(r"(?:\w+__)?(?:SEARCH|LIST|FIND|QUERY)_")
_A_LIST = re.compile(
    r"\b(?:gives?|returns?|yields?|lists?)\b.{0,20}\b(?:list|paths|rows|names)\b", re.IGNORECASE
)


def finds(name: str, line: str) -> bool:
    """Whether a tool finds things, by its name or what it says that it gives.

    >>> finds("LIST_TRIPS", ""), finds("READ_REVIEWS", "Gives a list of texts"), finds("CANCEL_TRIP", "")
    (True, True, False)
    """
    return _FINDS.match(name) is not None or _A_LIST.search(line) is not None


def with_finders(parts: Sequence[Part], offers: Sequence[Offer]) -> list[Part]:
    """The parts, with what finds things beside each that speaks of all of them and comes near to none.

    It is found by the words of its name: for `assign every open issue` a tool that lists issues.
    """
    found: list[Part] = []
    for part in parts:
        known = [offers[n] for near in (*found, part) for n in near.candidates]
        if part.candidates and speaks_of_all(part.text) and not any(finds(o.name, o.line) for o in known):
            said = set(words_of(part.text)[1:])
            shared = [
                (len(said & set(words_of(offer.name.lower())[1:])), -n)
                for n, offer in enumerate(offers)
                if offer.parameters is not None and finds(offer.name, offer.line)
            ]
            most, number = max(shared, default=(0, 0))
            with_finder = part._replace(candidates=(*part.candidates, -number))
            found.append(with_finder if most else part)
        else:
            found.append(part)
    return found


def with_givers(goal: str, parts: Sequence[Part], offers: Sequence[Offer]) -> list[Part]:
    """The parts, with one before each that needs an id which neither the goal nor an earlier part tells.

    Such a part has the name of the argument for its text.
    """
    if _TOKEN.search(goal):
        return list(parts)
    found: list[Part] = []
    for part in parts:
        needed = _needed(offers[part.candidates[0]]) if part.candidates else ()
        known = [offers[n] for earlier in found for n in earlier.candidates]
        for name in needed:
            if not any(_gives(offer, name) for offer in known):
                giver = _giver(part.text, name, part.candidates[0], offers)
                found += [Part(name, (giver,))] if giver is not None else []
        found.append(part)
    return found


def _needed(offer: Offer) -> Iterator[str]:
    """The ids that a tool must be given."""
    required = cast("list[Any]", (offer.parameters or {}).get("required") or [])
    return (name for name in required if isinstance(name, str) and _ID.fullmatch(name))


def _gives(offer: Offer, name: str) -> bool:
    begins = _GIVES.search(offer.line)
    return (
        begins is not None and re.search(rf"\b{re.escape(name)}\b", offer.line[begins.start() :]) is not None
    )


def _giver(text: str, name: str, needs: int, offers: Sequence[Offer]) -> int | None:
    """The tool nearest to a text that gives an id and does not need it."""
    able = [
        n
        for n, offer in enumerate(offers)
        if n != needs and _gives(offer, name) and name not in _needed(offer)
    ]
    near = scores(wanted_by(text), [offers[n].about for n in able])
    best = max(zip(near, able, strict=True), key=lambda pair: (pair[0], -pair[1]), default=(0.0, 0))
    return best[1] if best[0] > 0 else None
