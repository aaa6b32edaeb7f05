"""Selects the tools that a model is told about for a goal.

Pure. In: a goal and the available tools. Out: the selection, and a remark on how many were left out.
Deterministic: tools are found by the words of the goal's parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.authoring.compiler.goal_parts import (
    Fields,
    WordIndex,
    mentions_all,
    parts_of,
    scores,
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
_CANDIDATES_OF_ALL = 6
"""The most tools for a part, and for a single part that speaks of many things and may need several."""


class Part(NamedTuple):
    """A part of a goal, and the indexes of its candidates, the best first."""

    text: str
    candidates: tuple[int, ...]


def near_parts(goal: str, documents: Sequence[Fields], is_tool: Sequence[bool]) -> list[Part]:
    """The parts of a goal with their candidates; a document that is not a tool is an operation."""
    texts = parts_of(goal)
    most = _CANDIDATES_OF_ALL if len(texts) == 1 and mentions_all(goal) else _CANDIDATES
    verbs = [words_of(document[0][0])[:1] if document else [] for document in documents]
    parts: list[Part] = []
    for text in texts:
        near, begins = _Match.to(text, documents), words_of(text)[:1]
        parts.append(Part(text, _best_first(near, is_tool, most, [verb == begins for verb in verbs])))
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
_ALL_TOLD = 4
"""Up to this many tools are listed without a selection."""
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
    fills: bool = False,
) -> Catalogue:
    """The tools and operations that a model is told about for a goal.

    These are the tools that the goal names and those that match its parts, in the order of the parts, within
    both limits. If few parts have a match, or with `fills`, further tools are added up to the limits. If all
    tools are listed, they keep their own order, so that the text is the same for every goal. Tools that the
    goal names are included whatever the limits. Operations are included if the goal mentions what they do.

    >>> specs = [ToolSpec("READ_FILE", "read_file", "Read a file."), ToolSpec("SEND", "send", "Mail a text.")]
    >>> chosen = catalogue_for("Read the file", specs, max_tools=1)
    >>> chosen.text, chosen.remarks
    ('@read_file () Read a file', (Cut(what='the tools in the prompt', kept=1, whole=2, unit='tools'),))
    """
    offered = [offer for spec in tools if (offer := offer_of(spec)) is not None]
    candidates = [*offered, *OPERATIONS]
    near = near_parts(goal, [c.about for c in candidates], [c.parameters is not None for c in candidates])
    order = _in_order_of_parts(goal, near, candidates, fills=fills)
    parts = tuple((part.text, tuple(candidates[n].name for n in part.candidates)) for part in near)
    operations = tuple(OPERATIONS[n - len(offered)] for n in order if n >= len(offered))
    is_small = len(offered) <= max_tools and sum(offer.tokens for offer in offered) <= max_tokens
    if is_small and (fills or len(offered) <= _ALL_TOLD):
        return Catalogue((*offered, *operations), parts=parts)
    chosen = _select(goal, candidates, [n for n in order if n < len(offered)], max_tools, max_tokens)
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
    """The indexes of the selected tools, in the order of the goal's parts."""
    named = {n for n in order if is_named(candidates[n].name, goal)}
    room = max_tokens - sum(candidates[n].tokens for n in named)
    chosen = set(named)
    for n in order:
        if n not in chosen and len(chosen) < max_tools and candidates[n].tokens <= room:
            chosen.add(n)
            room -= candidates[n].tokens
    return [n for n in order if n in chosen]


def _in_order_of_parts(
    goal: str, parts: Sequence[Part], candidates: Sequence[Offer], *, fills: bool
) -> list[int]:
    """The candidates' indexes: the best of each part in the order of the parts, then the next best.

    After them come the candidates that match the goal as a whole and, with `fills`, all other tools.
    """
    most = max((len(part.candidates) for part in parts), default=0)
    chosen = [part.candidates[rank] for rank in range(most) for part in parts if rank < len(part.candidates)]
    if not fills and 2 * sum(bool(part.candidates) for part in parts) > len(parts):
        return list(dict.fromkeys(chosen))
    whole = scores(wanted_by(goal), [candidate.about for candidate in candidates])
    rest = sorted(range(len(candidates)), key=lambda n: (-whole[n], n))
    return list(dict.fromkeys([*chosen, *(n for n in rest if candidates[n].parameters is not None)]))


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
