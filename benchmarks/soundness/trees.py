"""Checks one random plan of version 2, with groups and time limits, in worlds that differ in a secret."""

from __future__ import annotations

from collections.abc import Sequence

from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.random_plans import Drawing
from tests.passes.verify_tree.runs import PRIVATE, SECRETS, STRICT, Seen, run

from callsheet.diagnostics import CallsheetError
from callsheet.machine import Status
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.passes.verify import verify

from .checking import Outcome


def draw_tree(seed: int) -> str:
    """The plan of this number."""
    return Drawing(seed, bits=True).text()


def check_tree(seed: int, *, is_enforced: bool = False) -> Outcome:
    """Draw the plan of this number, prove it under a strict policy, and run it in every world if accepted.

    With `is_enforced` it is run under the policy besides, whether it is accepted or not: runs that come to
    their end must show the same, and one whose plan is accepted must go as without the policy.
    """
    try:
        plan = plan_of(draw_tree(seed))
    except CallsheetError:
        return Outcome(False)
    accepted = verify(plan, STRICT, inputs=PRIVATE).ok
    breaches: list[str] = []
    worlds = [run(plan, n, {"a": secret}) for n, secret in enumerate(SECRETS)] if accepted else []
    if _can_tell(worlds):
        breaches.append("outside can tell what is secret")
    stopped = surprises = False
    if is_enforced:
        held = [
            run(plan, n, {"a": secret}, Enforcement.under(STRICT, PRIVATE))
            for n, secret in enumerate(SECRETS)
        ]
        stopped = any(one is not None and one.result.status is Status.REFUSED for one in held)
        surprises = accepted and [one and one.calls for one in held] != [one and one.calls for one in worlds]
        if _can_tell([one for one in held if one is not None and one.result.status is Status.DONE]):
            breaches.append("under the policy: outside can tell what is secret")
    return Outcome(True, accepted, False, tuple(breaches), stopped, surprises)


def _can_tell(worlds: Sequence[Seen | None]) -> bool:
    seen = [one.together for one in worlds if one is not None]
    return any(one != seen[0] for one in seen)
