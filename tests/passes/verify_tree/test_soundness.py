"""Random trees that are accepted tell an observer outside nothing of a secret, in whatever world they run."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.random_plans import Drawing
from tests.passes.verify_tree.runs import PRIVATE, SECRETS, STRICT, TOOLS, Seen, outcome, run

from callsheet.diagnostics import CallsheetError
from callsheet.machine import PolicyRefusal, Status
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy

_LEAST = 5
"""How many plans of a hundred are accepted at least; else the test shows nothing."""


def _runs(text: str, policy: Policy, *, is_given: bool) -> list[Seen] | None:
    """What each world shows of a plan, which runs in each under its policy as without one; None if it is
    refused or invalid.
    """
    inputs = PRIVATE if is_given else {}
    try:
        plan = plan_of(text)
    except CallsheetError:
        return None
    if not verify(plan, policy, inputs=inputs).ok:
        return None
    worlds: list[Seen] = []
    for world, secret in enumerate(SECRETS):
        given = dict.fromkeys(inputs, secret)
        seen = run(plan, world, given)
        held = run(plan, world, given, Enforcement.under(policy, inputs))
        if seen is None or held is None:
            return None
        assert (held.calls, held.result.status, held.result.error) == (
            seen.calls, seen.result.status, seen.result.error,
        ), text  # fmt: skip
        worlds.append(seen)
    return worlds


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_only_the_failure_of_a_call_may_end_what_is_seen(start: int) -> None:
    policy = Policy(tools=TOOLS)
    accepted = 0
    for seed in range(start, start + 100):
        text = Drawing(seed, bits=False).text()
        worlds = _runs(text, policy, is_given=False)
        accepted += worlds is not None
        for other in worlds or ():
            first = (worlds or [other])[0]
            shorter, longer = sorted((first.calls, other.calls), key=len)
            may_end = Status.FAILED in (first.result.status, other.result.status)
            assert shorter == longer or (may_end and longer[: len(shorter)] == shorter), text
    assert accepted >= _LEAST


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_a_strict_policy_lets_nothing_be_seen(start: int) -> None:
    accepted = 0
    for seed in range(start, start + 100):
        text = Drawing(seed, bits=True).text()
        worlds = _runs(text, STRICT, is_given=True)
        accepted += worlds is not None
        for other in worlds or ():
            assert other.together == (worlds or [other])[0].together, text
    assert accepted >= _LEAST


def test_what_a_strict_policy_accepts_is_never_refused_and_tells_nothing_when_a_person_says_no() -> None:
    accepted: Counter[str] = Counter()
    for seed in range(500, 750):
        try:
            plan = plan_of(text := Drawing(seed, bits=True).text())
        except CallsheetError:
            continue
        if not verify(plan, STRICT, inputs=PRIVATE).ok:
            continue
        worlds: list[Seen] = []
        for world, secret in enumerate(SECRETS):
            given = dict.fromkeys(PRIVATE, secret)
            free = outcome(plan, world, given, asks=True)
            held = outcome(plan, world, given, Enforcement.under(STRICT, PRIVATE), asks=True)
            assert not isinstance(held.result.refusal, PolicyRefusal), text
            if held.result.refusal is not None:
                break
            assert (held.calls, held.result.status, held.result.error) == (
                free.calls, free.result.status, free.result.error,
            ), text  # fmt: skip
            worlds.append(held)
            accepted["denied" if "denied by ann" in (held.result.error or "") else "went on"] += 1
        for other in worlds:
            assert other.together == worlds[0].together, text
    assert min(accepted["denied"], accepted["went on"]) >= _LEAST, accepted


def test_what_runs_of_any_plan_send_to_their_end_under_a_strict_policy_tells_nothing() -> None:
    compared: Counter[bool] = Counter()
    for seed in range(300, 500):
        try:
            plan = plan_of(text := Drawing(seed, bits=True).text())
        except CallsheetError:
            continue
        worlds = [
            run(plan, world, {"a": secret}, Enforcement.under(STRICT, PRIVATE))
            for world, secret in enumerate(SECRETS)
        ]
        ended = [one for one in worlds if one is not None and one.result.status is Status.DONE]
        assert all(one.together == ended[0].together for one in ended), text
        compared[len(ended) > 1] += 1
    assert compared[True] >= _LEAST


@pytest.mark.parametrize(("remedy", "is_proved"), [(" ON_FAIL SKIP", True), ("", False)])
def test_loop_that_takes_the_first_success_cannot_fail_by_time(remedy: str, *, is_proved: bool) -> None:
    loop = "S1: ?FOREACH ($i IN [1, 2]) TOGETHER FIRST {\n"
    for body in ("S2: @FLAKY (x=$i)\n", "?IF ($i == 2) {\nFAIL ('no')\n}\nS2: @SECRET (x=$i)\n"):
        text = f"INPUT $a: json\n{loop}{body}}} > $l{remedy}\nS3: @SEND (x=1)"
        plan = plan_of(text)
        assert verify(plan, STRICT, inputs=PRIVATE).ok is is_proved
        for world, secret in enumerate(SECRETS):
            seen = run(plan, world, {"a": secret}, Enforcement.under(STRICT, PRIVATE))
            assert seen is not None
            assert (seen.calls != ()) is is_proved


_TESTED = '?IF (str($a) == "0") {{\n{0}\n}}'
_BY_NAME = {
    "of a block": "TRY {{\n{0}\n}} ON_FAIL {{\nNOTE (1)\n}}",
    "of an item that is left out": "S1: ?FOREACH ($i IN [1, 2]) {{\n{0}\n}} > $l ON_FAIL SKIP",
    "of the first item": "S1: ?FOREACH ($i IN [1, 2]) TOGETHER FIRST {{\n{0}\n}} > $l ON_FAIL SKIP",
    "of a message": 'TRY {{\nTRY {{\n{0}\n}} ON_FAIL TERMINATE ("no")\n}} ON_FAIL {{\nNOTE (1)\n}}',
    "raised again": (
        "TRY {{\nTRY {{\n{0}\n}} ON_FAIL DENIED, CANCELLED {{\nFAIL ($error)\n}}\n}} ON_FAIL {{\nNOTE (1)\n}}"
    ),
    "beside others": "@PARALLEL STOP {{\n{0}\nNOTE (1)\n}} ON_FAIL {{\nNOTE (1)\n}}",
    "of a sub-plan": "TRY {{\nS1: CALL q (a=$a)\n}} ON_FAIL {{\nNOTE (1)\n}}",
}
_RAISED = {
    "denied": 'FAIL ("no", kind="DENIED")',
    "cancelled": 'FAIL ("no", kind="CANCELLED")',
    "data": 'FAIL ({{"kind": "DENIED", "message": "no", "step": ""}})',
}


@pytest.mark.parametrize("around", _BY_NAME)
@pytest.mark.parametrize("how", _RAISED)
def test_failure_that_only_a_name_catches_tells_of_itself_behind_handlers_for_all_others(
    around: str, how: str
) -> None:
    tested = _TESTED.format(_RAISED[how].replace("{{", "{").replace("}}", "}"))
    plans = f"PLAN p ($a: json) {{\n{tested}\n}}\nPLAN q ($a: json) {{\nS0: CALL p (a=$a)\n}}\n"
    text = f"{plans}INPUT $a: json\n{_BY_NAME[around].format(tested)}\nS3: @SEND (x=1)"
    plan = plan_of(text)
    assert not verify(plan, STRICT, inputs=PRIVATE).ok
    held = [
        run(plan, world, {"a": secret}, Enforcement.under(STRICT, PRIVATE))
        for world, secret in enumerate(SECRETS)
    ]
    assert all(one is not None and one.calls == () for one in held)


@pytest.mark.parametrize("around", _BY_NAME)
@pytest.mark.parametrize("raised", ['FAIL ("no")', 'FAIL ("no", kind="NOT_UNDONE")'])
def test_failure_that_is_handled_tells_nothing_behind(around: str, raised: str) -> None:
    tested = _TESTED.format(raised)
    plans = f"PLAN p ($a: json) {{\n{tested}\n}}\nPLAN q ($a: json) {{\nS0: CALL p (a=$a)\n}}\n"
    if around != "of a message":
        plan = plan_of(f"{plans}INPUT $a: json\n{_BY_NAME[around].format(tested)}\nS3: @SEND (x=1)")
        assert verify(plan, STRICT, inputs=PRIVATE).ok


@pytest.mark.parametrize("argument", ["$a", "str($a)", '"to ${a}"'])
@pytest.mark.parametrize("call", ["S1: @OPEN (x={})", "S1: CALL p (a={})"])
def test_whether_the_arguments_of_a_handled_call_exist_is_part_of_its_one_bit_in_proof_and_run(
    call: str, argument: str
) -> None:
    policy = Policy(tools=TOOLS)
    text = (
        "PLAN p ($a: json) {\nS0: @OPEN (x=$a)\n}\nX1: @SECRET () > $a\n"
        f"TRY {{\n{call.format(argument)}\n}} ON_FAIL FAIL {{\nNOTE (1)\n}}\nS3: @SEND (x=1)"
    )
    plan = plan_of(text)
    assert verify(plan, policy).ok
    held = run(plan, 0, {}, Enforcement.under(policy))
    assert held is not None
    assert held.calls == (str([("x", 1)]),)


@pytest.mark.parametrize("end", ["@RESPOND (1)", 'FAIL ("other")', "REQUIRE (1 == 2)"])
@pytest.mark.parametrize("named", ["", "FAIL "])
def test_end_in_a_handler_tells_of_the_failure_in_a_run_without_a_proof(end: str, named: str) -> None:
    tested = _TESTED.format('FAIL ("no")')
    inner = f"TRY {{\n{tested}\n}} ON_FAIL {named}{{\n{end}\n}}"
    plan = plan_of(f"INPUT $a: json\nTRY {{\n{inner}\n}} ON_FAIL TOOL {{\nNOTE (1)\n}}\nS3: @SEND (x=1)")
    assert not verify(plan, STRICT, inputs=PRIVATE).ok
    for world, secret in enumerate(SECRETS):
        held = run(plan, world, {"a": secret}, Enforcement.under(STRICT, PRIVATE))
        assert held is not None
        assert held.calls == ()
