"""What rules are given and where they write: a policy made ready, and the notes on one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.audiences import Audiences
from callsheet.policy.builtins import Traits, fold, traits_of
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Objection, Obligation, Part, Rule
from callsheet.policy.model import Policy
from callsheet.policy.sources import Sources


class Notes:
    """What the rules have to say of one call, in their order."""

    __slots__ = ("approvals", "objections", "obligations")

    def __init__(self) -> None:
        self.objections: list[Objection] = []
        self.approvals: list[str] = []
        self.obligations: list[Obligation] = []

    @property
    def is_empty(self) -> bool:
        """Whether no rule has said anything."""
        return not (self.objections or self.approvals or self.obligations)

    def object(
        self,
        rule: Rule,
        message: str,
        argument: str | None = None,
        *,
        help: str,  # noqa: A002 - the objection's own word
        reaches: str | None = None,
    ) -> None:
        """Something refuses the call; `help` says what to change."""
        self.objections.append(Objection(rule, message, argument, help, reaches))

    def ask(self, why: str) -> None:
        """A person has to say yes first."""
        self.approvals.append(why)

    def oblige(self, kind: Duty, call: CallView, detail: str = "", *, weakens: bool = False) -> None:
        """The runtime has to see to something."""
        self.obligations.append(Obligation(kind, call.step, detail, fold(call.tool), weakens))


class Verdicts(Notes):
    """What rules say of a call in a run: obligations have been seen to before it began."""

    __slots__ = ()

    def oblige(self, kind: Duty, call: CallView, detail: str = "", *, weakens: bool = False) -> None:
        """Nothing is noted."""


class Setting:
    """A policy made ready for rules: names folded, patterns compiled."""

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
        """What is known of a folded name."""
        if tool not in self._traits:
            self._traits[tool] = traits_of(self.policy, tool)
        return self._traits[tool]

    def is_approved(self, call: CallView) -> bool:
        """Whether somebody has said yes to the call."""
        return call.approved or call.step in self.policy.approved


Check: TypeAlias = Callable[[CallView, Notes], None]


class OfLabels(NamedTuple):
    """A check to which it makes no difference what the arguments say.

    It looks at their names and labels alone, at the label of the way, at what the policy says of the
    step, and at the text of the arguments that it `sees`, whose names it takes in any case; of one that is an
    address at no more than its host. `again` says that this holds as well of a call that may be made more
    than once, `private` of one with data that not everybody may read.
    """

    check: Check
    again: bool = True
    private: bool = True
    sees: tuple[str, ...] = ()
    prose: frozenset[str] | None = None
    """With private data the text of every argument but these, spelled just so, counts as well; None: of no
    other."""
    is_plain: Callable[[str, str], bool] | None = None
    """Of those that count so: whether an argument of this name and text is like every other of the name for
    which that is so."""
    only_obliges: bool = False
    """Whether it neither refuses a call nor asks for a yes: nothing that counts once the run goes on."""


class OfTexts(NamedTuple):
    """A check that says nothing of a call whose texts are clear, whatever their labels are.

    `clears` takes the texts of all arguments in one, with `BETWEEN` between them.
    """

    check: Check
    clears: Callable[[str], bool]


BETWEEN = "\n\x00\n"
"""What stands between two texts of a call that are looked at in one."""
Prepare: TypeAlias = Callable[[Setting, str, "Traits | None"], "Check | OfLabels | OfTexts | None"]


def of_name(call: CallView, name: str) -> Argument | None:
    """The argument of that name, in any case."""
    for argument in call.arguments:
        if argument.name == name:
            return argument
    folded = name.casefold()
    return next((a for a in call.arguments if a.name.casefold() == folded), None)


def controlling(call: CallView, traits: Traits) -> Iterator[Argument]:
    """The arguments that decide what is done; one without a known name may be any of them."""
    if not traits.control:
        return
    names = {name.casefold() for name in traits.control}
    for argument in call.arguments:
        if argument.name.casefold() in names or is_nameless(argument):
            yield argument


def is_nameless(argument: Argument) -> bool:
    """Whether nobody knows which parameter the argument fills."""
    return argument.name[:1].isdigit()


def flowing(call: CallView) -> Label:
    """The label of all that the arguments hold."""
    label = LITERAL
    for argument in call.arguments:
        if argument.label is not label:
            label = label.join(argument.label)
    return label


def leaves(argument: Argument) -> Iterator[Argument]:
    """The argument itself, or all that stands in its members."""
    stack = [argument]
    while stack:
        current = stack.pop()
        if current.items:
            stack.extend(reversed(current.items))
        else:
            yield current


def pairs(argument: Argument) -> list[Argument] | None:
    """The values of a dict, each named by its key, which stands before it; None for all else.

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
    """The texts in an argument, as far as they are known, with nothing in the place of holes."""
    for leaf in leaves(argument) if argument.items else (argument,):
        yield "".join([known(part) for part in leaf.parts])


def all_text(arguments: Iterable[Argument]) -> str:
    """The texts of all arguments in one, so that one look is enough."""
    found: list[str] = []
    for argument in arguments:
        if argument.items:
            found += texts(argument)
            continue
        text = ""
        for part in argument.parts:
            if isinstance(part, str):
                text += part
            elif part.text is not None:
                text += part.text
        if text:
            found.append(text)
    return found[0] if len(found) == 1 else BETWEEN.join(found)


def own_texts(argument: Argument) -> Iterator[str]:
    """The texts in an argument that the plan itself says: written in it, or made of that alone."""
    for leaf in leaves(argument) if argument.items else (argument,):
        yield "".join([part if isinstance(part, str) else _own(part) for part in leaf.parts])


def _own(hole: Hole) -> str:
    return hole.text if hole.text is not None and hole.label == LITERAL else ""


def known(part: Part, unknown: str = "") -> str:
    """The text of a part, or what is to stand for it where it is not known."""
    if isinstance(part, Hole):
        return unknown if part.text is None else part.text
    return part


def shown(label: Label) -> str:
    """Who may read it, in words."""
    if label.is_secret:
        return "secret data"
    return "private data" if not label.is_public else "public data"
