"""The check of a policy that differs from the own one of a run that is resumed.

In: a policy, the current state of the run. Out: the policy under which the run continues, or the error that
prevents it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from callsheet.api.binding import bind_policy
from callsheet.api.obligations import Guarantees
from callsheet.api.proving import Proof, refused_by
from callsheet.diagnostics import CallsheetError
from callsheet.machine import PolicyChanged
from callsheet.passes.verify import PersistedLabels
from callsheet.policy.canon import policy_hash
from callsheet.policy.differences import differences
from callsheet.policy.model import Policy
from callsheet.runtime.doubt import fold_run
from callsheet.runtime.remaining import left_in, prove_remaining
from callsheet.runtime.runs import PolicyFor
from callsheet.store import Journal
from callsheet.store.folded import Folded
from callsheet.store.label_transfer import open_labels

_MOST_TOLD = 20


class ResumeContext(NamedTuple):
    """Where a run is resumed: its journal, what the runtime guarantees, and the folder of the file tools."""

    journal: Journal
    run_id: str
    undertaking: Guarantees
    workspace: str = ""


def other_policy(
    given: Policy, context: ResumeContext, *, is_accepted: bool, tell: Callable[[str], None] | None = None
) -> PolicyFor:
    """A function that takes a folded run and returns the policy to continue it under.

    It returns None if the given policy is the run's own; `tell` is called with each accepted difference. It
    raises CallsheetError: JRN023 for a policy that differs and is not accepted, and for a run that was
    started without one; PolicyRefused if the policy refuses the rest of the plan.
    """

    def policy(folded: Folded) -> Policy | None:
        own = folded.policy
        if own is None:
            raise unproved(context.run_id)
        bound, doubts = bind_policy(given, context.undertaking.registry)
        bound = replace(bound, approved=bound.approved | own.approved).with_files(own.files)
        if policy_hash(replace(bound, files=own.files)) == policy_hash(own):
            return None
        changes = [str(difference) for difference in differences(own, bound)]
        if not is_accepted:
            raise _differs(context.run_id, own, bound, changes)
        proof = Proof(
            folded.machine.program.plan,
            bound,
            prove_remaining(folded, bound, _stored_labels(context)),
            doubts,
        )
        proof = proof.under(context.undertaking)
        proof.raise_if_refused()
        bound = proof.policy
        _try(context, bound)
        for line in changes if tell is not None else ():
            assert tell is not None
            tell(line)
        return bound

    return policy


def _stored_labels(context: ResumeContext) -> PersistedLabels:
    """The stored labels of the places that the run may read."""
    with open_labels(context.journal.path) as store:
        return left_in(store, context.workspace, context.run_id)


def _try(context: ResumeContext, policy: Policy) -> None:
    """Check the calls in progress against the policy, on a copy of the run; raises PolicyRefused."""
    plan = context.journal.plan(context.journal.find_run(context.run_id).plan_hash)[0]
    copy = fold_run(context.journal, context.run_id, plan)
    if copy.machine.result is not None:
        return
    copy.feed(PolicyChanged(policy))
    result = copy.machine.result
    if result is not None and result.objection is not None:
        raise refused_by(result.objection)


def _differs(run_id: str, own: Policy, given: Policy, changes: list[str]) -> CallsheetError:
    shown = [
        *changes[:_MOST_TOLD],
        *([f"… and {len(changes) - _MOST_TOLD} more"] if len(changes) > _MOST_TOLD else []),
    ]
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} is under the policy {own.name}, and {given.name} differs from it in"
        f" {len(changes)} part{'s' if len(changes) != 1 else ''}",
        help="\n".join(
            [*shown, "--accept-changed-policy continues under it, if the rest of the plan satisfies it"]
        ),
    )


def unproved(run_id: str) -> CallsheetError:
    """The error for resuming a run under a policy when it was started without one."""
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} was started without a policy, so the origin of its values is not known",
        help="resume it without the policy, or start it anew under it",
    )
