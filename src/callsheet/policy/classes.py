"""The classes of tools: what a policy assumes of a tool that reads or sends, unless it says otherwise.

In: the entries and classes of a policy, the names of a tool, what is known of its arguments. Out: its
`ToolRule`, or None if nobody has said what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from callsheet.ir.labels import LITERAL
from callsheet.ir.operations import ToolClass, canonical_tool_name
from callsheet.policy.model import Policy, ToolEntry, ToolRule, When

EVERY = "*"
"""In `control`: every argument."""


class ToolFacts(NamedTuple):
    """What is known of a tool from its declaration.

    `does` is the class that was declared. `audience` and `address` are the arguments that name recipients and
    the address that it connects to, None if none does. `deciding` are the arguments that decide what a change
    does: paths, programs, recipients, amounts, permissions; `programs` those of them that hold a program.
    """

    does: ToolClass | None = None
    audience: str | None = None
    address: str | None = None
    deciding: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def pattern_of(name: str) -> str:
    """The canonical form of a pattern of tool names, or of one name.

    >>> pattern_of("github__*"), pattern_of("@send-mail"), pattern_of("mcp:fs/read_*")
    ('GITHUB__*', 'SEND_MAIL', 'FS__READ_*')
    """
    if name.startswith("mcp:"):
        name = "__".join(name.removeprefix("mcp:").split("/", 1))
    return "*".join(map(canonical_tool_name, name.split("*")))


def matching(entries: Iterable[ToolEntry], names: Iterable[str]) -> list[ToolEntry]:
    """The entries for a tool with these canonical names, the most specific first.

    One without `*` comes before all others, then the one with most other characters; else the order is that
    of the policy.

    >>> entries = [ToolEntry(pattern="GITHUB__*"), ToolEntry(pattern="GITHUB__GET_*")]
    >>> [entry.pattern for entry in matching(entries, ["GITHUB__GET_ISSUE"])]
    ['GITHUB__GET_*', 'GITHUB__*']
    """
    known = frozenset(names)
    found = [entry for entry in entries if any(fnmatchcase(name, entry.pattern) for name in known)]
    return sorted(found, key=_generality)


def _generality(entry: ToolEntry) -> tuple[bool, int]:
    pattern = entry.pattern
    return EVERY in pattern, pattern.count(EVERY) - len(pattern)


def rule_of(policy: Policy, names: Iterable[str], facts: ToolFacts | None) -> ToolRule | None:
    """The rule for a tool that no entry of `policy.tools` names; None if it is not described.

    Without `facts`, the worst is assumed of its arguments. A class that only the tool's declaration states
    says that a tool changes nothing, not who sees its arguments: private data for it needs an approval. A
    pattern loosens nothing that was declared: of the two the stricter class counts. The very name of the tool
    in a list or table does.

    >>> reads = ToolEntry(pattern="GET_*", does=ToolClass.READS)
    >>> rule = rule_of(Policy(entries=(reads,)), ["GET_MAIL"], ToolFacts())
    >>> rule.egress, rule.destructive, rule_of(Policy(entries=(reads,)), ["SEND"], ToolFacts())
    (False, False, None)
    """
    found = matching(policy.entries, names)
    stated = _stated(found)
    exact = any(entry.does is stated and EVERY not in entry.pattern for entry in found)
    declared = None if facts is None else facts.does
    does = stated if exact or declared is None else _strictest([declared, stated])
    settings: dict[str, Any] = {} if does is None else dict(policy.classes.get(does, _NOTHING))
    for entry in reversed(found):
        settings |= entry.settings
    if does is None:
        return ToolRule(**settings) if found else None
    fields = _defaults(does, facts, is_stated=does is stated)
    others = next(
        (rule.label for rule in policy.sources if (rule.kind, rule.pattern) == ("tool", EVERY)), None
    )
    if others is not None:
        fields.setdefault("returns", others)
    fields |= {**settings, "does": does}
    return ToolRule(**fields)


def _stated(found: Iterable[ToolEntry]) -> ToolClass | None:
    """The class that entries give a tool: the strictest of the most specific ones."""
    classes = [(_generality(entry), entry.does) for entry in found if entry.does is not None]
    return _strictest([does for generality, does in classes if generality == classes[0][0]])


def _strictest(classes: Iterable[ToolClass | None]) -> ToolClass | None:
    """The class of which a policy assumes the worst; a pattern may match more tools than was meant.

    >>> _strictest([ToolClass.PAYS, None, ToolClass.READS])
    <ToolClass.PAYS: 'pays'>
    """
    return max((each for each in classes if each is not None), key=_ORDER.index, default=None)


_ORDER = [
    ToolClass.COMPUTES, ToolClass.READS, ToolClass.WRITES, ToolClass.SENDS, ToolClass.DELETES, ToolClass.PAYS,
    ToolClass.ADMINISTERS, ToolClass.RUNS,
]  # fmt: skip
_NOTHING: Mapping[str, object] = MappingProxyType({})


def _defaults(does: ToolClass, facts: ToolFacts | None, *, is_stated: bool) -> dict[str, Any]:
    """The fields of the rule for a class."""
    known = facts or ToolFacts()
    asks = When.IF_UNTRUSTED_OR_OUTSIDE
    match does:
        case ToolClass.COMPUTES:
            return {"egress": False, "destructive": False, "idempotent": True, "returns": LITERAL}
        case ToolClass.READS:
            return {
                "egress": facts is None or not is_stated or known.address is not None,
                "audience_arg": known.address,
                "control": known.programs,
                "destructive": False,
                "idempotent": True,
                "approval": asks,
            }
        case ToolClass.WRITES:
            control = (EVERY,) if facts is None else known.deciding
            return {"egress": False, "control": control, "destructive": False, "approval": asks}
        case ToolClass.SENDS:
            control = (EVERY,) if facts is None else known.deciding
            return {
                "audience_arg": known.audience or known.address,
                "control": control,
                "destructive": False,
                "approval": asks,
            }
        case ToolClass.PAYS | ToolClass.ADMINISTERS:
            return {"audience_arg": known.audience, "control": (EVERY,), "approval": When.ALWAYS}
        case ToolClass.RUNS:
            return {"control": (EVERY,), "approval": When.ALWAYS}
        case ToolClass.DELETES:
            return {"egress": False, "control": (EVERY,), "approval": When.ALWAYS}
    assert_never(does)
