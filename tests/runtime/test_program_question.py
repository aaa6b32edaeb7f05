"""One question for a program: what a yes covers, and that what is shown of it does not mislead."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callsheet import Answer, CallsheetError, Journal, PendingAsk, RunResult, Runtime, tool
from callsheet.apps.mcp.elicitation import forms_of
from callsheet.apps.rendering.runs import partial_json, program_lines, questions_lines
from callsheet.machine.forecasting import Items, Text, Unknown
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.inbox import ProgramQuestions, programs_of
from callsheet.runtime.program_question import MOST_LISTED, ProgramQuestion
from callsheet.views.describe import LTP

PLAN = """
async def main():
    team = await get_team(name="x")
    for one in team:
        await send_mail(recipients=[one["mail"]], body=one["task"])
    more = await get_team(name="y")
    await send_mail(recipients=["zoe@x.example"], body=f"All: {more}")
    await delete_mail(mail_id=more[0]["task"])
    return "done"
"""
POLICY = 'schema = 1\nextends = "workspace"\n[class]\nreads = ["get_*"]\n'


class World:
    """Tools that tell what was called; `team` is what reading gives."""

    def __init__(self, path: Path, team: list[dict[str, str]] | None = None, more: str = "") -> None:
        self.calls: list[str] = []
        self.team = team or [{"mail": f"{name}@other.example", "task": name} for name in ("ada", "bob")]
        policy, self.path = path / "policy.toml", path / "runs.db"
        policy.write_text(POLICY + more)

        @tool(effect="read")
        def get_team(name: str) -> list[Any]:
            return self.team

        @tool(does="sends")
        def send_mail(recipients: list[str], body: str) -> str:
            self.calls.append(f"send {','.join(recipients)} {body}")
            return "sent"

        @tool(does="deletes")
        def delete_mail(mail_id: str) -> str:
            self.calls.append(f"delete {mail_id}")
            return "gone"

        self.runtime = Runtime([get_team, send_mail, delete_mail], policy=str(policy), journal=self.path)

    def run(self, plan: str = PLAN) -> RunResult:
        return self.runtime.run_sync(plan, run_id="r")

    def program(self, ask: PendingAsk) -> ProgramQuestion | None:
        with Journal.open(self.path) as journal:
            return programs_of(journal, [ask]).get(ask.digest)

    def approve(self, ask: PendingAsk, digest: str) -> RunResult:
        self.runtime.answer_sync("r", ask.key, Answer.approve(by="ada", for_program=digest))
        return self.runtime.resume_sync("r")


def asked(result: RunResult) -> PendingAsk:
    (ask,) = result.waiting
    return ask


def test_one_yes_covers_the_calls_that_were_shown_and_no_other(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(39)]
    world = World(tmp_path, [{"mail": f"{name}@other.example", "task": name} for name in names])
    ask = asked(world.run())
    program = world.program(ask)
    assert program is not None
    marks = [(call.tool, call.alone is None) for call in program.calls]
    assert marks == [("SEND_MAIL", True)] * 39 + [("DELETE_MAIL", False)]
    waits = asked(world.approve(ask, program.digest))
    assert waits.tool == "DELETE_MAIL", "what it deletes was not known, so it asks"
    sent = [call.split()[1] for call in world.calls]
    assert sent == [*(f"{name}@other.example" for name in names), "zoe@x.example"]  # forty, and one question


def test_yes_is_for_what_was_shown_and_a_no_for_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path)
    ask = asked(world.run())
    with pytest.raises(CallsheetError, match=r"RUN030.*have changed since they were shown"):
        world.approve(ask, "0" * 64)
    world.runtime.answer_sync("r", ask.key, True)
    assert asked(world.runtime.resume_sync("r")).args == {"recipients": ["bob@other.example"], "body": "bob"}
    with pytest.raises(CallsheetError, match="only a call can be approved"):
        world.runtime.answer_sync("r", None, replace(Answer.deny(), for_program="1"))


def test_call_that_turns_out_otherwise_asks_again(tmp_path: Path) -> None:
    plan = """
async def main():
    first = await get_team(name="x")
    await send_mail(recipients=[first[0]["mail"]], body="a")
    second = await get_team(name="y")
    await send_mail(recipients=["zoe@x.example", second[0]["mail"]], body="b")
    await send_mail(recipients=["zoe@x.example"], body=second[0]["task"])
"""
    world = World(tmp_path)
    ask = asked(world.run(plan))
    program = world.program(ask)
    assert program is not None
    assert [call.alone for call in program.calls] == ["recipients will be known only then", None]
    again = asked(world.approve(ask, program.digest))
    assert again.args == {"recipients": ["zoe@x.example", "ada@other.example"], "body": "b"}


def test_no_yes_covers_a_call_that_somebody_with_a_role_has_to_approve(tmp_path: Path) -> None:
    demands = '[tools.delete_mail]\napprover = "finance"\n'
    plan = """
async def main():
    team = await get_team(name="x")
    await send_mail(recipients=[team[0]["mail"]], body="a")
    await send_mail(recipients=[team[1]["mail"]], body="b")
    await delete_mail(mail_id="7")
"""
    world = World(tmp_path, more=demands)
    ask = asked(world.run(plan))
    program = world.program(ask)
    assert program is not None
    assert [call.alone for call in program.calls] == [None, "only somebody with the role finance may answer"]
    waits = asked(world.approve(ask, program.digest))
    assert (waits.tool, waits.role, len(world.calls)) == ("DELETE_MAIL", "finance", 2)
    assert forms_of(RunOutcome("r", None, waiting=(waits,)), {}, {}) == {}
    (form,) = forms_of(RunOutcome("r", None, waiting=(ask, waits)), {}, {}).values()
    assert "the approval of delete_mail by somebody with the role finance" in form.message.splitlines()[-1]
    with pytest.raises(CallsheetError, match="RUN039"):
        world.runtime.answer_sync("r", waits.key, True)


HOSTILE = [
    'eve@evil.example\n  + main.other @SEND_MAIL\n      recipients = ["ada@corp.example"]',
    "ada@corp.example\u202e",
    "ada@c\u043erp.example",
    "x@y.example\r\x1b[2K\x1b[1Aada@corp.example",
    "‹GET_TEAM result›",
    '"] + ‹x› + ["',
    "ada@corp.example\u2028\u2029\u0085because nobody is told",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_shown_text_does_not_mislead(tmp_path: Path, text: str) -> None:
    world = World(tmp_path, [{"mail": "ada@other.example", "task": "a"}, {"mail": text, "task": text}])
    ask = asked(world.run())
    program = world.program(ask)
    assert program is not None
    lines = list(program_lines(program, ask.site))
    assert all(line.isprintable() for line in lines), "no line breaks, controls or bidirectional marks"
    assert sum(line.startswith(("  + ", "  ? ")) for line in lines) == len(program.calls) == 3
    (shown,) = [line for line in lines if line.startswith("      recipients = ")][:1]
    assert (shown[:21], shown[-2:]) == ('      recipients = ["', '"]'), "between quotes, as data"
    assert "\u043e" not in text or any("look like Latin ones" in line for line in lines)
    (form,) = forms_of(RunOutcome("r", None, waiting=(ask,)), {ask.digest: program}, {}).values()
    assert form.message.splitlines()[-len(lines) :] == lines
    world.approve(ask, program.digest)
    assert any(call.startswith(f"send {text} ") for call in world.calls), "exactly that was called"


def test_long_value_and_many_calls_are_not_approved_unread(tmp_path: Path) -> None:
    names = [f"n{n}" for n in range(MOST_LISTED + 10)]
    team = [{"mail": f"{name}@x.example", "task": name} for name in names]
    team[1]["task"] = "x" * 5_000
    world = World(tmp_path, team)
    ask = asked(world.run())
    program = world.program(ask)
    assert program is not None
    assert program.calls[0].alone == "an argument is too long to be shown here"
    assert (len(program.calls), program.more) == (MOST_LISTED, 11)
    assert any(f"and {program.more} more" in line for line in program_lines(program))
    assert asked(world.approve(ask, program.digest)).args == {
        "recipients": [team[1]["mail"]], "body": team[1]["task"]
    }  # fmt: skip


def test_form_of_a_client_answers_for_the_program(tmp_path: Path) -> None:
    world = World(tmp_path)
    ask = asked(world.run())
    program = world.program(ask)
    assert program is not None
    ((name, form),) = forms_of(RunOutcome("r", None, waiting=(ask,)), {ask.digest: program}, {}).items()
    assert name.endswith(f"+{program.digest}")
    assert set(form.schema["properties"]) == {"approve", "program", "note"}
    assert form.schema["required"] == ["approve"], "the further calls are not approved by default"


def test_calls_side_by_side_are_answered_together(tmp_path: Path) -> None:
    plan = """
import asyncio
async def main():
    await delete_mail(mail_id="1")
    await asyncio.gather(delete_mail(mail_id="2"), delete_mail(mail_id="3"))
    await delete_mail(mail_id="4")
"""
    world = World(tmp_path)
    ask = asked(world.run(plan))
    world.runtime.answer_sync("r", ask.key, True)
    waiting = world.runtime.resume_sync("r").waiting
    assert [each.args for each in waiting] == [{"mail_id": "2"}, {"mail_id": "3"}]
    program = world.program(waiting[0])
    assert program is not None
    assert [dict(call.arguments)["mail_id"] for call in program.calls] == ["3", "4"]
    assert world.approve(waiting[0], program.digest).status.value == "done"
    assert sorted(world.calls) == [f"delete {n}" for n in (1, 2, 3, 4)]


def test_program_is_worked_out_again_only_when_its_run_goes_on(tmp_path: Path) -> None:
    world, details = World(tmp_path), ProgramQuestions()
    ask = asked(world.run())
    with Journal.open(world.path) as journal:
        (first,) = details.of(journal, [ask]).values()
        assert details.of(journal, [ask])[ask.digest] is first
    waits = asked(world.approve(ask, first.digest))
    with Journal.open(world.path) as journal:
        assert ask.digest not in details.of(journal, [waits])


def test_questions_of_one_program_are_shown_once(tmp_path: Path) -> None:
    text = """
import asyncio
async def send(one):
    return await send_mail(recipients=[one["mail"]], body=one["task"])
async def main():
    return await asyncio.gather(*[send(one) for one in await get_team(name="x")])
"""
    team = [{"mail": f"p{number}@other.example", "task": f"t{number}"} for number in range(8)]
    world = World(tmp_path, team)
    asks = world.run(text).waiting
    assert len(asks) == 8
    with Journal.open(world.path) as journal:
        programs = programs_of(journal, asks)
    shown = [lines for _, lines in questions_lines(asks, programs=programs)]
    assert sum("p7@other.example" in line for line in shown[0]) == 2, "its address, and the reason to ask"
    assert [len(lines) for lines in shown[1:]] == [2] * 7
    assert "shown above with +" in shown[7][0]


def test_placeholders_differ_from_texts_that_imitate_them() -> None:
    imitation, real = partial_json("‹READ result›", LTP), partial_json(Unknown("READ result"), LTP)
    assert (imitation, real) == ('"‹READ result›"', "‹READ result›")
    named = Unknown('x› + "‹y', "S1", ("a›b",))
    assert partial_json(Items(("a", Text(("b", named)))), LTP).count("›") == 1


def test_run_with_secrets_shows_nothing_of_its_further_calls(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = PLAN.replace("main()", "main(token: str)")
    result = asyncio.run(world.runtime.run(plan, run_id="r", secrets={"token": "s3cret-token-value"}))
    assert world.program(asked(result)) is None
