"""Labels by field: what a server says of a mail is trusted, what is in the mail is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet import OperationModel, Runtime, tool
from callsheet.api.policies import policies_beside
from callsheet.api.proving import Assumptions, prove
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.spelling import read_plan_text
from callsheet.ir.labels import UNKNOWN, read_label
from callsheet.policy.canon import policy_from_json, policy_to_json
from callsheet.policy.field_labels import FieldLabels, either
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.tools import Registry

BANK = """
schema = 1
extends = "workspace"
[class]
reads = ["get_*"]
[class.pays]
tools = ["send_money"]
destructive = false
approval = "if-untrusted-or-outside"
private_to_named = true
[tools]
get_transactions = { returns = "T/priv", fields = { subject = "U/priv", "extra.note" = "U/priv" } }
"""
HEAD = "async def main():\n    rows = await get_transactions()\n"
NO_QUESTION = [
    "    await send_money(recipient=rows[0]['sender'], amount=rows[0]['amount'])",
    "    first = rows[0]\n    who = first['sender']\n    await send_money(recipient=who, amount=1)",
    "    for row in rows[:2]:\n        await send_money(recipient=row['sender'], amount=1)",
    "    names = [row['sender'] for row in rows if row['amount'] > 2]\n"
    "    await send_money(recipient=names[0], amount=1)",
    "    if rows[0]['amount'] > 2:\n        await send_money(recipient=rows[0]['extra']['iban'], amount=1)",
    "    who = await llm_extract('who?', data=[row['sender'] for row in rows])\n"
    "    await send_money(recipient=who, amount=1)",
]
"""What the bank itself says decides about a payment."""
ASKED = [
    "    await send_money(recipient=rows[0]['subject'], amount=1)",
    "    await send_money(recipient=rows[0]['extra']['note'], amount=1)",
    "    first = rows[0]\n    await send_money(recipient=first['subject'], amount=1)",
    "    for row in rows:\n        await send_money(recipient=row['subject'], amount=1)",
    "    names = [row['sender'] for row in rows if 'friend' in row['subject']]\n"
    "    await send_money(recipient=names[0], amount=1)",
    "    names = [row for row in rows]\n    await send_money(recipient=names[0]['sender'], amount=1)",
    "    who = await llm_extract('who?', data=rows)\n    await send_money(recipient=who, amount=1)",
    "    extra = rows[0]['extra']\n"
    "    await send_money(recipient=(await llm_extract('who?', data=extra)), amount=1)",
    "    key = rows[1]['subject']\n    await send_money(recipient=rows[0][key], amount=1)",
    "    await send_money(recipient=rows[len(rows[0]['subject']):][0]['sender'], amount=1)",
    "    await send_money(recipient=sorted(rows, key=lambda r: r['subject'])[0]['sender'], amount=1)",
    "    who = rows[0]['sender'] if rows[0]['subject'] == 'x' else rows[1]['sender']\n"
    "    await send_money(recipient=who, amount=1)",
    "    copy = {'sender': rows[0]['subject']}\n    await send_money(recipient=copy['sender'], amount=1)",
    "    text = f\"{rows[0]['sender']} {rows[0]['subject']}\"\n"
    "    await send_money(recipient=text, amount=1)",
    "    pair = await get_transactions(rows[0]['subject'])\n"
    "    await send_money(recipient=pair[0]['sender'], amount=1)",
]
"""What a stranger has written decides about it, on whatever way."""


def policy_of(text: str = BANK) -> Policy:
    return read_policy(Source("policy.toml", text), policies_beside(Path("policy.toml")))


@tool(effect="read")
def get_transactions(query: str = "") -> Any:
    return [
        {
            "sender": "GB1",
            "amount": 3,
            "subject": "x",
            "friend": "GB5",
            "extra": {"iban": "GB2", "note": "EVIL"},
        },
        {
            "sender": "GB3",
            "amount": 1,
            "subject": "friend",
            "friend": "GB5",
            "extra": {"iban": "GB4", "note": "y"},
        },
    ]


PAID: list[str] = []


@tool(does="pays")
def send_money(recipient: str, amount: float) -> str:
    PAID.append(recipient)
    return "paid"


async def outcome(folder: Path, body: str) -> str:
    PAID.clear()
    place = folder / "runs.db"
    model = OperationModel(lambda request: "GB9")
    async with Runtime(
        [get_transactions, send_money], model=model, policy=policy_of(), journal=place
    ) as runtime:
        result = await runtime.run(text_of(body))
    why = [each for question in result.waiting for each in question.why]
    return "; ".join(why) or f"{result.status.value} {result.error or result.objection or ''}"


def text_of(body: str) -> str:
    return f"{HEAD}{body}\n    return 'Done.'\n"


def is_proved_without_questions(body: str, policy: Policy) -> bool:
    plan = read_plan_text(text_of(body)).result.plan
    assert plan is not None
    registry = Registry()
    for each in (get_transactions, send_money):
        registry.add(tool_of(each))
    return prove(plan, policy, registry, Assumptions(can_ask=False)).ok


@pytest.mark.parametrize("body", NO_QUESTION)
def test_what_the_server_says_of_a_result_decides_without_a_question(tmp_path: Path, body: str) -> None:
    said = asyncio.run(outcome(tmp_path, body))
    assert said.startswith("done"), said
    assert PAID
    assert is_proved_without_questions(body, policy_of())
    assert not is_proved_without_questions(body, policy_of(BANK.replace("T/priv", "U/priv")))


@pytest.mark.parametrize("body", ASKED)
def test_what_a_stranger_wrote_into_a_field_is_asked_about(tmp_path: Path, body: str) -> None:
    said = asyncio.run(outcome(tmp_path, body))
    assert "untrusted data decides 'recipient' of @SEND_MONEY" in said
    assert not PAID
    assert not is_proved_without_questions(body, policy_of())


def test_a_text_that_looks_like_a_result_has_no_fields(tmp_path: Path) -> None:
    @tool(effect="read")
    def get_transactions(query: str = "") -> Any:
        return '[{"sender": "GB9", "amount": 1, "subject": "\\", \\"sender\\": \\"EVIL\\""}]'

    async def run() -> Any:
        PAID.clear()
        async with Runtime(
            [get_transactions, send_money], policy=policy_of(), journal=tmp_path / "runs.db"
        ) as runtime:
            loop = "    for row in rows:\n        await send_money(recipient=row['sender'], amount=1)"
            return await runtime.run(text_of(loop))

    result = asyncio.run(run())
    assert result.status.value != "done"
    assert not PAID


@pytest.mark.parametrize("type_", ["json", "list[dict[str, json]]", "list[{sender: str}]"])
def test_a_text_that_is_read_as_json_has_no_fields_either(tmp_path: Path, type_: str) -> None:
    @tool(effect="read")
    def get_transactions(query: str = "") -> Any:
        return '[{"sender": "GB9"}]'

    async def run() -> Any:
        PAID.clear()
        tools = [get_transactions, send_money]
        async with Runtime(tools, policy=policy_of(), journal=tmp_path / "runs.db") as runtime:
            plan = f"# ltp: 2\nS1: @GET_TRANSACTIONS () > $rows: {type_}\n"
            return await runtime.run(f"{plan}S2: @SEND_MONEY (recipient=$rows[0].sender, amount=1)\n")

    (question,) = asyncio.run(run()).waiting
    assert "untrusted data decides 'recipient' of @SEND_MONEY" in "; ".join(question.why)
    assert not PAID


OWN_WORD = BANK.replace(
    'returns = "T/priv", fields = { subject = "U/priv", "extra.note" = "U/priv" }',
    'fields = { sender = "T/priv", friend = "T/priv" }',
)


@pytest.mark.parametrize(
    ("path", "is_asked"),
    [
        ("$rows[0].sender", False),
        ('$rows[0]?.sender ?? "GB1"', True),
        ('$rows[0].sender ?? "GB1"', True),
        ('$rows[0]?.iban ?? "GB1"', True),
    ],
)
def test_whether_a_field_is_there_is_nobody_s_word(tmp_path: Path, path: str, is_asked: bool) -> None:
    plan = f"# ltp: 2\nS1: @GET_TRANSACTIONS () > $rows\nS2: @SEND_MONEY (recipient={path}, amount=1)\n"
    policy = policy_of(OWN_WORD)

    async def run() -> Any:
        place = tmp_path / "runs.db"
        async with Runtime([get_transactions, send_money], policy=policy, journal=place) as runtime:
            return await runtime.run(plan)

    assert bool(asyncio.run(run()).waiting) is is_asked
    read = read_plan_text(plan).result.plan
    assert read is not None
    registry = Registry()
    for each in (get_transactions, send_money):
        registry.add(tool_of(each))
    assert prove(read, policy, registry, Assumptions(can_ask=False)).ok is not is_asked


def test_an_item_of_a_list_that_is_no_text_is_not_vouched_for(tmp_path: Path) -> None:
    @tool(effect="read")
    def get_transactions(query: str = "") -> Any:
        return ["GB1", {"sender": "GB9"}]

    async def run() -> Any:
        PAID.clear()
        place = tmp_path / "runs.db"
        async with Runtime([get_transactions, send_money], policy=policy_of(NAMES), journal=place) as runtime:
            return await runtime.run(text_of("    await send_money(recipient=rows[1]['sender'], amount=1)"))

    (question,) = asyncio.run(run()).waiting
    assert "untrusted data decides 'recipient' of @SEND_MONEY" in "; ".join(question.why)
    assert not PAID


NAMES = BANK.replace(
    'returns = "T/priv", fields = { subject = "U/priv", "extra.note" = "U/priv" }',
    'fields = { "[]" = "T/priv" }',
)


@pytest.mark.parametrize(
    ("body", "is_asked"),
    [
        ("    await send_money(recipient=rows[1], amount=1)", False),
        ("    for one in rows:\n        await send_money(recipient=one, amount=1)", False),
        ("    who = rows[0]\n    await send_money(recipient=who, amount=1)", False),
        ("    names = [one for one in rows]\n    await send_money(recipient=names[0], amount=1)", True),
        (
            "    who = await llm_extract('who?', data=rows)\n    await send_money(recipient=who, amount=1)",
            True,
        ),
        ("    await send_money(recipient=sorted(rows)[0], amount=1)", True),
        ("    await send_money(recipient=', '.join(rows), amount=1)", True),
        (
            "    if 'x' in rows:\n        rows = ['y']\n    await send_money(recipient=rows[0], amount=1)",
            True,
        ),
    ],
)
def test_an_item_of_a_list_may_be_taken_and_the_list_decides_nothing(body: str, is_asked: bool) -> None:
    assert is_proved_without_questions(body, policy_of(NAMES)) != is_asked


def test_labels_of_fields_are_in_the_canonical_form_and_rise_together() -> None:
    policy = policy_of()
    assert policy_from_json(policy_to_json(policy)) == policy
    labels = FieldLabels.of(read_label("T/priv"), {"a": read_label("T/pub"), "b.c": UNKNOWN})
    assert labels.whole == UNKNOWN
    assert labels.raised(read_label("U/secret")).at("a")[0] == read_label("U/secret")
    assert either(labels, labels) == labels
    assert either(labels, FieldLabels.of(UNKNOWN, {"a": UNKNOWN})) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('get_x = { fields = { "a..b" = "T/pub" } }', "'a..b' is no field"),
        ('get_x = { fields = { "[].b" = "T/pub" } }', "'[].b' is no field"),
        ('get_x = { fields = { a = "trusted" } }', "tools.get_x.fields.a must be a label"),
        ('get_x = { fields = "a" }', "tools.get_x.fields must be a table of labels by field"),
        ('"@FETCH_PAGE" = { fields = { a = "T/pub" } }', "is a built-in tool"),
        ('get_x = { fields = { a = "T/finance" } }', "'finance' is not an audience of this policy"),
    ],
)
def test_fields_that_cannot_be_are_errors_with_their_place(line: str, said: str) -> None:
    with pytest.raises(CallsheetError) as raised:
        policy_of(f"schema = 1\n[tools]\n{line}\n")
    assert said in str(raised.value)
