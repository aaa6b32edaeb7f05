"""The plans of the corpus, read once, and what the proof says of each."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tests.conformance.security import policy_of
from tests.passes.verify.corpus import HARMLESS, HOSTILE, Example

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy


class Held(NamedTuple):
    """A plan that can be read, its policy, and whether it may run."""

    name: str
    plan: Plan
    policy: Policy
    must_run: bool


@cache
def held() -> list[Held]:
    """All plans of the corpus."""
    return [_read(e, False) for e in HOSTILE] + [_read(e, True) for e in HARMLESS]


def _read(example: Example, must_run: bool) -> Held:
    return Held(example.name, parse(example.plan).require(), policy_of(example.policy), must_run)


def seen(case: Held) -> tuple[bool, frozenset[str]]:
    """Whether the plan may run, and what kinds of things the runtime has to see to."""
    verdict = verify(case.plan, case.policy)
    return verdict.ok, frozenset(obligation.kind for obligation in verdict.obligations)
