"""The tools that a model is told for a goal, and a choice where there are many.

Pure. In: a goal and what may be called. Out: what is told, and a remark on how much was left out. The
same goal and tools give the same choice: a tool is found by the words of a part of the goal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from callsheet.authoring.compiler.focus import parts_of, wanted_by
from callsheet.authoring.compiler.offers import OPERATIONS, Offer, offer_of
from callsheet.authoring.compiler.ranking import scores
from callsheet.machine import Cut, Remark
from callsheet.ports.tools import ToolSpec

FEW_TOOLS = 10
"""How many tools a small model is told at most: it chooses worse among more."""
_ALL_TOLD = 4
"""So many tools are told without a choice."""
MAX_TOKENS = 2_000
"""Tokens of all lines together, by the estimate."""
_NEAR_ENOUGH = 0.25
"""What share of the best score of a part makes another candidate for it."""
_CANDIDATES = 4
"""Tools for one part of a goal."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is told: tools and then operations, and how much was left out.

    `fits` says that a part of the goal has found a tool or an operation.
    """

    offers: tuple[Offer, ...]
    remarks: tuple[Remark, ...] = ()
    fits: bool = False

    @property
    def text(self) -> str:
        """The lines."""
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
    """What a model is told for a goal.

    Those tools that the goal names, and those nearest to its parts, in the order of the parts, up to both
    bounds; where few parts find one, or with `fills`, further ones up to the bounds. Where all are to be
    told they stand in their own order, so that the text is the same for every goal. What the goal names is
    told whatever the bounds say. Operations are told where the goal speaks of what they do.

    >>> specs = [ToolSpec("READ_FILE", "read_file", "Read a file."), ToolSpec("SEND", "send", "Mail a text.")]
    >>> chosen = catalogue_for("Read the file", specs, max_tools=1)
    >>> chosen.text, chosen.remarks
    ('@read_file () Read a file', (Cut(what='the tools in the prompt', kept=1, whole=2, unit='tools'),))
    """
    offered = [offer for spec in tools if (offer := offer_of(spec)) is not None]
    candidates = [*offered, *OPERATIONS]
    order, fits = _in_order_of_parts(goal, candidates, fills=fills)
    operations = tuple(OPERATIONS[n - len(offered)] for n in order if n >= len(offered))
    is_small = len(offered) <= max_tools and sum(offer.tokens for offer in offered) <= max_tokens
    if is_small and (fills or len(offered) <= _ALL_TOLD):
        return Catalogue((*offered, *operations), fits=fits)
    kept = _kept(goal, candidates, [n for n in order if n < len(offered)], max_tools, max_tokens)
    if len(kept) == len(offered):
        return Catalogue((*offered, *operations), fits=fits)
    remark = Cut("the tools in the prompt", len(kept), len(offered), "tools")
    return Catalogue((*(candidates[n] for n in kept), *operations), (remark,), fits)


def is_named(tool: str, goal: str) -> bool:
    """Whether a goal names a tool: its name as it is, or with blanks or hyphens in it.

    >>> is_named("GIT_LOG", "use git-log"), is_named("GIT_LOG", "the git logs"), is_named("FIND", "Find it")
    (True, False, False)
    """
    words = [re.escape(word) for word in tool.split("_") if word]
    name = "[_ -]+".join(words) if len(words) > 1 else f"@{re.escape(tool)}"
    return re.search(rf"(?<!\w){name}(?!\w)", goal, re.IGNORECASE) is not None


def _kept(
    goal: str, candidates: Sequence[Offer], order: Sequence[int], max_tools: int, max_tokens: int
) -> list[int]:
    """The numbers of the tools that are told, in the order of the goal's parts."""
    named = {n for n in order if is_named(candidates[n].name, goal)}
    room = max_tokens - sum(candidates[n].tokens for n in named)
    kept = set(named)
    for n in order:
        if n not in kept and len(kept) < max_tools and candidates[n].tokens <= room:
            kept.add(n)
            room -= candidates[n].tokens
    return [n for n in order if n in kept]


def _in_order_of_parts(goal: str, candidates: Sequence[Offer], *, fills: bool) -> tuple[list[int], bool]:
    """The numbers of the candidates: the best for each part in the order of the parts, then the next best.

    Behind them stand those that the goal as a whole is near to, and with `fills` all other tools. And
    whether any part has found one.
    """
    documents = [candidate.about for candidate in candidates]
    is_tool = [candidate.parameters is not None for candidate in candidates]
    parts = [_best_first(scores(wanted_by(part), documents), is_tool) for part in parts_of(goal)]
    chosen = [part[rank] for rank in range(_CANDIDATES + 1) for part in parts if rank < len(part)]
    if not fills and 2 * sum(map(bool, parts)) > len(parts):
        return list(dict.fromkeys(chosen)), bool(chosen)
    whole = scores(wanted_by(goal), documents)
    rest = sorted(range(len(candidates)), key=lambda n: (-whole[n], n))
    return list(dict.fromkeys([*chosen, *(n for n in rest if is_tool[n])])), bool(chosen)


def _best_first(near: Sequence[float], is_tool: Sequence[bool]) -> list[int]:
    """The candidates for one part: tools that are near enough to the best one, and the best operation.

    An operation works on what a tool gives, so it takes no tool's place.
    """
    best = max(near, default=0.0)
    best_tool = max((score for score, tool in zip(near, is_tool, strict=True) if tool), default=0.0)
    found = sorted((-score, n) for n, score in enumerate(near) if score > 0)
    tools = [n for score, n in found if is_tool[n] and -score >= _NEAR_ENOUGH * best_tool][:_CANDIDATES]
    operations = [n for score, n in found if not is_tool[n] and -score >= _NEAR_ENOUGH * best][:1]
    return sorted((*tools, *operations), key=lambda n: (-near[n], n))
