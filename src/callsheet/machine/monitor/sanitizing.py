"""Disables links in texts shown to people, which could carry private data out, and withholds errors.

In: a text with the labelled arguments that it was made of, or the error of a step. Out: the text as it may be
shown. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.policy.audiences import Audiences
from callsheet.policy.calls import Argument, CallView, Hole, Judgement
from callsheet.policy.disarming import Allowed, addresses_in, disarmed
from callsheet.policy.judge import Judge
from callsheet.policy.links import opens_tag
from callsheet.policy.markup import inert, is_active, runs_an_address
from callsheet.policy.rules.answers import parts_of
from callsheet.policy.rules.base import leaves

_FAILED = "failed: "


def sanitized_text(text: str, arguments: Iterable[Argument], audiences: Audiences) -> str:
    """A text as it may be shown: if links may carry private data, those to hosts not allowed it are disabled.

    Addresses written in the plan itself stay. Markup that data has brought, and that could take up private
    data from elsewhere, is disabled too.
    """
    arguments = tuple(arguments)
    text = _without_foreign_markup(text, arguments, audiences)
    parts = [part for argument in arguments for leaf in leaves(argument) for part in leaf.parts]
    label = join(part.label for part in parts if not isinstance(part, str) and part.label.may_link)
    if label is LITERAL:
        return text
    own = frozenset(address for part in parts if isinstance(part, str) for address in addresses_in(part))
    return disarmed(text, _allowed(label, audiences, own))


def _without_foreign_markup(text: str, arguments: tuple[Argument, ...], audiences: Audiences) -> str:
    """The text without tags, if some that data has brought may read private data, or may contain it."""
    if "<" not in text and ":" not in text:
        return text
    parts = parts_of(CallView("", "RESPOND", arguments), "")
    private = [part for part in parts if isinstance(part, Hole) and not part.label.is_public]
    if not private or len(parts) == 1:
        return text
    is_one = len({hole.name.partition(".")[0] for hole in private}) == 1
    foreign = "".join(
        [
            part if isinstance(part, str) else " " if is_one and not part.label.is_public else part.text or ""
            for part in parts
        ]
    )
    if runs_an_address(foreign):
        text = disarmed(text, _allowed(join(hole.label for hole in private), audiences, frozenset()))
    return inert(text) if is_active(foreign) or opens_tag(parts) else text


def sanitized_question(
    args: dict[str, Any], arguments: Iterable[Argument], audiences: Audiences
) -> dict[str, Any]:
    """The arguments of a question, its prompt as it may be shown."""
    prompt = args.get("prompt")
    return (
        args | {"prompt": sanitized_text(prompt, arguments, audiences)} if isinstance(prompt, str) else args
    )


def sent(args: dict[str, Any], call: CallView, rules: Judge | None, audiences: Audiences) -> dict[str, Any]:
    """The arguments of a call that sends a message, its texts as they may be shown to the recipients."""
    if (
        rules is None
        or all(argument.label.is_public for argument in call.arguments)
        or not rules.is_message(call.tool)
    ):
        return args
    read = rules.read_in(call)
    arguments = {
        argument.name: _sanitized(args[argument.name], argument, audiences)
        for argument in call.arguments
        if argument.name in read and argument.name in args and not argument.label.is_public
    }
    return args | arguments if arguments else args


def _sanitized(value: JSON, argument: Argument, audiences: Audiences) -> JSON:
    """The value of an argument with every text in it, at any depth, as it may be shown."""
    if isinstance(value, str):
        return sanitized_text(value, (argument,), audiences)
    if isinstance(value, list):
        items = argument.items if len(argument.items) == len(value) else (argument,) * len(value)
        return [_sanitized(part, item, audiences) for part, item in zip(value, items, strict=True)]
    if isinstance(value, dict):
        members = {item.name: item for item in argument.items}
        return {key: _sanitized(part, members.get(key, argument), audiences) for key, part in value.items()}
    return value


def failure(
    error: str,
    label: Label,
    pc: Label,
    step: str,
    judge: Callable[[CallView], Judgement],
    audiences: Audiences,
) -> str:
    """What may be said about a failure: its error, judged like an answer, or that it is withheld (POL180)."""
    argument = Argument("0", (_FAILED, Hole("error", label, error)), label)
    objections = judge(CallView(step, "TERMINATE", (argument,), pc)).objections
    if objections:
        return f"POL180: its error is withheld: {objections[0].message}"
    if label.is_public or not label.untrusted:
        return error
    return disarmed(error, _allowed(label, audiences, frozenset()))


def _allowed(label: Label, audiences: Audiences, own: frozenset[str]) -> Allowed:
    def may_know(host: str) -> bool:
        return label.may_reach(audiences.of_host(host))

    return Allowed(may_know, own)
