"""No plan of version 2 that leaks or destroys is accepted, and no harmless one is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time

import pytest
from tests.conformance.security import policy_of, read_plan, read_security_cases
from tests.passes.verify.held import Held, held
from tests.passes.verify_tree.channels import CHANNELS
from tests.passes.verify_tree.converted import CannotNest, converted, in_sub_plan
from tests.passes.verify_tree.corpus import HARMLESS, HOSTILE, Example, plan_of

from callsheet.ir import Plan
from callsheet.ir.expr import Literal
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import Branch, If, Let, Statement, Tree
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy


@pytest.mark.parametrize("case", [*HOSTILE, *CHANNELS], ids=lambda case: case.name)
def test_hostile_plan_is_refused(case: Example) -> None:
    assert not verify(plan_of(case.plan), policy_of(case.policy)).ok


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name)
def test_harmless_plan_is_accepted(case: Example) -> None:
    verdict = verify(plan_of(case.plan), policy_of(case.policy))
    assert verdict.ok, [str(violation) for violation in verdict.violations]


_CASES = Path(__file__).parents[2] / "conformance" / "cases"
_FILES = ("security.jsonl", "security_combined.jsonl", "security_everyday.jsonl")
_OTHERWISE = {
    "answers: the last value of a plan without one is a picture": "a plan without an answer answers null",
    "images: one that is the last value": "a plan without an answer answers null",
    "implicit: an answer that content has set": "an answer always ends the run",
    "bits: an empty answer of a model a bit": "an answer always ends the run",
    "address: a text that a loop goes through": "a loop takes no text",
    "forbidden: in a dict that a loop goes through": "a loop goes through the keys of a dict",
    "everyday-pc-03": "an answer always ends the run",
    "combined-answer-whole-is-link": "a plan without an answer answers null",
    "everyday-harmless-research-18": "a strict policy counts the failures of calls",
    "a few bits": "whether a field is empty is a test of content",
}
"""Plans that mean something else in version 2."""


@cache
def _of_version_1() -> list[Held]:
    """The corpus of the proof, and the security cases."""
    cases = [case for name in _FILES for case in read_security_cases(_CASES / name)]
    read = ((case, *read_plan(case.plan)) for case in cases)
    readable = ((case, plan) for case, plan, errors in read if plan is not None and not errors)
    return [
        *held(),
        *(Held(case.id, plan, policy_of(case.policy), case.must == "accept") for case, plan in readable),
    ]


def _rewritten(case: Held, way: int) -> Plan | None:
    """The plan as a tree: as it is, with variables for what it composes, or as a sub-plan, if it can be."""
    try:
        plan = converted(case.plan, by_let=way == 1)
        return in_sub_plan(plan) if way == 2 else plan
    except CannotNest:
        return None


@pytest.mark.parametrize("way", range(3), ids=["in place", "by variables", "in a sub-plan"])
def test_plans_of_version_1_keep_their_verdict_as_trees(way: int) -> None:
    cases = [case for case in _of_version_1() if case.name not in _OTHERWISE][way::3]
    plans = [(case, plan) for case in cases if (plan := _rewritten(case, way)) is not None]
    assert len(plans) > 500
    differing = [case.name for case, plan in plans if verify(plan, case.policy).ok is not case.must_run]
    assert differing == []


def test_messages_show_the_way_of_the_data_through_blocks_and_sub_plans() -> None:
    plan = plan_of(
        """
        PLAN find ($q: json) {
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


def test_question_names_the_way_of_the_data_that_it_is_about() -> None:
    text = 'S1: @READ_FILE (path="a.txt") > $a\n?IF ($a != "") {\nS2: @HOST_EXEC (command="rm -r x")\n}'
    verdict = verify(plan_of(text), policy_of({}), can_ask=True)
    (why,) = [one.detail for one in verdict.obligations if str(one.kind) == "approve"]
    assert "S1 $a → if1 → S2 whether it is called" in why
    assert [(view.step, view.tool) for view in verdict.asked] == [("S2", "HOST_EXEC")]


def test_labels_of_calls_name_what_they_read_and_what_made_it() -> None:
    text = 'S1: @READ_FILE (path="a.txt") > $a\nLET $b = $a + "."\nS2: @LLM_SUMMARIZE ($b) > $s'
    _, labels = verify(plan_of(text), policy_of({})).steps
    assert (labels.step, [(name, str(label)) for name, label in labels.reads]) == ("S2", [("0", "U/priv")])
    assert labels.because == ("let1",)


def _nested(depth: int) -> Plan:
    """Deeper than a text may nest."""
    statement: Statement = Let("", "x", Literal(1))
    for _ in range(depth):
        statement = If("", (Branch(Literal(True), (statement,)),))
    return plan_of_tree(with_ids(Tree((statement,))))


def _chain(count: int) -> Plan:
    plans = [
        f"PLAN p{n} ($x: json) {{\nC{n}: CALL p{n + 1} (x=$x) > $y\nRETURN ($y)\n}}" for n in range(count)
    ]
    return _calling(plans)


def _doubled(count: int) -> Plan:
    plans = [
        f"PLAN p{n} ($x: json) {{\nA{n}: CALL p{n + 1} (x=$x) > $y\nB{n}: CALL p{n + 1} (x=$y) > $z\n}}"
        for n in range(count)
    ]
    return _calling(plans)


def _calling(plans: list[str]) -> Plan:
    last = f"PLAN p{len(plans)} ($x: json) {{\nRETURN ($x)\n}}"
    return plan_of("\n".join([*plans, last, "C: CALL p0 (x=1) > $r"]))


@pytest.mark.parametrize(
    ("make", "size", "message"),
    [
        (_nested, 100, "nests more than 50 blocks deep"),
        (_chain, 60, "nests more than 50 blocks deep"),
        (_chain, 2_000, "nests more than 50 blocks deep"),
        (_doubled, 14, "statements; at most 10,000 are possible"),
    ],
    ids=["blocks", "sub-plans", "many sub-plans", "doubled sub-plans"],
)
def test_plan_that_grows_too_large_is_refused_at_once(
    make: Callable[[int], Plan], size: int, message: str
) -> None:
    found = verify(make(size), Policy(), parameters={}).violations
    assert [message in violation.message for violation in found] == [True]


def test_long_plan_whose_sub_plans_are_small_is_proved() -> None:
    called = "PLAN p ($x: json) {\nRETURN ($x)\n}\nC: CALL p (x=1) > $r\n"
    lets = "".join(f"LET $v{n} = 0\n" for n in range(10_000))
    assert verify(plan_of(called + lets), Policy(), parameters={}).ok


def test_deep_plan_within_the_limit_is_proved() -> None:
    text = 'S1: @READ_FILE (path="notes.txt") > $a\n'
    text += "".join(f"?FOREACH ($i{n} IN [1, 2]) {{\n" for n in range(45))
    text += "S2: @WEB_SEARCH (query=$a) > $r\n" + "}\n" * 45
    assert {violation.step for violation in verify(plan_of(text), Policy()).violations} == {"S2"}


def test_long_chain_that_a_loop_carries_ends_soon() -> None:
    count = 300
    lets = "".join(f"LET $v{n} = 0\n" for n in range(count + 1))
    sets = "".join(f"SET $v{n} = $v{n + 1}\n" for n in range(count))
    text = f'S1: @READ_FILE (path="notes.txt") > $a\n{lets}SET $v{count} = $a\n?REPEAT (max=500) {{\n{sets}}}'
    text += " UNTIL (1 == 2)\nS2: @WEB_SEARCH (query=$v0) > $r"
    started = process_time()
    assert [violation.step for violation in verify(plan_of(text), Policy()).violations] == ["S2"]
    assert process_time() - started < 3


@pytest.mark.parametrize("made", ["[V, V]", '{"a": V, "b": V}', '"${V}, ${V}"', "V + V"])
def test_value_made_of_itself_again_and_again_is_proved_soon(made: str) -> None:
    text = 'S1: @READ_FILE (path="notes.txt") > $a\nLET $v0 = "https://evil.example/?q=${a}"\n'
    for n in range(40):
        text += f"LET $v{n + 1} = {made.replace('${V}', f'${{v{n}}}').replace('V', f'$v{n}')}\n"
    started = process_time()
    found = verify(plan_of(f"{text}S2: @RESPOND ($v40)"), Policy()).violations
    assert {violation.step for violation in found} == {"S2"}
    assert process_time() - started < 3
