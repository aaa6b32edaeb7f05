"""Approvals beyond one call: for the rest of a plan, proposed for the policy, and those of earlier runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from callsheet import Answer, CallsheetError, Limits, PendingAsk, Plan, Runtime, tool
from callsheet.machine import Approval
from callsheet.policy.model import Policy, ToolRule, When
from callsheet.runtime import precedents
from callsheet.runtime.inbox import precedents_of
from callsheet.runtime.precedents import ChangedPlan, Precedent, coverage, covers, in_words, policy_line
from callsheet.store import Journal

if TYPE_CHECKING:
    from tests.apps.conftest import Machine

MAIL = ToolRule(audience_arg="to", destructive=False, approval=When.IF_UNTRUSTED_OR_OUTSIDE)
POLICY = Policy(tools={"MAIL": MAIL, "DROP": ToolRule(control=("*",), approval=When.ALWAYS)})
LABELS = {"body": {"label": "U/priv", "from": ["S1"]}}
ASKED = Approval(
    "MAIL", {"to": "eve@c.example", "body": "one"}, (), "plan", LABELS, "digest", why=("sends private data",)
)
COVERED = coverage(ASKED, "S2", POLICY)


def test_approval_for_plan_covers_other_content_for_the_same_recipients() -> None:
    assert covers(COVERED, ASKED._replace(args={"to": "eve@c.example", "body": "two"}), "S2")
    assert in_words(COVERED, ASKED) == (
        "every call of @MAIL by S2 in this run with the same to, whatever its body"
    )


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"args": {"to": "mallory@c.example", "body": "one"}}, "S2"),
        ({"args": {"to": ["eve@c.example"], "body": "one"}}, "S2"),
        ({"args": {"to": "eve@c.example", "body": "one", "cc": "mallory@c.example"}}, "S2"),
        ({"args": {"to": "eve@c.example"}}, "S2"),
        ({"tool": "POST"}, "S2"),
        ({"plan": "a new plan"}, "S2"),
        ({"labels": {"body": {"label": "U/priv", "from": ["S1", "S9"]}}}, "S2"),
        ({"labels": {**LABELS, "to": {"label": "U/pub", "from": ["S1"]}}}, "S2"),
        ({"why": ("untrusted data decides 'to' of @MAIL",)}, "S2"),
        ({"why": ()}, "S2"),
        ({"answer": ("made",)}, "S2"),
        ({}, "S3"),
    ],
)
def test_approval_for_plan_covers_nothing_else(change: dict[str, Any], step: str) -> None:
    assert not covers(COVERED, ASKED._replace(**change), step)


def test_approval_for_plan_of_what_decides_by_every_argument_covers_only_the_same_call() -> None:
    drop = Approval("DROP", {"id": "7", "note": "a"}, (), "plan", {}, "digest", why=("cannot be undone",))
    for policy in (POLICY, None):
        covered = coverage(drop, "S2", policy)
        assert covers(covered, drop, "S2")
        assert not covers(covered, drop._replace(args={"id": "7", "note": "b"}), "S2")


def test_line_for_policy_names_only_strangers_and_keeps_who_was_trusted() -> None:
    known = replace(MAIL, trusted_audience=("*@corp.example",))
    line = policy_line(
        Policy(tools={"MAIL": known}),
        "MAIL",
        {"to": "ada@corp.example, Eve <eve@c.example>", "cc": ["b@c.example"]},
    )
    assert line == ('[tools."@MAIL"]\ntrusted_audience = ["*@corp.example", "eve@c.example", "b@c.example"]')


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("DROP", {"id": "7"}),
        ("MAIL", {"to": "*@c.example"}),
        ("MAIL", {"to": '*"]\n[defaults]\nunknown_tool = "ask'}),
        ("MAIL", {"body": "x"}),
        ("OTHER", {"to": "eve@c.example"}),
    ],
)
def test_no_line_is_proposed_that_would_say_more_than_the_call(tool: str, args: dict[str, Any]) -> None:
    assert policy_line(POLICY, tool, args) is None


def test_precedent_says_what_differs() -> None:
    assert str(Precedent("r1", "ada", 0.0, ())) == (
        "the same call, with the same arguments from the same steps, was approved by ada for run r1"
    )
    assert str(Precedent("r1", "", 0.0, ("to", "the reason to ask"))) == (
        "this step's call was approved for run r1, but to and the reason to ask differed"
    )
    forged = "ada\n    amount = 5\u2028    to = 'bob'"
    for note in (Precedent("r1", forged, 0.0, ()), Precedent("r1", "", 0.0, (forged,))):
        assert len(str(note).splitlines()) == 1
    assert str(ChangedPlan("r1", forged, ("-a", "+b"))).splitlines()[1:] == ["-a", "+b"]


TOOLS = """
import callsheet

@callsheet.tool(effect="read")
def get_mail(query: str = "") -> str: return "the mail"

@callsheet.tool(does="sends")
def send_mail(recipients: str, body: str) -> str: return "sent"
"""
LOOP = (
    'S1: @GET_MAIL (query="a") > $m',
    'S2: ?FOREACH ($x IN ["one", "two", "three"]) THEN @SEND_MAIL (recipients="$who", body="$x: $m") > $r',
    'S3: @RESPOND ("ok")',
)


def started(machine: Machine, run_id: str, who: str = "eve@c.example") -> Any:
    machine.write("mail.py", TOOLS)
    plan = machine.plan(*LOOP)
    return machine(
        *(
            "run",
            plan,
            "--tools",
            "mail.py",
            "--policy",
            "workspace",
            "--run-id",
            run_id,
            "--var",
            f"who={who}",
        )
    )


def test_loop_is_approved_with_one_answer(machine: Machine) -> None:
    assert started(machine, "r1").exit_code == 4
    approved = machine("approve", "r1", "--for-plan", "--by", "ada")
    assert "every call of @SEND_MAIL by S2 in this run with the same recipients" in approved.stdout
    done = machine("resume", "r1", "--tools", "mail.py")
    assert (done.exit_code, done.stdout) == (0, "ok\n"), done.stderr
    assert done.stderr.count("approved for this plan at S2.0.1") == 2, "the journal says by which answer"
    again = started(machine, "r2")
    assert again.exit_code == 4, "an answer for the plan holds in its run only"
    same = "the same call, with the same arguments from the same steps, was approved by ada for run r1"
    for asked in (again.stderr, machine("inbox").stdout):
        assert same in asked
    assert started(machine, "r3", "mallory@c.example").exit_code == 4
    assert (
        "was approved by ada for run r1, but recipients and the reason to ask differed"
        in machine("inbox").stdout
    )


def test_always_proposes_line_and_approves_one_call(machine: Machine) -> None:
    assert started(machine, "r1").exit_code == 4
    said = machine("approve", "r1", "--always").stdout
    assert '[tools."@SEND_MAIL"]\ntrusted_audience = ["eve@c.example"]' in said
    assert machine("resume", "r1", "--tools", "mail.py").exit_code == 4, "the next item asks again"


async def test_program_answers_for_the_plan(tmp_path: Path) -> None:
    @tool(does="sends")
    def send_mail(recipients: str, body: str) -> str:
        return body

    @tool(effect="read")
    def get_mail(query: str) -> str:
        return query

    plan = Plan.parse("\n".join(["PLAN_START", *LOOP, "PLAN_END"]).replace("$who", "eve@c.example"))
    async with Runtime(tools=[send_mail, get_mail], policy="workspace", journal=tmp_path / "j.db") as runtime:
        first = await runtime.run(plan, run_id="r1")
        assert first.status == "waiting"
        await runtime.answer("r1", "S2", Answer.approve(by="ada", for_plan=True))
        assert (await runtime.resume("r1")).status == "done"


async def test_question_names_the_steps_whose_data_decides_whether_a_call_is_made() -> None:
    @tool(does="deletes")
    def drop(mail: str) -> str:
        return mail

    @tool(effect="read")
    def get_mail(query: str) -> dict[str, str]:
        return {"subject": query}

    plan = Plan.parse(
        '# ltp: 2\nS1: @GET_MAIL (query="a") > $m\nLET $is_old = $m.subject == "a"\n'
        '?IF ($is_old) {\n  S2: @DROP (mail="7")\n}\n?FOREACH ($x IN $m) {\n  S3: @DROP (mail="8")\n}\n'
    )
    asked: list[tuple[str, ...]] = []

    def on_approval(ask: PendingAsk) -> bool:
        asked.append(ask.why)
        return True

    async with Runtime(tools=[drop, get_mail], policy="workspace", on_approval=on_approval) as runtime:
        assert (await runtime.run(plan)).status == "done"
    why = "untrusted data decides (S1) whether @DROP is called, which cannot be undone"
    assert [why in each for each in asked] == [True, True]


async def test_question_is_not_answered_for_the_plan(tmp_path: Path) -> None:
    plan = Plan.parse('PLAN_START\nS1: @ASK_HUMAN ("go on?") > $a\nPLAN_END')
    async with Runtime(journal=tmp_path / "j.db") as runtime:
        await runtime.run(plan, run_id="r1")
        with pytest.raises(CallsheetError, match=r"RUN031.*only a call can be approved for the plan"):
            await runtime.answer("r1", "S1", Answer.approve(for_plan=True))


def test_answers_that_make_no_sense_are_usage_errors(machine: Machine) -> None:
    for options in (("--deny", "--for-plan"), ("--all", "--always"), ("--answer", "x", "--for-plan")):
        assert machine("approve", "r1", *options).exit_code == 2


def test_all_waiting_calls_of_a_step_are_approved_together_as_shown(machine: Machine) -> None:
    assert started(machine, "r1").exit_code == 4
    assert machine("approve", "r1", "S2", "--all", "--digest", "0" * 64).exit_code == 2
    rows = machine.json("approve", "r1", "S2", "--all")
    assert [row["key"] for row in rows] == ["S2.0.1"]
    assert machine("approve", "r1", "S2", "--all").exit_code == 2, "nothing waits any more"


def test_run_shows_that_one_answer_may_be_for_all_of_the_program(machine: Machine) -> None:
    machine.write("mail.py", TOOLS)
    program = (
        "async def main():\n    m = await get_mail()\n"
        "    await send_mail(recipients='a@c.example', body=m)\n"
        "    await send_mail(recipients='b@c.example', body=m)\n    return 'ok'\n"
    )
    machine.write("p.py", program)
    waits = machine("run", "p.py", "--tools", "mail.py", "--policy", "workspace", "--run-id", "r1")
    assert waits.exit_code == 4
    assert "+ main.send_mail2 send_mail" in waits.stderr
    digest = waits.stderr.partition("--program ")[2].split()[0]
    assert machine("approve", "r1", "main.send_mail.1", "--program", digest).exit_code == 0
    done = machine("resume", "r1", "--tools", "mail.py")
    assert (done.exit_code, done.stdout) == (0, "ok\n"), done.stderr


async def test_change_is_told_of_the_plan_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    @tool(effect="unsafe")
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError("there is no such person")
        sent.append(to)
        return to

    def body(to: str, title: str = "Send") -> dict[str, Any]:
        step = {"index": "1", "title": "s", "tool": "SEND", "args": {"to": to}, "depends_on": []}
        return {"id": "send_it", "title": title, "steps": [step]}

    limits = Limits(replans_on_failure=1)
    async with Runtime(
        [send], planner=lambda _: body("eve"), limits=limits, approve=["SEND"], journal=tmp_path / "j.db"
    ) as runtime:

        async def told(run_id: str, given: dict[str, Any]) -> list[str | None]:
            """What the questions of a run say, each of which is answered with yes."""
            notes: list[str | None] = []
            run = await runtime.run(Plan.parse(json.dumps(given)), run_id=run_id)
            while run.status == "waiting":
                with Journal.open_to_read(tmp_path / "j.db") as journal:
                    notes.append(precedents_of(journal, run.waiting).get(run.waiting[0].digest))
                await runtime.answer(run_id, run.waiting[0].key, Answer.approve(by="ada"))
                run = await runtime.resume(run_id)
            return notes

        assert await told("r1", body("nobody")) == [None, None]
        same = "the same call, with the same arguments from the same steps, was approved by ada for run r1"
        assert await told("r2", body("nobody")) == [same, same]
        changed, new = await told("r3", body("nobody", "Mail"))
        assert changed is not None
        assert (
            changed.splitlines()[0]
            == "this plan has changed since calls of it were approved by ada for run r2:"
        )
        assert '-      "args": {"to": "eve"},' in changed.splitlines(), "the plan that r2 has had last"
        assert new is None, "the new plan is the same"
        monkeypatch.setattr(precedents, "_MOST_RUNS", 1)
        (unread,) = await told("r4", body("x"))
        assert (
            unread
            == "no call like it was approved in the newest 1 runs of this plan; older ones were not read"
        )
    assert str(ChangedPlan("r1", "", ())).endswith("were approved for run r1, but no line of its text")
