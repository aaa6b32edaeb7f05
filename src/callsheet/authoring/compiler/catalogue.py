"""Selects the tools that a model is told about for a goal.

Pure. In: a goal and the available tools. Out: the selection, and a remark on how many were left out.
Deterministic: tools are found by the words of the goal's parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from callsheet.authoring.compiler.goal_parts import wanted_by
from callsheet.authoring.compiler.matching import Part, near_parts
from callsheet.authoring.compiler.prerequisites import with_finders, with_givers
from callsheet.authoring.compiler.ranking import scores
from callsheet.authoring.compiler.tool_lines import OPERATIONS, Offer, offer_of
from callsheet.machine import Cut, Remark
from callsheet.ports.tools import ToolSpec

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
    near = with_givers(goal, with_finders(near, candidates), candidates)
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
