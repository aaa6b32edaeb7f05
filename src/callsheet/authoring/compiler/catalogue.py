"""Selects the tools that a model is told about for a goal.

Pure. In: a goal and the available tools. Out: the selection, and a remark on how many were left out.
Deterministic: tools are found by the words of the goal, operations by those of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.authoring.compiler.goal_parts import (
    Fields,
    WordIndex,
    parts_of,
    wanted_by,
    words_of,
    worths,
)
from callsheet.authoring.compiler.tool_lines import OPERATIONS, Offer, offer_of
from callsheet.machine import Cut, Remark
from callsheet.ports.tools import ToolSpec

_NEAR_ENOUGH = 0.5
"""The share of a part's best score that makes another tool a candidate."""
_CANDIDATES = 4
"""The most tools for a part."""


class Part(NamedTuple):
    """A part of a goal, and the indexes of its candidates, the best first."""

    text: str
    candidates: tuple[int, ...]


def near_parts(goal: str, documents: Sequence[Fields], is_tool: Sequence[bool]) -> list[Part]:
    """The parts of a goal with their candidates; a document that is not a tool is an operation."""
    texts = parts_of(goal)
    verbs = [words_of(document[0][0])[:1] if document else [] for document in documents]
    parts: list[Part] = []
    for text in texts:
        near, begins = _Match.to(text, documents), words_of(text)[:1]
        parts.append(Part(text, _best_first(near, is_tool, _CANDIDATES, [verb == begins for verb in verbs])))
    return parts


class _Match(NamedTuple):
    """The score of each candidate for a part of a goal, and the words that matched.

    Word 0 is the part's first word, which mostly says what to do.
    """

    scores: list[float]
    words: list[frozenset[int]]

    @classmethod
    def to(cls, part: str, documents: Sequence[Fields]) -> _Match:
        worths_by_word = worths(wanted_by(part), documents)
        words = [frozenset(n for n, worth in enumerate(each) if worth > 0) for each in worths_by_word]
        return cls([sum(each) for each in worths_by_word], words)


def _best_first(
    near: _Match, is_tool: Sequence[bool], most: int, begins_so: Sequence[bool]
) -> tuple[int, ...]:
    """The candidates for one part: tools with scores close to the best one, and the best operation.

    An operation works on the result of a tool, so it does not replace one. It is dropped if it matches only
    the part's first word and the name of a tool begins with that word: `text her` means `text_driver`.
    """
    best = max(near.scores, default=0.0)
    by_score = sorted((-score, n) for n, score in enumerate(near.scores) if score > 0)
    tools = [(-score, n) for score, n in by_score if is_tool[n]]
    close = [n for score, n in tools if score >= _NEAR_ENOUGH * tools[0][0]]
    operations = [n for score, n in by_score if not is_tool[n] and -score >= _NEAR_ENOUGH * best][:1]
    if any(begins_so[n] for n in close):
        operations = [n for n in operations if near.words[n] != frozenset({0})]
    return tuple(sorted((*close[:most], *operations), key=lambda n: (-near.scores[n], n)))


FEW_TOOLS = 10
"""The most tools for a small model: it chooses worse among more."""
MAX_TOKENS = 2_000
"""The most tokens of all lines together, estimated."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The selected tools, then operations, and remarks on what was left out.

    `parts` are the parts of the goal, each with the canonical names of its candidates, the best first.
    """

    offers: tuple[Offer, ...]
    remarks: tuple[Remark, ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether any part of the goal has a candidate."""
        return any(names for _, names in self.parts)

    @property
    def text(self) -> str:
        """The lines of the prompt."""
        return "\n".join(offer.line for offer in self.offers)

    @property
    def operations(self) -> frozenset[str]:
        """The canonical names of the operations among them."""
        return frozenset(offer.name for offer in self.offers if offer.parameters is None)


def catalogue_for(
    goal: str,
    tools: Iterable[ToolSpec],
    *,
    max_tools: int = FEW_TOOLS,
    max_tokens: int = MAX_TOKENS,
) -> Catalogue:
    """The tools and operations that a model is told about for a goal.

    These are the tools that the goal names, whatever the limits, and within them those that fit the goal best
    as a whole. If all are listed, they keep their own order, so that the text is the same for every goal.
    Operations are included if the goal mentions what they do.

    >>> specs = [ToolSpec("READ_FILE", "read_file", "Read a file."), ToolSpec("SEND", "send", "Mail a text.")]
    >>> chosen = catalogue_for("Read the file", specs, max_tools=1)
    >>> chosen.text, chosen.remarks
    ('@read_file () Read a file', (Cut(what='the tools in the prompt', kept=1, whole=2, unit='tools'),))
    """
    specs = [(spec, offer) for spec in tools if (offer := offer_of(spec)) is not None]
    offered = [offer for _, offer in specs]
    candidates = [*offered, *OPERATIONS]
    near = near_parts(goal, [c.about for c in candidates], [c.parameters is not None for c in candidates])
    parts = tuple((part.text, tuple(candidates[n].name for n in part.candidates)) for part in near)
    ranks = max((len(part.candidates) for part in near), default=0)
    by_rank = dict.fromkeys(
        p.candidates[rank] for rank in range(ranks) for p in near if rank < len(p.candidates)
    )
    operations = tuple(candidates[n] for n in by_rank if n >= len(offered))
    if len(offered) <= max_tools and sum(offer.tokens for offer in offered) <= max_tokens:
        return Catalogue((*offered, *operations), parts=parts)
    places = {id(spec): n for n, (spec, _) in enumerate(specs)}
    order = [places[id(spec)] for spec in by_fit(goal, [spec for spec, _ in specs])]
    chosen = _select(goal, candidates, order, max_tools, max_tokens)
    if len(chosen) == len(offered):
        return Catalogue((*offered, *operations), parts=parts)
    remark = Cut("the tools in the prompt", len(chosen), len(offered), "tools")
    return Catalogue((*(candidates[n] for n in chosen), *operations), (remark,), parts)


def is_named(tool: str, goal: str) -> bool:
    """Whether a goal names a tool: by its name as it is, or with blanks or hyphens for underscores.

    >>> is_named("GIT_LOG", "use git-log"), is_named("GIT_LOG", "the git logs"), is_named("FIND", "Find it")
    (True, False, False)
    """
    words = [re.escape(word) for word in tool.split("_") if word]
    name = "[_ -]+".join(words) if len(words) > 1 else f"@{re.escape(tool)}"
    return re.search(rf"(?<!\w){name}(?!\w)", goal, re.IGNORECASE) is not None


def _select(
    goal: str, candidates: Sequence[Offer], order: Sequence[int], max_tools: int, max_tokens: int
) -> list[int]:
    """The indexes of the selected tools, in this order."""
    named = {n for n in order if is_named(candidates[n].name, goal)}
    room = max_tokens - sum(candidates[n].tokens for n in named)
    chosen = set(named)
    for n in order:
        if n not in chosen and len(chosen) < max_tools and candidates[n].tokens <= room:
            chosen.add(n)
            room -= candidates[n].tokens
    return [n for n in order if n in chosen]


def by_fit(goal: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools by how well they fit the whole goal (BM25), those that the goal names before all others.

    The names and arguments of the best count a little as well, so that the tools that work on the same things
    come next: a goal names what is to be changed, and seldom says by what it is looked up.
    """
    index = WordIndex(
        [
            (
                (spec.name.lower(), 2.0),
                (spec.description[:2_000], 1.0),
                (" ".join(spec.parameter_names), 0.5),
            )
            for spec in tools
        ]
    )

    def worth_of(words: Iterable[str]) -> list[float]:
        return [sum(each) for each in index.worths([{word: 1.0} for word in words])]

    wanted = dict.fromkeys(words_of(goal))
    worth = worth_of(wanted)
    best = [n for n in sorted(range(len(tools)), key=lambda n: -worth[n])[:_BEST] if worth[n] > 0]
    related = dict.fromkeys(
        word for n in best for word in words_of(" ".join((tools[n].name.lower(), *tools[n].parameter_names)))
    )
    near = worth_of(word for word in related if word not in wanted)
    named = [is_named(spec.name, goal) for spec in tools]
    order = sorted(range(len(tools)), key=lambda n: (not named[n], -worth[n] - _NEAR * near[n], n))
    return [tools[n] for n in order]


_BEST, _NEAR = 5, 0.1
"""The tools whose names say what else a goal is about, and how much those words count beside its own."""
