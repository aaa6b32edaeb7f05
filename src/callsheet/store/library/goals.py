"""Finds stored plans by goal: the plan saved for the same goal, and those with similar goals.

In: a library, a goal, the available tools. Out: matches with a score and the reasons against their use. The
comparison of words and letters is deterministic: no model, no network, no index that could become stale.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.ir.plan import called_names
from callsheet.store.library.library import PlanLibrary
from callsheet.store.library.params import Param
from callsheet.store.library.record import Purpose, StoredPlan

PinOf: TypeAlias = "Callable[[str], str | None]"
"""Returns the hash of the declaration of a tool by name; "" if it has none, None if there is no such tool."""

LEAST_SCORE = 0.35
"""The lowest score of a similar goal."""
_WORDS_SHARE = 0.6
_WORD = re.compile(r"\w+")
_END = ".!?… "


class _Pins(NamedTuple):
    now: PinOf
    orderless: PinOf


@dataclass(frozen=True, slots=True)
class GoalMatch:
    """A stored plan with the wanted goal or a similar one.

    `version` is None if the file of the plan is no stored version. `score` is 1 for the same goal
    and less for others, down to LEAST_SCORE. `differences` are the reasons, for people, why the plan
    cannot be used: changed or missing tools, a text with errors.
    """

    id: str
    version: int | None
    goal: str
    score: float
    is_exact: bool
    params: tuple[Param, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether no reason against running the plan is known."""
        return not self.differences

    @property
    def name(self) -> str:
        """The name of the plan in commands: its id, with the version if there is one."""
        return self.id if self.version is None else f"{self.id}@{self.version}"

    def __str__(self) -> str:
        params = f" ({', '.join(map(str, self.params))})" if self.params else ""
        summary = f"; {'; '.join(self.differences)}" if self.differences else ""
        alike = "the same goal" if self.is_exact else f"{self.score:.0%} alike"
        return f"{self.name}{params}: {self.goal} [{alike}{summary}]"


@dataclass(frozen=True, slots=True)
class GoalMatches:
    """The usable plan with exactly this goal, if there is one, and plans with similar goals."""

    exact: GoalMatch | None
    near: tuple[GoalMatch, ...]


def normalised(goal: str) -> str:
    """A goal normalised for comparison.

    White space, Unicode composition, punctuation at the end and a capital at the beginning are
    normalised. Other capitals and punctuation are significant, as parts of names or amounts.

    >>> normalised("  Summarise   notes.md ! ") == normalised("summarise notes.md")
    True
    >>> normalised("Sum up A.txt") == normalised("Sum up a.txt")
    False
    """
    text = " ".join(unicodedata.normalize("NFC", goal).split()).rstrip(_END)
    return text[:1].lower() + text[1:]


def _no_pin(name: str) -> None:
    return None


def find_by_goal(
    library: PlanLibrary, goal: str, pin_of: PinOf, *, most: int = 3, orderless_pin_of: PinOf = _no_pin
) -> GoalMatches:
    """The stored plan with this goal, and up to `most` plans with similar goals, best first.

    `exact` is a plan that was saved for the same goal, all of whose tools are reachable with unchanged
    declarations; of several the one that was saved last. Plans with this goal but other tools are in
    `near`. `orderless_pin_of` gives the hashes of declarations in their first form, which an older plan was
    saved with. Unreadable plans are ignored. Raises CallsheetError (PLN004) for a folder that cannot be read.
    """
    purposes = library.purposes()
    wanted = normalised(goal)
    same = [plan for plan in purposes if wanted and normalised(plan.goal) == wanted]
    same.sort(key=lambda plan: (-plan.saved, plan.id))
    pins = _Pins(pin_of, orderless_pin_of)
    matched = _matches(library, [(1.0, plan) for plan in same], pins, is_exact=True)
    exact = next((match for match in matched if match.is_usable), None)
    others = [match for match in matched if match is not exact][:most]
    rest = [plan for plan in purposes if plan not in same]
    ranked = sorted(
        zip(similarities(goal, [plan.goal for plan in rest]), rest, strict=True),
        key=lambda pair: (-pair[0], pair[1].id),
    )
    near = [(score, plan) for score, plan in ranked if score >= LEAST_SCORE][: most - len(others)]
    return GoalMatches(exact, (*others, *_matches(library, near, pins, is_exact=False)))


def _matches(
    library: PlanLibrary, purposes: Iterable[tuple[float, Purpose]], pins: _Pins, *, is_exact: bool
) -> list[GoalMatch]:
    """The matches of plans, without those that cannot be loaded, such as plans deleted meanwhile."""
    matches: list[GoalMatch] = []
    for score, purpose in purposes:
        with suppress(CallsheetError):
            matches.append(_match(library.load(purpose.id), purpose, score, pins, is_exact=is_exact))
    return matches


def _match(plan: StoredPlan, purpose: Purpose, score: float, pins: _Pins, *, is_exact: bool) -> GoalMatch:
    version = None if plan.is_edited else plan.version
    match = GoalMatch(plan.id, version, purpose.goal, round(score, 4), is_exact, plan.params)
    steps = plan.result.plan
    if steps is None:
        return replace(match, differences=("its text has errors",))
    unnamed = positional_tools(steps)
    found = tool_differences(called_names(steps), plan.tools, pins.now, pins.orderless, unnamed)
    return replace(match, differences=found)


def positional_tools(plan: Plan) -> set[str]:
    """The names of the tools to which steps of a plan give values without names."""
    return {call.tool for step in plan.steps if (call := step.call) is not None and call.positional}


def tool_differences(
    called: Iterable[str],
    saved: Mapping[str, str | None],
    pin_of: PinOf,
    orderless_pin_of: PinOf = _no_pin,
    unnamed: Collection[str] = (),
) -> tuple[str, ...]:
    """How the available tools differ from those that a plan was saved with, in words.

    A pin in its first form says nothing about the order of a tool's arguments; that counts for the `unnamed`
    tools, which are given values without names.

    >>> pins = {"A": "1", "B": "2", "C": "3"}
    >>> tool_differences(["A", "B", "D"], {"A": "1", "B": "9"}, pins.get)
    ('@B is declared differently now', '@D is not reachable')
    >>> tool_differences(["B"], {"B": "9"}, pins.get, {"B": "9"}.get)
    ()
    """
    differences: list[str] = []
    for name in called:
        now, then = pin_of(name), saved.get(name)
        if now is None:
            differences.append(f"@{name} is not reachable")
        elif then is None:
            differences.append(f"@{name} was not known when the plan was saved")
        elif now != then and (not then or then != orderless_pin_of(name)):
            differences.append(f"@{name} is declared differently now")
        elif now != then and name in unnamed:
            differences.append(
                f"@{name} gets values without names, and the plan was saved without the order of its"
                " arguments, by an earlier version: save it again"
            )
    return tuple(differences)


# ---------------------------------------------------------------- how near two goals are


def similarities(goal: str, others: list[str]) -> list[float]:
    """Similarity of a goal to each of others, 0 to 1: by words, rare ones weighted higher, and trigrams.

    >>> near, far = similarities("sum up the notes", ["Sum up my notes of today", "Delete the branch"])
    >>> near > 0.4 > far
    True
    """
    wanted, texts = _folded(goal), [_folded(other) for other in others]
    weights = _weights([wanted, *texts])
    own_words, own_parts = _vector(wanted, weights), _trigrams(wanted)
    return [
        _WORDS_SHARE * _cosine(own_words, _vector(text, weights))
        + (1 - _WORDS_SHARE) * _overlap(own_parts, _trigrams(text))
        for text in texts
    ]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _weights(texts: list[str]) -> dict[str, float]:
    """The weight of each word: higher the fewer goals have it."""
    counts = Counter(word for text in texts for word in set(_WORD.findall(text)))
    return {word: 1.0 + math.log(len(texts) / count) for word, count in counts.items()}


def _vector(text: str, weights: Mapping[str, float]) -> dict[str, float]:
    counts = Counter(_WORD.findall(text))
    return {word: count * weights[word] for word, count in sorted(counts.items())}


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    product = sum(weight * other.get(word, 0.0) for word, weight in one.items())
    lengths = math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))
    return min(1.0, product / lengths) if lengths else 0.0


def _trigrams(text: str) -> set[str]:
    padded = f"  {' '.join(_WORD.findall(text))} "
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def _overlap(one: set[str], other: set[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0
