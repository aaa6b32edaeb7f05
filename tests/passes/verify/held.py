"""The plans of the corpus, parsed once, and the proof's verdict on each."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tests.conformance.security import policy_of
from tests.passes.verify.behind import HARMLESS_BEHIND, HOSTILE_BEHIND
from tests.passes.verify.corpus import HARMLESS, HOSTILE, Example
from tests.passes.verify.declared import HARMLESS_DECLARED, HOSTILE_DECLARED, declaring, reads_of
from tests.passes.verify.graphs import HARMLESS_GRAPHS, HOSTILE_GRAPHS
from tests.passes.verify.named import HARMLESS_NAMED, HOSTILE_NAMED
from tests.passes.verify.openings import HARMLESS_OPENINGS, HOSTILE_OPENINGS
from tests.passes.verify.senders import HARMLESS_SENDERS, HOSTILE_SENDERS
from tests.passes.verify.twins import HARMLESS_TWINS, HOSTILE_TWINS

from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy


class Held(NamedTuple):
    """A readable plan, its policy, and whether it may run.

    `undeclared` is the plan without the declarations that its programs need; None if they need none.
    """

    name: str
    plan: Plan
    policy: Policy
    must_run: bool
    undeclared: Plan | None = None


@cache
def held() -> list[Held]:
    """All plans of the corpus."""
    hostile = [
        *HOSTILE,
        *HOSTILE_GRAPHS,
        *HOSTILE_SENDERS,
        *HOSTILE_OPENINGS,
        *HOSTILE_NAMED,
        *HOSTILE_TWINS,
        *HOSTILE_DECLARED,
        *HOSTILE_BEHIND,
    ]
    harmless = [
        *HARMLESS,
        *HARMLESS_GRAPHS,
        *HARMLESS_SENDERS,
        *HARMLESS_OPENINGS,
        *HARMLESS_NAMED,
        *HARMLESS_TWINS,
        *HARMLESS_DECLARED,
        *HARMLESS_BEHIND,
    ]
    return [_read(e, False) for e in hostile] + [_read(e, True) for e in harmless]


def _read(example: Example, must_run: bool) -> Held:
    read = parse_dag if example.plan.startswith("{") else parse
    plan, policy = read(example.plan).require(), policy_of(example.policy)
    reads = reads_of(example.name) if must_run else None
    if reads is None:
        return Held(example.name, plan, policy, must_run)
    return Held(example.name, declaring(plan, reads), policy, must_run, plan)


def seen(case: Held) -> tuple[bool, frozenset[str]]:
    """Whether the plan may run, and the kinds of obligations of the runtime."""
    verdict = verify(case.plan, case.policy)
    return verdict.ok, frozenset(obligation.kind for obligation in verdict.obligations)
