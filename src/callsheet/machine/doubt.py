"""Decides what to do about a call in doubt before a person is asked: by its probe or its tool's policy."""

from __future__ import annotations

from typing import assert_never

from callsheet.ir import OnInDoubt
from callsheet.ir.labels import Label
from callsheet.machine.commands import CallTool, Probe
from callsheet.machine.events import Decided, Decision, Doubted
from callsheet.machine.frames import Attempt

MOST_REDELIVERIES = 3
"""How often one call is made again without a person's decision."""
DOUBT = "DOUBT"
"""The kind of the failure of a call in doubt that was decided to have failed; no plan catches it."""
FAILED_BY_A_PERSON = "it is not known whether the call took place; it was decided to fail it"
FAILED_BY_POLICY = "it is not known whether the call took place; the policy is to fail it"


def call_of(attempt: Attempt, label: Label | None = None) -> CallTool:
    """The command for the tool call of an attempt; `label` is that of all data it sends."""
    code = attempt.code
    return CallTool(attempt.key, code.id, code.tool, attempt.args, code.wants_data, attempt.delivery, label)


def next_about(attempt: Attempt) -> Probe | Decision | None:
    """What to do about an attempt in doubt; None if a person has to decide."""
    code = attempt.code
    if code.probes and not attempt.is_probing:
        return Probe(attempt.key, code.id, call_of(attempt))
    match code.on_in_doubt:
        case OnInDoubt.ASK:
            return None
        case OnInDoubt.FAIL:
            return Decision.FAIL
        case OnInDoubt.RETRY:
            return Decision.RETRY if may_redeliver(attempt) else None
    assert_never(code.on_in_doubt)


def with_limit(event: Decided, attempt: Attempt | None) -> Decided | Doubted:
    """A decision about an open call; a doubt where a probe would have it made once too often.

    Every driver records this in place of the decision: the doubt is left to the tool's policy or a person.
    """
    if not event.by or event.decision is not Decision.RETRY or attempt is None or may_redeliver(attempt):
        return event
    return Doubted(event.key, f"it was made {attempt.redelivered + 1} times, and its probe finds nothing")


def may_redeliver(attempt: Attempt) -> bool:
    """Whether the call may be made once more without a person's decision."""
    return attempt.redelivered < MOST_REDELIVERIES
