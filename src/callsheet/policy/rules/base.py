"""The interface of rules: the prepared policy they are given, and the notes they write about a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.audiences import Audiences
from callsheet.policy.builtins import Traits, fold, is_approved_ahead, traits_of
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Objection, Obligation, Part, Rule
from callsheet.policy.classes import EVERY
from callsheet.policy.model import WHETHER, Policy
from callsheet.policy.sources import Sources


class Notes:
    """What the rules have recorded about one call, in their order."""

    __slots__ = ("approvals", "objections", "obligations", "questions")

    def __init__(self) -> None:
        self.objections: list[Objection] = []
        self.approvals: list[str] = []
        self.questions: list[Objection] = []
        """For each of `approvals`, what an approval would permit."""
        self.obligations: list[Obligation] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been recorded."""
        return not (self.objections or self.approvals or self.obligations)

    def object(
        self,
        rule: Rule,
        message: str,
        argument: str | None = None,
        *,
        help: str,  # noqa: A002 - named as in Objection
        reaches: str | None = None,
        audiences: frozenset[str] | None = None,
    ) -> None:
        """Record an objection, which refuses the call; `help` says how to fix it."""
        self.objections.append(Objection(rule, message, argument, help, reaches, audiences))

    def ask(
        self,
        why: str,
        rule: Rule = Rule.CONSEQUENTIAL,
        argument: str | None = None,
        *,
        reaches: str | None = None,
        audiences: frozenset[str] | None = None,
    ) -> None:
        """Record a reason why a person must approve the call.

        The rest is as in Objection: whose data, and which, the question is about.
        """
        self.approvals.append(why)
        self.questions.append(Objection(rule, why, argument, None, reaches, audiences))

    def oblige(self, kind: Duty, call: CallView, detail: str = "", *, weakens: bool = False) -> None:
        """Record an obligation of the runtime."""
        self.obligations.append(Obligation(kind, call.step, detail, fold(call.tool), weakens))


class Verdicts(Notes):
    """Notes on a call at run time, without obligations, which were met before the run."""

    __slots__ = ()

    def oblige(self, kind: Duty, call: CallView, detail: str = "", *, weakens: bool = False) -> None:
        """Record nothing."""


class Setting:
    """A policy prepared for the rules: names folded, patterns compiled."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.audiences = Audiences(policy.audiences)
        self.sources = Sources(policy)
        self.allowed = None if policy.allowed_tools is None else {fold(n) for n in policy.allowed_tools}
        self.denied = {fold(name) for name in policy.denied_tools}
        self.agent_tools = (
            frozenset(fold(n) for n in policy.agent.tools) if policy.agent else frozenset[str]()
        )
        self._traits: dict[str, Traits | None] = {}

    def traits(self, tool: str) -> Traits | None:
        """The traits of a folded tool name, None for an unknown tool."""
        if tool not in self._traits:
            self._traits[tool] = traits_of(self.policy, tool)
        return self._traits[tool]

    def is_approved(self, call: CallView) -> bool:
        """Whether the call or its step is approved."""
        return call.approved or is_approved_ahead(self.policy, call.step, call.tool)

    def is_decision_approved(self, call: CallView) -> bool:
        """Whether untrusted data may decide that the call is made: the call or `STEP:whether` is approved.

        A step that was approved before the run was approved for what it does, not for when it is done.
        """
        return call.approved or is_approved_ahead(self.policy, f"{call.step}{WHETHER}", call.tool)


Check: TypeAlias = Callable[[CallView, Notes], None]
PlainTexts: TypeAlias = "Callable[[str], Callable[[str], object] | None]"
"""By the name of an argument: a predicate for texts that are treated alike and open nothing (see
`separation.opens_nothing`); None if each text of it matters.
"""


class OfLabels(NamedTuple):
    """A check that depends on the text of few arguments.

    It depends on the arguments' names and labels, the control-flow label, what the policy says about the
    step, and the text of the arguments in `sees` (any case); of an address, only on its host. `again` extends
    this to calls that may be made more than once, `private` to calls with private data.
    """

    check: Check
    again: bool = True
    private: bool = True
    sees: tuple[str, ...] = ()
    prose: frozenset[str] | None = None
    """With private data it also depends on every argument but these (exact names); None: on no other."""
    plain: PlainTexts | None = None
    """For arguments outside `prose`: which texts are treated alike."""
    safe: tuple[str, Callable[[str], bool]] | None = None
    """An argument that it looks at only if the call has untrusted data (in any case), and for which texts of
    it there is no objection then.
    """
    only_obliges: bool = False
    """Whether it only records obligations, which do not matter at run time."""


class OfTexts(NamedTuple):
    """A check that has no objection to a call whose texts are clear, whatever their labels.

    `clears` takes the texts of all arguments joined with `BETWEEN`.
    """

    check: Check
    clears: Callable[[str], bool]


BETWEEN = "\n\x00\n"
"""Separator between texts of a call that are searched together."""
Prepare: TypeAlias = Callable[[Setting, str, "Traits | None"], "Check | OfLabels | OfTexts | None"]


def of_name(call: CallView, name: str) -> Argument | None:
    """The argument of that name, ignoring case; None if there is none."""
    for argument in call.arguments:
        if argument.name == name:
            return argument
    folded = name.casefold()
    return next((a for a in call.arguments if a.name.casefold() == folded), None)


def controlling(call: CallView, traits: Traits) -> Iterator[Argument]:
    """The control arguments; an argument without a known name may be any of them."""
    if not traits.control:
        return
    names = {name.casefold() for name in traits.control}
    for argument in call.arguments:
        if EVERY in names or argument.name.casefold() in names or is_nameless(argument):
            yield argument


def is_nameless(argument: Argument) -> bool:
    """Whether the argument is positional and its parameter is unknown."""
    return argument.name[:1].isdigit()


def flowing(call: CallView) -> Label:
    """The join of the labels of all arguments."""
    label = LITERAL
    for argument in call.arguments:
        if argument.label is not label:
            label = label.join(argument.label)
    return label


def leaves(argument: Argument) -> Iterator[Argument]:
    """The argument itself, or all its innermost members."""
    stack = [argument]
    while stack:
        current = stack.pop()
        if current.items:
            stack.extend(reversed(current.items))
        else:
            yield current


def pairs(argument: Argument) -> list[Argument] | None:
    """The values of a dict, each named by its key; None for anything else.

    >>> key, value = Argument("to", ("email",)), Argument("email", ("a@c.example",))
    >>> pairs(Argument("to", (), items=(key, value))) == [value], pairs(value)
    (True, None)
    """
    keys, values = argument.items[::2], argument.items[1::2]
    is_dict = len(keys) == len(values) > 0 and all(
        key.text == value.name for key, value in zip(keys, values, strict=True)
    )
    return list(values) if is_dict else None


def texts(argument: Argument) -> Iterator[str]:
    """The known texts in an argument, with holes of unknown text left empty."""
    for leaf in leaves(argument) if argument.items else (argument,):
        yield "".join([known(part) for part in leaf.parts])


def all_text(arguments: Iterable[Argument]) -> str:
    """The texts of all arguments joined with `BETWEEN`, so that one search covers them."""
    pieces: list[str] = []
    for argument in arguments:
        if argument.items:
            pieces += texts(argument)
            continue
        text = ""
        for part in argument.parts:
            if isinstance(part, str):
                text += part
            elif part.text is not None:
                text += part.text
        if text:
            pieces.append(text)
    return pieces[0] if len(pieces) == 1 else BETWEEN.join(pieces)


def own_texts(argument: Argument) -> Iterator[str]:
    """The plan's own texts in an argument: literals, and holes whose value is made of literals only."""
    for leaf in leaves(argument) if argument.items else (argument,):
        yield "".join([part if isinstance(part, str) else _own(part) for part in leaf.parts])


def _own(hole: Hole) -> str:
    return hole.text if hole.text is not None and hole.label == LITERAL else ""


def known(part: Part, unknown: str = "") -> str:
    """The text of a part, or `unknown` if it is not known."""
    if isinstance(part, Hole):
        return unknown if part.text is None else part.text
    return part


def shown(label: Label) -> str:
    """How a message calls data with this label."""
    if label.is_secret:
        return "secret data"
    return "private data" if not label.is_public else "public data"
