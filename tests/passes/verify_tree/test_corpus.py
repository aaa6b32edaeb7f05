"""No plan of version 2 that leaks or destroys is accepted, and no harmless one is refused."""

from __future__ import annotations

import pytest
from tests.conformance.security import policy_of
from tests.passes.verify.held import Held, held
from tests.passes.verify_tree.converted import CannotNest, converted, in_sub_plan
from tests.passes.verify_tree.corpus import HARMLESS, HOSTILE, Example
from tests.passes.verify_tree.texts import plan_of

from callsheet.ir import Plan
from callsheet.passes.verify import verify


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_hostile_plan_is_refused(case: Example) -> None:
    assert not verify(plan_of(case.plan), policy_of(case.policy)).ok


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name)
def test_harmless_plan_is_accepted(case: Example) -> None:
    verdict = verify(plan_of(case.plan), policy_of(case.policy))
    assert verdict.ok, [str(violation) for violation in verdict.violations]


_OTHERWISE = {
    "answers: the last value of a plan without one is a picture": "a plan without an answer answers null",
    "images: one that is the last value": "a plan without an answer answers null",
    "implicit: an answer that content has set": "an answer always ends the run",
    "bits: an empty answer of a model a bit": "an answer always ends the run",
    "address: a text that a loop goes through": "a loop takes no text",
    "forbidden: in a dict that a loop goes through": "a loop goes through the keys of a dict",
    "a few bits": "whether a field is empty is a test of content",
}
"""Plans that mean something else in version 2."""


def _rewritten(case: Held) -> list[Plan]:
    """The plan as a tree, with variables for what it composes, and as a sub-plan, as far as it can be."""
    made: list[Plan] = []
    for by_let in (False, True):
        try:
            made.append(converted(case.plan, by_let=by_let))
            made.append(in_sub_plan(made[-1]))
        except CannotNest:
            continue
    return made


@pytest.mark.parametrize("shard", range(8))
def test_plans_of_version_1_keep_their_verdict_as_trees(shard: int) -> None:
    cases = [case for case in held() if case.name not in _OTHERWISE][shard::8]
    plans = [(case, plan) for case in cases for plan in _rewritten(case)]
    assert len(plans) > 400
    differing = [case.name for case, plan in plans if verify(plan, case.policy).ok is not case.must_run]
    assert differing == []


def test_messages_show_the_way_of_the_data_through_blocks_and_sub_plans() -> None:
    plan = plan_of(
        """
        PLAN find ($q) {
          S9: @WEB_SEARCH (query=$q) > $r
          RETURN ($r)
        }
        S1: @READ_FILE (path="notes.txt") > $a
        LET $b = $a.upper()
        S2: CALL find (q=$b) > $r
        ?IF ("x" in $a) {
          S3: @WEB_SEARCH (query="x") > $s
        }
        """
    )
    found = [str(violation) for violation in verify(plan, policy_of({})).violations]
    assert found == [
        "S9: private data in query ($q) of @WEB_SEARCH would reach outside"
        " (S1 $a → let1 $b → S2 $q → S9 query → outside)",
        "S3: whether @WEB_SEARCH is called tells outside about private data"
        " (S1 $a → if1 → S3 whether it is called)",
    ]


def test_approvals_are_obligations_where_somebody_can_be_asked() -> None:
    plan = plan_of('?IF (1 == 1) {\nS1: @HOST_EXEC (command="docker ps") > $o\n}')
    verdict = verify(plan, policy_of({}), can_ask=True)
    assert verdict.ok
    assert [str(one.kind) for one in verdict.obligations if one.step == "S1"] == ["approve"]
    assert not verify(plan, policy_of({})).ok
    assert [(labels.step, str(labels.result)) for labels in verdict.steps] == [("S1", "U/priv")]
