"""Precomputes per tool what its calls need: traits, applicable checks, and which argument texts matter to
them.

In: a tool, a prepared policy, the rules. Out: a `Prepared`, computed once for all calls of the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.builtins import ANSWERS, PathUse, Reach, Traits, fold, is_program
from callsheet.policy.programs import PROGRAM
from callsheet.policy.rules import Check, OfLabels, OfTexts, Prepare, Setting
from callsheet.policy.rules.base import PlainTexts
from callsheet.policy.rules.files import FILE_NAMES, keeps_files

Seen: TypeAlias = "frozenset[str]"
"""Folded argument names."""
Clears: TypeAlias = Callable[[str], bool]
"""Whether a call's texts, joined with `BETWEEN`, raise no objection."""


class Prepared(NamedTuple):
    """A tool's traits under the policy, and the rules that may apply to it."""

    tool: str
    traits: Traits | None
    checks: tuple[Check, ...]
    of_clear: tuple[Check, ...]
    """The checks that remain for a call whose texts pass `clears`."""
    deciding: tuple[Check, ...]
    """The checks that may refuse a call or require approval."""
    source: Label | None
    """The label of what the tool adds from outside; None if it depends on the arguments."""
    of_labels: Seen | None
    """The arguments whose text matters to a judgement, for calls with public arguments that are made once.

    Two calls are judged alike if their arguments have the same names and labels, these arguments have the
    same text, their control-flow labels are equal, their texts pass `clears` and are `safe`, their result is
    public (or the tool `adds`), and the policy names neither of their steps. None if the text of any argument
    may matter.
    """
    of_labels_again: Seen | None
    """The same for a call that may be made more than once."""
    of_private: bool
    """Whether the same holds for private arguments that stand apart (see `separation`).

    Then no text but the last may open anything that the next one would be inside (`opens_nothing`), and no
    data may have the label of the plan's own literals.
    """
    prose: frozenset[str] | None
    """For private arguments: all arguments but these (exact names) matter as well; None if no others do."""
    plain: tuple[PlainTexts, ...]
    """For private arguments outside `prose`: by name, predicates that tell which texts do not matter."""
    clears: tuple[Clears, ...]
    """The predicates that the joined texts of all arguments have to pass."""
    safe: tuple[tuple[str, Clears], ...]
    """For calls with untrusted data: arguments (folded names) and predicates that their texts must pass."""
    keeps: bool
    """Whether a call may store some of its arguments: in a file, a note, a fact."""
    adds: bool
    """Whether private data in a result of public arguments comes only from outside.

    It is then the same for every call with these arguments, since nothing is composed of both.
    """

    is_program: bool
    """Whether a plan writes what the tool does with its data, as `builtins.is_program` says."""


_MADE_OF_WORDS = frozenset({"SELECT", "ASK_HUMAN", "AGENT_SOLVE", *ANSWERS})
"""Tools whose result, or what they show, depends on the words of their arguments."""


def prepare(setting: Setting, rules: Iterable[Prepare], tool: str) -> Prepared:
    """Prepare a tool, given by any spelling of its name."""
    name = fold(tool)
    traits = setting.traits(name)
    prepared = [rule(setting, name, traits) for rule in rules]
    applied = [rule for rule in prepared if rule is not None]
    by_labels = [rule for rule in applied if not isinstance(rule, OfTexts)]
    source = _fixed_source(setting, name, traits)
    if source is not None:
        source = source.join(setting.policy.server_labels.get(name, LITERAL))
    of_labels = _seen(setting, by_labels, name, traits, source)
    return Prepared(
        name,
        traits,
        checks=tuple([_check_of(rule) for rule in applied]),
        of_clear=tuple([_check_of(rule) for rule in by_labels]),
        deciding=tuple([_check_of(rule) for rule in applied if not _only_obliges(rule)]),
        source=source,
        of_labels=of_labels,
        of_labels_again=of_labels if all(_holds_again(rule) for rule in by_labels) else None,
        of_private=name not in _MADE_OF_WORDS
        and (traits is None or traits.address is None)
        and all(isinstance(rule, OfLabels) and rule.private for rule in by_labels),
        prose=_prose(by_labels),
        plain=_plain(by_labels),
        clears=tuple([rule.clears for rule in applied if isinstance(rule, OfTexts)]),
        safe=tuple(_safe(by_labels)),
        keeps=traits is not None and _keeps(name, traits),
        adds=traits is not None and not traits.composes and name not in ("SELECT", "ASK_HUMAN"),
        is_program=is_program(name, traits),
    )


def _keeps(tool: str, traits: Traits) -> bool:
    writes = traits.path is not None and traits.path_use is PathUse.WRITE
    noted = traits.reach is Reach.MEMORY or tool == "SET_WM"
    return writes or noted or traits.runs_code or keeps_files(tool, traits)


def _fixed_source(setting: Setting, tool: str, traits: Traits | None) -> Label | None:
    """The label of what the tool adds to every result; None if it depends on the arguments."""
    named = setting.sources.tool(tool)
    if named is not None:
        return named
    if traits is None:
        return setting.sources.undescribed
    asks = tool == "ASK_HUMAN"
    if asks or traits.runs_code or traits.address is not None:
        return None
    if keeps_files(tool, traits) or (traits.path is not None and tool != "EDIT_FILE"):
        return None
    return traits.returns


def _seen(
    setting: Setting,
    rules: list[Check | OfLabels],
    tool: str,
    traits: Traits | None,
    source: Label | None,
) -> Seen | None:
    """The arguments whose text matters to the rules and to the source label; None if any may."""
    if not setting.policy.planner.is_public or (source is None and (traits is None or tool == "ASK_HUMAN")):
        return None
    names: list[str] = []
    for rule in rules:
        if not isinstance(rule, OfLabels):
            return None
        names += rule.sees
    if source is None and traits is not None:
        named = PROGRAM if traits.runs_code else (traits.path, traits.address)
        names += [name for name in named if name is not None]
        names += FILE_NAMES if keeps_files(tool, traits) else ()
    return frozenset(name.casefold() for name in names)


def _check_of(rule: Check | OfLabels | OfTexts) -> Check:
    return rule.check if isinstance(rule, OfLabels | OfTexts) else rule


def _only_obliges(rule: Check | OfLabels | OfTexts) -> bool:
    return isinstance(rule, OfLabels) and rule.only_obliges


def _holds_again(rule: Check | OfLabels) -> bool:
    return isinstance(rule, OfLabels) and rule.again


def _prose(rules: list[Check | OfLabels]) -> frozenset[str] | None:
    names = [rule.prose for rule in rules if isinstance(rule, OfLabels) and rule.prose is not None]
    return names[0].intersection(*names[1:]) if names else None


def _safe(rules: list[Check | OfLabels]) -> Iterator[tuple[str, Clears]]:
    for rule in rules:
        if isinstance(rule, OfLabels) and rule.safe is not None:
            name, is_safe = rule.safe
            yield name.casefold(), is_safe


def _plain(rules: list[Check | OfLabels]) -> tuple[PlainTexts, ...]:
    """The rules' predicates for plain arguments; empty unless every rule concerned has one."""
    counting = [rule for rule in rules if isinstance(rule, OfLabels) and rule.prose is not None]
    tests = [rule.plain for rule in counting if rule.plain is not None]
    return tuple(tests) if len(tests) == len(counting) else ()
