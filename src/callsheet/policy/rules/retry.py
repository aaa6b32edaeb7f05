"""RETRY: calls that must not be made twice are not retried."""

from __future__ import annotations

from callsheet.policy.builtins import Reach, Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.rules.base import Notes, OfLabels, Setting, of_name


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
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
