"""CONTROL: untrusted data must not decide what is done: a path, a command, code, a recipient."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import Argument, CallView, Duty, Rule
from callsheet.policy.classes import EVERY
from callsheet.policy.model import When
from callsheet.policy.rules.attachments import sends_files, surely_attached
from callsheet.policy.rules.base import (
    Check,
    Notes,
    OfLabels,
    Setting,
    controlling,
    flowing,
    is_nameless,
    of_name,
)
from callsheet.policy.rules.receivers import in_bodies, names_recipients, plain_name


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """CONTROL for each control argument with untrusted data in it, unless the call is approved.

    An agent may choose workspace paths and sandboxed code itself; its tools were granted for that.
    """
    if traits is None or not (traits.control or sends_files(tool, traits)):
        return None
    known_traits = traits
    deciding_arguments = controlling if tool in BUILTINS else _deciding_anywhere
    given_to_agents = traits.runs_code or (traits.path is not None and not traits.on_host)

    def check(call: CallView, notes: Notes) -> None:
        if call.in_agent and given_to_agents:
            return
        for argument in deciding_arguments(call, known_traits):
            if not argument.label.untrusted or setting.is_approved(call):
                continue
            if known_traits.approval is not When.NEVER:
                why = f"untrusted data decides '{argument.name}' of @{tool}"
                notes.ask(why, Rule.CONTROL, argument.name)
                continue
            notes.object(
                Rule.CONTROL,
                f"untrusted data decides '{argument.name}' of @{tool}",
                argument.name,
                help="pass data to a program on stdin, not in its code"
                if known_traits.runs_code
                else "write it in the plan, or approve the step",
            )

    return OfLabels(check)


def _deciding_anywhere(call: CallView, traits: Traits) -> Iterator[Argument]:
    """The control arguments, also among the members of others.

    Operators' and servers' tools may take a request as one argument, `message={"to": …}`. Recipients and
    attachments are control arguments under all their usual names.
    """
    names = {name.casefold() for name in traits.control}
    closed = in_bodies(traits, call) if traits.reach is Reach.RECIPIENT else frozenset[str]()
    waiting = list(reversed(call.arguments))
    while waiting:
        argument = waiting.pop()
        is_recipient = traits.reach is Reach.RECIPIENT and names_recipients(argument, traits.audience)
        is_named = EVERY in names or argument.name.casefold() in names
        if is_named or is_recipient or (is_nameless(argument) and traits.control):
            yield argument
        elif not closed or plain_name(argument.name) not in closed:
            waiting += reversed(argument.items)
    if traits.reach in (Reach.WORLD, Reach.RECIPIENT):
        for name, path in surely_attached(call):
            if name.casefold() not in names:
                yield path._replace(name=name)


def prepare_approval(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """Require approval for each call; the reason says if untrusted data decides whether it is made."""
    if traits is None and setting.policy.refuse_unknown_tools:
        return None
    is_destructive = traits is None or traits.destructive
    always = traits is not None and traits.approval is When.ALWAYS
    if not is_destructive and not always:
        return None

    def check(call: CallView, notes: Notes) -> None:
        if is_destructive and call.pc.untrusted and not setting.is_decision_approved(call):
            by = f" ({', '.join(call.decided_by)})" if call.decided_by else ""
            notes.ask(f"untrusted data decides{by} whether @{tool} is called, which cannot be undone")
        elif not setting.is_approved(call):
            notes.ask(
                f"the policy has no entry for @{tool}, so it may do anything"
                if traits is None
                else f"@{tool} cannot be undone"
                if is_destructive
                else f"the policy requires approval for @{tool}"
            )

    return OfLabels(check)


def prepare_replan(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """REPLAN if the policy allows no new plan, or untrusted data would reach the planner."""
    if tool != "RE-PLAN":
        return None
    rule = setting.policy.replan

    def check(call: CallView, notes: Notes) -> None:
        if rule is None:
            notes.object(
                Rule.REPLAN,
                "the policy does not allow a new plan at run time",
                help="write all steps in the plan, or allow it in the policy: [dynamic] replan",
            )
            return
        reason = flowing(call)
        if reason.untrusted and rule.context != "any":
            notes.object(
                Rule.REPLAN,
                "the reason of the RE-PLAN contains untrusted content",
                help="write the reason in the plan, without data",
            )
        notes.oblige(Duty.VERIFY_AGAIN, call, str(reason.join(call.pc)))

    return check


def prepare_retry(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """RETRY for more attempts than the policy allows, or for any retry of a call that is not repeatable."""
    most = setting.policy.max_retries
    repeatable = traits is not None and traits.repeatable
    goes_round = traits is not None and _leaves_nothing(traits)
    if most is None and repeatable:
        return None

    def check(call: CallView, notes: Notes) -> None:
        if not call.retries and not call.repeats:
            return
        if most is not None and call.retries > most:
            notes.object(
                Rule.RETRY,
                f"@{tool} is retried {call.retries} times, but the policy allows {most}",
                help=f"write @RETRY({most}) or less",
            )
        if not repeatable and (call.retries or not goes_round) and not has_key(call, traits):
            notes.object(
                Rule.RETRY,
                f"@{tool} may take effect twice: it is retried without an idempotency key",
                help=_hint(traits),
            )

    return OfLabels(check, again=repeatable)  # else it matters whether the key is empty


def _leaves_nothing(traits: Traits) -> bool:
    """Whether a plan may come back to an operator's tool: it reaches nobody and destroys nothing.

    A plan may poll like this until a build is done. A retry is different: the outcome of the previous attempt
    is unknown.
    """
    return traits.reach is Reach.NOBODY and not traits.destructive and not traits.on_host


def _hint(traits: Traits | None) -> str:
    given = "" if traits is None or traits.key is None else f"give it {traits.key}=… if it takes one, "
    return f"{given}remove the retry, or mark the tool in the policy: idempotent = true"


def has_key(call: CallView, traits: Traits | None) -> bool:
    """Whether the call has an idempotency key."""
    if traits is None or traits.key is None:
        return False
    key = of_name(call, traits.key)
    return key is not None and key.text != ""
