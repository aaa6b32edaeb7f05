"""What is known of a tool under a policy, once for all of its calls: traits, rules, and what they look at.

In: a tool, a policy made ready, its rules. Out: the checks of a call, and which of its texts count for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from callsheet.ir.labels import Label
from callsheet.policy.builtins import ANSWERS, PathUse, Reach, Traits, fold
from callsheet.policy.rules import Check, OfLabels, OfTexts, Prepare, Setting
from callsheet.policy.rules.filing import FILE_NAMES, keeps_files
from callsheet.policy.rules.opening import PROGRAM

Seen: TypeAlias = "frozenset[str]"
"""Names of arguments, folded."""
Clears: TypeAlias = Callable[[str], bool]
"""Whether nothing speaks against the texts of a call, all in one with `BETWEEN` between them."""


class Prepared(NamedTuple):
    """What is known of a tool under the policy: its traits and the rules that may have something to say."""

    tool: str
    traits: Traits | None
    checks: tuple[Check, ...]
    of_clear: tuple[Check, ...]
    """Those of a call whose texts pass what the tool `clears`."""
    deciding: tuple[Check, ...]
    """Those that may refuse a call, or ask for a yes."""
    source: Label | None
    """What the world adds to every result, None where it depends on the arguments."""
    of_labels: Seen | None
    """What counts of what public arguments say in a call that is made once: the text of these, by name.

    What is said of a call then holds of every other with arguments of the same names and labels, in
    which these have the same text, behind the same way, if its texts pass what the tool `clears`, what it
    gives is public (or the tool `adds`) and the policy names neither of their steps. None where the text
    of any argument may count.
    """
    of_labels_again: Seen | None
    """The same of a call that may be made more than once."""
    of_private: bool
    """Whether the same is so of private arguments that stand apart, as `stand_apart` has it.

    None of the texts but the last may then open anything in which the next one would stand (`opens_nothing`),
    and no data may be of the label of what the plan says itself.
    """
    prose: frozenset[str] | None
    """The arguments, spelled just so, whose text does not count there; None where no more counts."""
    is_plain: tuple[Callable[[str, str], bool], ...]
    """What tells which arguments beside `prose` say nothing that counts, by name and text."""
    clears: tuple[Clears, ...]
    """What the texts of all arguments in one have to pass beside that."""
    keeps: bool
    """Whether something of what a call is given may be left behind: in a file, a note, a fact."""
    adds: bool
    """Whether private data in a result, where all arguments are public, is what the world adds to it.

    It is then that of every call with these arguments: nothing is made of their words and of that data.
    """


_MADE_OF_WORDS = frozenset({"SELECT", "ASK_HUMAN", "AGENT_SOLVE", *ANSWERS})
"""What they give, or show, is made by the words of their arguments."""


def prepare(setting: Setting, rules: Iterable[Prepare], tool: str) -> Prepared:
    """What is known of a tool, however it is spelled."""
    name = fold(tool)
    traits = setting.traits(name)
    made = [rule(setting, name, traits) for rule in rules]
    held = [rule for rule in made if rule is not None]
    by_labels = [rule for rule in held if not isinstance(rule, OfTexts)]
    source = _fixed_source(setting, name, traits)
    of_labels = _seen(setting, by_labels, name, traits, source)
    return Prepared(
        name,
        traits,
        checks=tuple([_check_of(rule) for rule in held]),
        of_clear=tuple([_check_of(rule) for rule in by_labels]),
        deciding=tuple([_check_of(rule) for rule in held if not _only_obliges(rule)]),
        source=source,
        of_labels=of_labels,
        of_labels_again=of_labels if all(_holds_again(rule) for rule in by_labels) else None,
        of_private=name not in _MADE_OF_WORDS
        and (traits is None or traits.address is None)
        and all(isinstance(rule, OfLabels) and rule.private for rule in by_labels),
        prose=_prose(by_labels),
        is_plain=_plain(by_labels),
        clears=tuple([rule.clears for rule in held if isinstance(rule, OfTexts)]),
        keeps=traits is not None and _keeps(name, traits),
        adds=traits is not None and not traits.composes and name not in ("SELECT", "ASK_HUMAN"),
    )


def _keeps(tool: str, traits: Traits) -> bool:
    writes = traits.path is not None and traits.path_use is PathUse.WRITE
    noted = traits.reach is Reach.MEMORY or tool == "SET_WM"
    return writes or noted or traits.runs_code or keeps_files(tool, traits)


def _fixed_source(setting: Setting, tool: str, traits: Traits | None) -> Label | None:
    """What the world adds to every result of a tool; None where its arguments say it."""
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
    """The arguments whose text counts to rules and to what the world adds, None where any may."""
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
    said = [rule.prose for rule in rules if isinstance(rule, OfLabels) and rule.prose is not None]
    return said[0].intersection(*said[1:]) if said else None


def _plain(rules: list[Check | OfLabels]) -> tuple[Callable[[str, str], bool], ...]:
    """What the rules to which more than prose counts say of plain arguments; nothing unless all do."""
    counting = [rule for rule in rules if isinstance(rule, OfLabels) and rule.prose is not None]
    said = [rule.is_plain for rule in counting if rule.is_plain is not None]
    return tuple(said) if len(said) == len(counting) else ()
