"""Limits over calls together: how many, how much, what after what, when; before a run and during it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from callsheet import Answer, OperationModel, Runtime, tool
from callsheet.api.policies import policies_beside
from callsheet.api.policy_entries import bind_policy
from callsheet.api.proving import Assumptions, PolicyRefused, Proof, prove
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.spelling import read_plan_text
from callsheet.policy.canon import is_of, policy_from_json, policy_to_json
from callsheet.policy.limits import CallHistory, limit_name, outside_hours
from callsheet.policy.model import Limit, Per, Policy
from callsheet.policy.policy_file import read_policy
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.tools import Registry
from callsheet.store.labels import LabelStore

BASE = """
schema = 1
extends = "workspace"
[class]
reads = ["get_*"]
writes = ["update_*", "drop"]
[class.sends]
tools = ["send_*"]
private_to_named = true
[class.pays]
tools = ["pay"]
destructive = false
private_to_named = true
approval = "if-untrusted-or-outside"
"""
SENDS = '[[limit]]\ntools = ["send_*"]\ncalls = 2\n'
PAYS = '[[limit]]\ntools = ["pay"]\nsum = "amount"\nmost = 100\n'
AFTER = '[[limit]]\ntools = ["drop"]\nafter = ["get_secrets"]\n'
NEEDS = '[[limit]]\ntools = ["update_*"]\nneeds = ["get_*"]\n'
DONE: list[str] = []


@tool(effect="read")
def get_list() -> list[int]:
    return [40, 50, 60]


@tool(effect="read")
def get_secrets() -> str:
    return "x"


@tool(does="sends")
def send_mail(to: str, body: str = "") -> str:
    DONE.append(to)
    return "sent"


@tool(does="writes")
def update_row(row: int = 0) -> str:
    DONE.append("update")
    return "done"


@tool(does="writes")
def drop(row: int = 0) -> str:
    DONE.append("drop")
    return "done"


@tool(does="pays")
def pay(recipient: str, amount: float) -> str:
    DONE.append(str(amount))
    return "paid"


TOOLS = [get_list, get_secrets, send_mail, update_row, drop, pay]


def policy_of(limits: str) -> Policy:
    return read_policy(Source("policy.toml", BASE + limits), policies_beside(Path("policy.toml")))


def proof_of(text: str, limits: str, *, can_ask: bool = False) -> Proof:
    plan = read_plan_text(text).result.plan
    assert plan is not None
    registry = Registry()
    for each in TOOLS:
        registry.add(tool_of(each))
    return prove(plan, policy_of(limits), registry, Assumptions(can_ask=can_ask))


async def outcome(folder: Path, text: str, limits: str, *, says: bool | None = None) -> str:
    DONE.clear()
    async with Runtime(TOOLS, policy=policy_of(limits), journal=folder / "runs.db") as runtime:
        try:
            result = await runtime.run(text)
        except PolicyRefused as refused:
            return str(refused)
        why: list[str] = []
        while result.waiting:
            why += [each for question in result.waiting for each in question.why]
            if says is None:
                break
            for question in result.waiting:
                answer = Answer.approve() if says else Answer.deny()
                await runtime.answer(result.run_id, question.key, answer, digest=question.digest)
            result = await runtime.resume(result.run_id)
    return "; ".join([*why, f"{result.status.value} {result.error or result.objection or ''}"])


PLANS: dict[str, tuple[str, str, str, str, list[str]]] = {
    "three sends": (
        SENDS,
        'S1: @SEND_MAIL (to="a") > $a\nS2: @SEND_MAIL (to="b") > $b\nS3: @SEND_MAIL (to="c") > $c\n',
        "    await send_mail(to='a')\n    await send_mail(to='b')\n    await send_mail(to='c')\n",
        "@SEND_MAIL would be call 3 of @SEND_*, and the policy allows 2 a run",
        ["a", "b"],
    ),
    "payments": (
        PAYS,
        'S1: @PAY (recipient="a", amount=60) > $a\nS2: @PAY (recipient="b", amount="60.5") > $b\n',
        "    await pay(recipient='a', amount=60)\n    await pay(recipient='b', amount=60.5)\n",
        "amount of @PAY would come to 120.5 in this run, and the policy allows 100",
        ["60"],
    ),
    "negative payments": (
        PAYS,
        'S1: @PAY (recipient="a", amount=-60) > $a\nS2: @PAY (recipient="b", amount=60) > $b\n',
        "    await pay(recipient='a', amount=-60)\n    await pay(recipient='b', amount=60)\n",
        "amount of @PAY would come to 120 in this run, and the policy allows 100",
        ["-60"],
    ),
    "after": (
        AFTER,
        "S1: @DROP (row=1) > $a\nS2: @GET_SECRETS () > $x\nS3: @DROP (row=2) > $b\n",
        "    await drop(row=1)\n    x = await get_secrets()\n    await drop(row=2)\n",
        "@DROP comes after @GET_SECRETS",
        ["drop"],
    ),
    "needs": (
        NEEDS,
        "S1: @UPDATE_ROW (row=1) > $a\n",
        "    await update_row(row=1)\n",
        "@UPDATE_ROW comes before any call of @GET_*",
        [],
    ),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("is_python", [False, True])
def test_a_plan_beyond_a_limit_asks_and_its_proof_says_so(tmp_path: Path, name: str, is_python: bool) -> None:
    limits, version1, body, why, before = PLANS[name]
    text = f"async def main():\n{body}    return 'Done.'\n" if is_python else version1
    told = re.sub(r"@([A-Z_]+)", lambda tool: tool[1].lower(), why) if is_python else why
    assert proof_of(text, "").ok
    assert told in str(proof_of(text, limits))
    asking = proof_of(text, limits, can_ask=True)
    assert asking.ok
    assert any(each.detail == why and each.kind.value == "approve" for each in asking.obligations)
    assert asyncio.run(outcome(tmp_path, text, limits)).startswith(why)
    assert before == DONE
    assert asyncio.run(outcome(tmp_path, text, limits, says=True)) == f"{why}; done "
    assert len(DONE) == len(before) + 1
    refused = limits + 'then = "refuse"\n'
    assert told in asyncio.run(outcome(tmp_path, text, refused))
    assert not DONE, "nothing of a plan that is surely beyond a limit is run"


@pytest.mark.parametrize(
    ("limit", "call"), [(SENDS, "send_mail(to=who)"), (PAYS, "pay(recipient=who, amount=40)")]
)
def test_a_call_that_is_made_in_one_of_two_ways_counts_once(tmp_path: Path, limit: str, call: str) -> None:
    begin = "async def main():\n    rows = await get_list()\n    who = 'a' if rows[0] > 3 else 'b'\n"
    line = f"    await {call}\n"
    twice, thrice = (f"{begin}{line * times}    return 'Done.'\n" for times in (2, 3))
    policy = f'{limit}then = "refuse"\n[tools]\nget_list = {{ returns = "T/pub" }}\n'
    assert proof_of(twice, policy).ok
    assert asyncio.run(outcome(tmp_path, twice, policy)) == "done "
    assert not proof_of(thrice, policy).ok


LOOPS = {
    "sends": (SENDS, "send_mail(to='x')", "@SEND_MAIL would be call 3 of @SEND_*", 2),
    "payments": (PAYS, "pay(recipient='x', amount=n)", "amount of @PAY would come to 150 in this run", 2),
    "after": (AFTER, "drop(row=1)\n        x = await get_secrets()", "@DROP comes after @GET_SECRETS", 1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_does_is_known_only_during_the_run(tmp_path: Path, name: str) -> None:
    limits, call, why, before = LOOPS[name]
    rows = "rows = await get_list()" if name != "payments" else "rows = [40, 50, 60]"
    text = f"async def main():\n    {rows}\n    for n in rows:\n        await {call}\n    return 'Done.'\n"
    proof = proof_of(text, limits)
    assert proof.ok
    assert any("it may be that" in each.detail for each in proof.obligations)
    assert asyncio.run(outcome(tmp_path, text, limits)).startswith(why)
    assert len(DONE) == before
    assert "refused" in asyncio.run(outcome(tmp_path, text, limits + 'then = "refuse"\n'))
    assert len(DONE) == before


def test_a_loop_of_version_1_is_counted_item_by_item(tmp_path: Path) -> None:
    text = 'S1: @GET_LIST () > $l\nS2: ?FOREACH ($n IN $l) THEN @SEND_MAIL (to="x") > $r\n'
    assert proof_of(text, SENDS).ok
    said = asyncio.run(outcome(tmp_path, text, SENDS))
    assert "@SEND_MAIL would be call 3 of @SEND_*" in said


def test_what_was_counted_is_kept_when_a_run_goes_on(tmp_path: Path) -> None:
    text = "async def main():\n    await send_mail(to='a')\n    ok = await ask_human('go?')\n"
    text += "    await send_mail(to='b')\n    await send_mail(to='c')\n    return 'Done.'\n"
    said = asyncio.run(outcome(tmp_path, text, SENDS, says=True))
    assert "@SEND_MAIL would be call 3 of @SEND_*" in said
    history = CallHistory(policy_of(SENDS))
    again = CallHistory(policy_of(SENDS))
    again.restore(history.to_json())
    with pytest.raises(ValueError, match="other limits"):
        again.restore([[1, 2], [0.0], []])


def test_a_sum_of_tenths_is_no_more_than_it_says(tmp_path: Path) -> None:
    text = 'S1: @PAY (recipient="a", amount=0.1) > $a\nS2: @PAY (recipient="b", amount={}) > $b\n'
    limit = PAYS.replace("100", "0.3")
    assert asyncio.run(outcome(tmp_path, text.format(0.2), limit)) == "done "
    assert "would come to 0.301" in asyncio.run(outcome(tmp_path, text.format(0.201), limit))


def test_an_amount_that_is_not_said_is_asked_about(tmp_path: Path) -> None:
    text = "async def main():\n    await pay(recipient='a', amount=1)\n    return 'Done.'\n"
    said = asyncio.run(outcome(tmp_path, text, PAYS.replace('"amount"', '"fee"')))
    assert said.startswith("how much fee of @PAY comes to in this run is not known")
    assert not DONE


def test_calls_are_counted_across_runs_and_hours_are_kept(tmp_path: Path) -> None:
    hourly = '[[limit]]\ntools = ["send_*"]\ncalls = 1\nper = "hour"\n'
    text = "async def main():\n    await send_mail(to='a')\n    return 'Done.'\n"
    assert asyncio.run(outcome(tmp_path, text, hourly)) == "done "
    said = asyncio.run(outcome(tmp_path, text, hourly))
    assert "@SEND_MAIL would be call 2 of @SEND_*, and the policy allows 1 an hour" in said
    assert said.startswith("refused")
    assert not DONE
    now = outside_hours(Limit(tools=("X",), hours="00:00-24:00"), "X", 0.0)
    assert now is None
    night = Limit(tools=("X",), hours="22:00-06:00", zone="Europe/Berlin")
    assert outside_hours(night, "X", 0.0) is None
    assert "13:00 (Europe/Berlin)" in (outside_hours(night, "X", 43_200.0) or "")
    closed = '[[limit]]\ntools = ["send_*"]\nhours = "{}"\n'
    import time

    hour = time.gmtime().tm_hour
    other = f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00"
    said = asyncio.run(outcome(tmp_path, text, closed.format(other)))
    assert f"the policy allows it from {other}" in said
    assert not DONE


def test_limits_across_runs_count_models_too_and_a_call_once_for_all_of_them(tmp_path: Path) -> None:
    async def said(limits: str, plan: str) -> str:
        DONE.clear()
        model = OperationModel(lambda request: "x")
        place = tmp_path / f"{len(limits)}.db"
        async with Runtime(TOOLS, model=model, policy=policy_of(limits), journal=place) as runtime:
            result = await runtime.run(plan)
        return f"{result.status.value} {result.error or result.objection or ''}"

    asks = '[[limit]]\ntools = ["llm_*"]\ncalls = 1\nper = "hour"\n'
    texts = 'S1: @LLM_GENERATE ("x") > $a\nS2: @LLM_GENERATE ("y") > $b\n'
    assert "would be call 2 of @LLM_*, and the policy allows 1 an hour" in asyncio.run(said(asks, texts))
    sends = '[[limit]]\ntools = ["send_*"]\ncalls = {}\nper = "hour"\n'
    thrice = "".join(f'S{n}: @SEND_MAIL (to="{n}") > $a\n' for n in (1, 2, 3))
    both = asyncio.run(said(sends.format(3) + sends.format(2), thrice))
    assert "would be call 3 of @SEND_*, and the policy allows 2 an hour" in both
    assert DONE == ["1", "2"]


def test_the_store_counts_what_is_in_its_window() -> None:
    store = LabelStore.in_memory()
    seen: list[tuple[int, float]] = []

    def objection(count: int, total: float) -> str | None:
        seen.append((count, total))
        return "enough" if count == 2 else None

    said = [store.admit_within("x", now, 10.0, 5.0, objection) for now in (0.0, 1.0, 2.0, 11.5)]
    assert said == [None, None, "enough", None]
    assert seen == [(0, 0.0), (1, 5.0), (2, 10.0), (0, 0.0)]
    assert store.admit_within("x", 11.4, 10.0, 5.0, objection) is None, "the clock of another process"
    assert store.admit_within("x", 11.3, 10.0, 5.0, objection) == "enough"


def test_an_alias_of_a_tool_counts_too() -> None:
    registry = Registry()
    registry.add(tool_of(send_mail), alias="POST")
    bound, _ = bind_policy(policy_of(SENDS), registry)
    history = CallHistory(bound)
    from callsheet.policy.calls import CallView

    for name in ("SEND_MAIL", "POST"):
        assert not history.breaches(CallView("S1", name, ()))
        history.add(CallView("S1", name, ()))
    assert [one.message for one in history.breaches(CallView("S1", "POST", ()))] == [
        "@POST would be call 3 of @SEND_*, and the policy allows 2 a run"
    ]
    assert is_of(bound, policy_of(SENDS))
    assert limit_name(bound.limits[0]) == limit_name(policy_of(SENDS).limits[0])


def test_limits_are_in_the_canonical_form() -> None:
    policy = policy_of(SENDS + PAYS + AFTER + NEEDS + '[[limit]]\ntools = ["pay"]\nhours = "08:00-18:00"\n')
    assert policy_from_json(policy_to_json(policy)) == policy
    assert [limit.then for limit in policy.limits] == ["ask", "ask", "ask", "ask", "refuse"]
    assert policy.limits[0].per is Per.RUN


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("calls = 1", "limit 1 lacks tools"),
        ("tools = []\ncalls = 1", "limit 1 lacks tools"),
        ('tools = ["a"]', "limit 1 says nothing"),
        ('tools = ["a"]\nafter = []', "limit 1 names no tools in after"),
        ('tools = ["a"]\nneeds = []', "limit 1 names no tools in needs"),
        ('tools = ["a"]\ncalls = 1\nneeds = ["b"]', "limit 1 has calls and needs"),
        ('tools = ["a"]\nsum = "x"', "limit 1 needs both sum and most"),
        ('tools = ["a"]\nneeds = ["b"]\nper = "hour"', "limit 1 has per, which is for calls and sum"),
        ('tools = ["a"]\ncalls = 1\nzone = "UTC"', "limit 1 has zone, which is for hours"),
        ('tools = ["a"]\ncalls = 1\nper = "hour"\nthen = "ask"', "limit 1 cannot ask"),
        ('tools = ["a"]\nhours = "8-18"', 'limit 1: hours must be hours such as "08:00-18:00"'),
        ('tools = ["a"]\nhours = "08:00-18:00"\nzone = "Mars/One"', "limit 1: zone must be a time zone"),
        ('tools = ["a"]\nsum = "x"\nmost = -1', "limit 1: most must be a number of at least 0"),
        (f'tools = ["a"]\nsum = "x"\nmost = 1{"0" * 400}', "limit 1: most must be a number of at least 0"),
        ('tools = ["a"]\ncalls = 1\nevery = 2', "a policy has no key"),
    ],
)
def test_a_limit_that_cannot_be_is_an_error_with_its_place(limit: str, said: str) -> None:
    with pytest.raises(CallsheetError) as raised:
        policy_of(f"[[limit]]\n{limit}\n")
    assert said in str(raised.value)
