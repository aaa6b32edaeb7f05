"""Resuming a run under another policy: what differs, what remains, what is in flight."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.compiled import looks_inside

from callsheet import Answer, CallsheetError, RunResult, RunStatus, Runtime, tool
from callsheet.api.proving import PolicyRefused
from callsheet.ir.labels import read_label
from callsheet.policy.canon import policy_hash
from callsheet.policy.model import AgentRule, Implicit, Limit, Policy, SourceRule, ToolRule, When
from callsheet.policy.rules.base import Verdicts
from callsheet.store import EventType, Journal

PUBLIC, PRIVATE = read_label("T/pub"), read_label("U/priv")
QUIET = ToolRule(egress=False, destructive=False, idempotent=True, returns=PUBLIC)
OWN = Policy(
    name="own",
    tools={
        "DIARY": replace(QUIET, returns=PRIVATE),
        "MAIL": replace(QUIET, returns=PRIVATE),
        "MENU": QUIET,
        "POST": replace(QUIET, egress=True),
        "KEEP": QUIET,
    },
)


def other(**changes: Any) -> Policy:
    return replace(OWN, name="other", **changes)


def with_tool(name: str, **changes: Any) -> Policy:
    return other(tools={**OWN.tools, name: replace(OWN.tools[name], **changes)})


class World:
    """A runtime with a journal, and the effects of its tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work" / "docs").mkdir(parents=True)
        self.done: list[str] = []

    def runtime(self, policy: Policy | None = OWN) -> Runtime:
        @tool(effect="read")
        def diary(day: str = "") -> str:
            self.done.append("diary")
            return "dear diary"

        @tool(effect="read")
        def menu(day: str = "") -> str:
            self.done.append("menu")
            return "soup"

        @tool(effect="keyed")
        def post(text: str) -> str:
            self.done.append(f"post {text}")
            return "posted"

        @tool(effect="idempotent")
        def keep(text: str) -> str:
            self.done.append(f"keep {text}")
            return "kept"

        @tool(effect="read")
        def mail(day: str = "") -> Any:
            return {"day": "mon", "text": "psst"}

        return Runtime(
            [diary, menu, post, keep, mail],
            journal=self.folder / "runs.db",
            policy=policy,
            builtins=True,
            workspace=self.folder / "work",
        )

    async def waits(self, plan: str, policy: Policy | None = OWN) -> RunResult:
        result = await self.runtime(policy).run(plan, run_id="r")
        assert result.status is RunStatus.WAITING
        return result

    async def resume(self, policy: Policy | None, accept: bool = True, answer: str = "yes") -> RunResult:
        runtime = self.runtime()
        if policy is not None and accept:
            await runtime.answer("r", answer=Answer.of(answer))
        return await runtime.resume("r", policy=policy, accept_changed_policy=accept)

    def policies(self) -> list[str]:
        with Journal.open(self.folder / "runs.db") as journal:
            rows = [row for row in journal.events("r") if row.type is EventType.POLICY]
            return [(row.body or {})["policy_hash"] for row in rows]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


ASKS = 'S1: @DIARY () > $d\nS2: @MENU () > $m\nS3: @ASK_HUMAN ("go?") > $a\n'


async def test_different_policy_is_refused_unless_accepted(world: World) -> None:
    await world.waits(ASKS + "S4: @KEEP ($d)")
    with pytest.raises(CallsheetError) as caught:
        await world.resume(with_tool("KEEP", approval=When.ALWAYS), accept=False)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == (
        "JRN023",
        "run r is under the policy own, and other differs from it in 2 parts",
    )
    assert found.help is not None
    assert found.help.splitlines() == [
        "name: own → other",
        "tools.KEEP.approval: never → always",
        "resume(…, accept_changed_policy=True) continues under it, if the rest of the plan satisfies it",
    ]
    assert world.policies() == []


async def test_accepted_policy_is_journaled_and_stays_in_force(world: World) -> None:
    await world.waits(ASKS + "S4: @KEEP ($d)\nS5: @RESPOND ($m)")
    policy = with_tool("KEEP", approval=When.ALWAYS)
    result = await world.resume(policy)
    assert result.status is RunStatus.WAITING
    assert [ask.why for ask in result.waiting] == [("the policy requires approval for @KEEP",)]
    assert len(world.policies()) == 1
    await world.runtime().answer("r")
    assert (await world.runtime().resume("r")).response == "soup"
    assert world.done == ["diary", "menu", "keep dear diary"]


async def test_original_policy_may_be_named_again(world: World) -> None:
    await world.waits(ASKS + "S4: @RESPOND ($m)")
    assert (await world.resume(replace(OWN))).response == "soup"
    assert world.policies() == []


async def test_run_without_policy_cannot_be_resumed_under_one(world: World) -> None:
    await world.waits(ASKS + "S4: @RESPOND ($m)", policy=None)
    with pytest.raises(CallsheetError, match="was started without a policy") as caught:
        await world.runtime(None).resume("r", policy=OWN, accept_changed_policy=True)
    assert caught.value.diagnostics[0].code == "JRN023"


# ---------------------------------------------------------------- what is left of the plan


async def test_remaining_steps_are_proved_with_labels_of_values(
    world: World,
) -> None:
    await world.waits(ASKS + "S4: @KEEP ($d)\nS5: @KEEP ($m)")
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(with_tool("KEEP", egress=True))
    (found,) = caught.value.diagnostics
    assert (found.code, found.step) == ("POL103", "S4")
    assert world.policies() == []
    assert (await world.runtime().resume("r")).status is RunStatus.DONE, "it goes on under its own"
    assert world.done == ["diary", "menu", "keep dear diary", "keep soup"]


async def test_labels_are_not_lowered_by_other_policy(world: World) -> None:
    await world.waits(ASKS + "S4: @POST ($m)\nS5: @KEEP ($d)")
    tools = {**OWN.tools, "DIARY": QUIET, "KEEP": replace(QUIET, egress=True)}
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(other(tools=tools))
    assert [d.step for d in caught.value.diagnostics] == ["S5"]


async def test_labels_of_files_written_by_run_count_for_its_remaining_steps(world: World) -> None:
    docs = (SourceRule(kind="file", pattern="docs/**", label=PUBLIC),)
    own = replace(OWN, sources=docs, tools={**OWN.tools, "POST": QUIET})
    copies = '@DIARY () > $d\nS2: @WRITE_FILE ("docs/copy.txt", $d) > $w\nS3: @ASK_HUMAN ("go?") > $a\n'
    await world.waits(f'S1: {copies}S4: @READ_FILE ("docs/copy.txt") > $c\nS5: @POST ($c)', own)
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(replace(own, name="other", tools=OWN.tools))
    assert [(d.code, d.step) for d in caught.value.diagnostics] == [("POL103", "S5")]


async def test_completed_steps_may_violate_other_policy(world: World) -> None:
    await world.waits(ASKS + "S4: @RESPOND ($m)")
    assert (await world.resume(other(denied_tools=frozenset({"DIARY", "MENU"})))).response == "soup"


async def test_jump_back_makes_completed_steps_remaining_steps(world: World) -> None:
    plan = ASKS + 'S4: ?IF ($a == "again") THEN GOTO S1\nS5: @RESPOND ($m)'
    await world.waits(plan)
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(other(denied_tools=frozenset({"DIARY"})))
    assert [(d.code, d.step) for d in caught.value.diagnostics] == [("POL102", "S1")]


async def test_data_that_decided_jump_counts_for_remaining_steps(world: World) -> None:
    plan = 'S1: @DIARY () > $d\nS2: ?IF ($d == "dear diary") THEN GOTO S4\nS3: @RESPOND ("no")\n'
    plan += 'S4: @ASK_HUMAN ("go?") > $a\nS5: @KEEP ("x")\nS6: @RESPOND ("done")'
    await world.waits(plan)
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(with_tool("KEEP", egress=True))
    assert [(d.code, d.step) for d in caught.value.diagnostics] == [("POL114", "S5")]


async def test_known_text_is_judged_by_its_content(world: World) -> None:
    runtime = Runtime(builtins=True, journal=world.folder / "runs.db", policy=OWN, workspace=world.folder)
    plan = 'S1: @ASK_HUMAN ("go?") > $a\nS2: @WRITE_FILE ($path, "x")\nS3: @RESPOND ("ok")'
    await runtime.run(plan, {"path": "out/a.txt"}, run_id="r")
    await runtime.answer("r", answer=Answer.of("yes"))
    result = await runtime.resume("r", policy=other(implicit=Implicit.STRICT), accept_changed_policy=True)
    assert result.response == "ok"


async def test_remaining_graph_contains_steps_not_done(world: World) -> None:
    steps: list[tuple[Any, ...]] = [
        ("1", "diary", {}, [], "d"),
        ("2", "menu", {}, [], "m"),
        ("3", "ask_human", {"prompt": "go?"}, ["1", "2"], "a"),
        ("4", "keep", {"text": "${m}"}, ["3"], "k"),
    ]
    keys = "index", "tool", "args", "depends_on", "result_variable"
    plan = json.dumps({"goal": "g", "steps": [dict(zip(keys, s, strict=True), title="t") for s in steps]})
    await world.waits(plan)
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(other(denied_tools=frozenset({"DIARY", "KEEP"})))
    assert [d.step for d in caught.value.diagnostics] == ["4"]
    assert (await world.runtime().resume("r", policy=other(denied_tools=frozenset({"DIARY"})),
                                         accept_changed_policy=True)).ok  # fmt: skip


# ---------------------------------------------------------------- what is under way


async def test_open_question_is_asked_again_under_other_policy(world: World) -> None:
    asks = with_tool("KEEP", approval=When.ALWAYS)
    first = await world.waits('S1: @DIARY () > $d\nS2: @KEEP ($d) > $k\nS3: @RESPOND ("ok")', policy=asks)
    await world.runtime().answer("r")
    tools = {**OWN.tools, "KEEP": replace(QUIET, destructive=True)}
    second = await world.runtime().resume("r", policy=other(tools=tools), accept_changed_policy=True)
    assert second.status is RunStatus.WAITING, "the yes was given to another question"
    assert second.waiting[0].digest != first.waiting[0].digest
    assert second.waiting[0].why == ("@KEEP cannot be undone",)
    await world.runtime().answer("r")
    assert (await world.runtime().resume("r")).response == "ok"


KEEPS = 'S1: @DIARY () > $d\nS2: @KEEP ($d) > $k\nS3: @ASK_HUMAN ("go?") > $a\nS4: @RESPOND ("ok")'
ASKING = with_tool("KEEP", approval=When.ALWAYS)
FINAL = with_tool("KEEP", destructive=True)


async def asked(world: World) -> list[tuple[str, tuple[str, ...]]]:
    """The open questions with their reasons."""
    return [(ask.digest, ask.why) for ask in await world.runtime().inbox()]


async def test_only_approvals_of_policy_in_force_wait_for_answer(
    world: World,
) -> None:
    await world.waits(KEEPS, policy=ASKING)
    for policy, why in (
        (FINAL, "@KEEP cannot be undone"),
        (ASKING, "the policy requires approval for @KEEP"),
    ):
        now = await world.runtime().resume("r", policy=policy, accept_changed_policy=True)
        assert [(ask.digest, ask.why) for ask in now.waiting] == await asked(world)
        assert [reasons for _, reasons in await asked(world)] == [(why,)]
    await world.runtime().answer("r")
    later = await world.runtime().resume("r")
    assert [(ask.step, ask.kind) for ask in later.waiting] == [("S3", "question")]


async def test_pending_questions_remain_under_policy_that_would_not_ask_them(world: World) -> None:
    first = await world.waits(KEEPS, policy=ASKING)
    assert first.waiting[0].why == ("the policy requires approval for @KEEP",)
    now = await world.runtime().resume("r", policy=OWN, accept_changed_policy=True)
    assert [(ask.digest, ask.why) for ask in now.waiting] == [(first.waiting[0].digest, ())]
    assert await asked(world) == [(first.waiting[0].digest, ())], "no reason of a policy that holds no more"
    await world.runtime().answer("r")
    later = await world.runtime().resume("r")
    assert [ask.step for ask in later.waiting] == ["S3"]


@looks_inside
async def test_answer_counts_when_policies_word_reasons_differently(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        now = Verdicts.ask
        older.setattr(Verdicts, "ask", lambda notes, why: now(notes, f"in older words: {why}"))
        await world.waits(
            'S1: @KEEP ("a") > $k\nS2: @KEEP ("b") > $l\nS3: @KEEP ("c")\nS4: @RESPOND ("ok")', ASKING
        )
        await world.runtime().answer("r")
        (second,) = (await world.runtime().resume("r")).waiting
        assert second.why == ("in older words: the policy requires approval for @KEEP",)
        await world.runtime().answer("r", digest=second.digest)
    (third,) = (await world.runtime().resume("r")).waiting
    assert (third.step, world.done) == ("S3", ["keep a", "keep b"])
    await world.runtime().answer("r", digest=third.digest)
    assert (await world.runtime().resume("r")).response == "ok"


async def test_question_of_both_policies_keeps_its_deadline(world: World) -> None:
    await world.waits('S1: @ASK_HUMAN ("go?", timeout=3000) > $a\nS2: @RESPOND ("ok")')
    (before,) = await world.runtime().inbox()
    await world.runtime().resume("r", policy=with_tool("KEEP", egress=True), accept_changed_policy=True)
    (after,) = await world.runtime().inbox()
    assert before.until is not None
    assert (after.digest, after.until) == (before.digest, before.until)
    await world.runtime().answer("r", answer=Answer.of("yes"))
    assert (await world.runtime().resume("r")).response == "ok"


async def test_call_in_flight_that_other_policy_forbids_causes_refusal(world: World) -> None:
    await world.waits(
        'S1: @MENU () > $m\nS2: @KEEP ($m) > $k\nS3: @RESPOND ("ok")', with_tool("KEEP", approval=When.ALWAYS)
    )
    with pytest.raises(PolicyRefused) as caught:
        await world.runtime().resume(
            "r", policy=other(denied_tools=frozenset({"KEEP"})), accept_changed_policy=True
        )
    assert caught.value.diagnostics[0].step == "S2"


async def test_bounds_of_other_policy_apply_and_never_loosen(world: World) -> None:
    await world.waits(ASKS + 'S4: @KEEP ("a")\nS5: @KEEP ("b")', policy=replace(OWN, max_calls=50))
    result = await world.resume(other(max_calls=4, agent=AgentRule()))
    assert result.refusal is not None
    assert (result.refusal.budget, result.refusal.limit) == ("max_calls", 4)


async def test_older_journal_folds_to_same_end(world: World) -> None:
    await world.waits(ASKS + "S4: @RESPOND ($m)")
    policy = other(max_steps=9)
    result = await world.resume(policy)
    again = await world.runtime().resume("r")
    assert (result.response, again.response) == ("soup", "soup")
    assert world.policies() == [policy_hash(policy)]


# ---------------------------------------------------------------- plans with blocks

BLOCKS = '# ltp: 2\nS1: @DIARY () > $d\nS2: @MENU () > $m\nS3: @ASK_HUMAN ("go?") > $a\n'
ITEMS = """# ltp: 2
PLAN kept ($x: str) -> str {
  S1: @KEEP (text=$x) > $k
  RETURN ($k)
}
S2: @MENU () > $m
S3: ?FOREACH ($n IN ["a", "b"]) IN ORDER {
  S4: @ASK_HUMAN ($n) > $a
  S5: CALL kept (x=$n) > $k
}
@RESPOND ($m)
"""


@pytest.mark.parametrize(
    ("rest", "changed", "found"),
    [
        ("S4: @KEEP (text=$d)\n", with_tool("KEEP", egress=True), ["POL103 S4"]),
        ("S4: @KEEP (text=$m)\n", with_tool("KEEP", egress=True), []),
        ("", other(denied_tools=frozenset({"DIARY", "MENU"})), []),
        ("S4: @MENU () > $n\n", other(denied_tools=frozenset({"DIARY", "MENU"})), ["POL102 S4"]),
        (
            "S4: @KEEP (text=$d)\n",
            other(tools={**OWN.tools, "DIARY": QUIET, "KEEP": replace(QUIET, egress=True)}),
            ["POL103 S4"],
        ),
        (
            'S4: ?IF ($d == "dear diary") {\nS5: @KEEP (text="x")\n}\n',
            with_tool("KEEP", egress=True),
            ["POL114 S5"],
        ),
    ],
    ids=["what is left", "public data", "what is done", "done and left", "no lower labels", "a decision"],
)
async def test_what_is_left_of_a_plan_with_blocks_is_proved(
    world: World, rest: str, changed: Policy, found: list[str]
) -> None:
    await world.waits(f"{BLOCKS}{rest}@RESPOND ($m)\n")
    if found:
        with pytest.raises(PolicyRefused) as caught:
            await world.resume(changed)
        assert [f"{d.code} {d.step}" for d in caught.value.diagnostics] == found
        assert world.policies() == []
        assert (await world.runtime().resume("r")).response == "soup", "it goes on under its own"
    else:
        assert (await world.resume(changed)).response == "soup"
        assert world.policies() == [policy_hash(changed)]


async def test_decision_so_far_counts_under_labels_that_the_run_has_found(world: World) -> None:
    plan = '# ltp: 2\nS1: @DIARY () > $d\nS2: ?IF ($d == "dear diary") {\nS3: @ASK_HUMAN ("go?") > $a\n'
    await world.waits(plan + 'S4: @KEEP (text="x")\n}\n@RESPOND ("ok")')
    tools = {**OWN.tools, "DIARY": QUIET, "KEEP": replace(QUIET, egress=True)}
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(other(tools=tools))
    assert [(d.code, d.step) for d in caught.value.diagnostics] == [("POL114", "S4")]


async def test_item_in_progress_goes_on_under_other_policy(world: World) -> None:
    await world.waits(ITEMS)
    asks = with_tool("KEEP", approval=When.ALWAYS)
    first = await world.resume(asks)
    assert [(ask.key, ask.why) for ask in first.waiting] == [
        ("S3[0]/S5/S1.1", ("the policy requires approval for @KEEP",))
    ]
    await world.runtime().answer("r")
    second = await world.runtime().resume("r", policy=OWN, accept_changed_policy=True)
    assert [ask.key for ask in second.waiting] == ["S3[1]/S4.1"]
    await world.runtime().answer("r", answer=Answer.of("yes"))
    assert (await world.runtime().resume("r")).response == "soup"
    assert world.done == ["menu", "keep a", "keep b"]
    assert len(world.policies()) == 2


async def test_call_of_a_block_in_flight_that_other_policy_forbids_causes_refusal(world: World) -> None:
    asks = with_tool("KEEP", approval=When.ALWAYS)
    await world.waits('# ltp: 2\nTRY {\nS1: @KEEP (text="a")\n} ON_FAIL {\nNOTE ("no")\n}', asks)
    with pytest.raises(PolicyRefused) as caught:
        await world.runtime().resume(
            "r", policy=other(denied_tools=frozenset({"KEEP"})), accept_changed_policy=True
        )
    assert caught.value.diagnostics[0].step == "S1"


# ---------------------------------------------------------------- limits over several calls

TWICE = 'S1: @KEEP (text="a") > $k\nS2: @ASK_HUMAN ("go?") > $a\nS3: @KEEP (text="b") > $l\n@RESPOND ("ok")\n'


def limited(**changes: Any) -> Policy:
    return other(limits=(Limit(tools=("KEEP",), **changes),))


@pytest.mark.parametrize("head", ["", "# ltp: 2\n"], ids=["steps", "blocks"])
async def test_limits_of_the_other_policy_hold_from_then_on(world: World, head: str) -> None:
    plan = TWICE.replace("@RESPOND", 'S4: @KEEP (text="c") > $m\n@RESPOND')
    await world.waits(head + plan)
    result = await world.resume(limited(calls=1))
    assert [ask.why for ask in result.waiting] == [
        ("@KEEP would be call 2 of @KEEP, and the policy allows 1 a run",)
    ]
    assert world.done == ["keep a", "keep b"]


@pytest.mark.parametrize("head", ["", "# ltp: 2\n"], ids=["steps", "blocks"])
async def test_a_limit_of_both_policies_goes_on_where_it_was(world: World, head: str) -> None:
    await world.waits(head + TWICE, replace(limited(calls=1), name="before"))
    result = await world.resume(limited(calls=1))
    assert [ask.step for ask in result.waiting] == ["S3"]
    assert world.done == ["keep a"]


@pytest.mark.parametrize("head", ["", "# ltp: 2\n"], ids=["steps", "blocks"])
async def test_a_call_that_waits_counts_once_when_it_is_judged_again(world: World, head: str) -> None:
    asks = replace(ASKING, limits=limited(calls=1).limits)
    await world.waits(f'{head}S1: @KEEP (text="a") > $k\n@RESPOND ("ok")\n', asks)
    again = replace(asks, name="again", max_calls=9)
    result = await world.runtime().resume("r", policy=again, accept_changed_policy=True)
    assert [ask.why for ask in result.waiting] == [("the policy requires approval for @KEEP",)]


@pytest.mark.parametrize("head", ["", "# ltp: 2\n"], ids=["steps", "blocks"])
async def test_what_a_limit_needs_may_have_been_called_before(world: World, head: str) -> None:
    needs = limited(needs=("MENU",), then="refuse")
    plan = 'S1: @MENU () > $m\nS2: @ASK_HUMAN ("go?") > $a\nS3: @KEEP (text="b") > $l\n@RESPOND ("ok")\n'
    await world.waits(head + plan, replace(needs, name="before"))
    assert (await world.resume(needs)).response == "ok"


async def test_fields_that_the_other_policy_knows_do_not_lower_what_the_run_has_found(world: World) -> None:
    plan = '# ltp: 2\nS1: @MAIL () > $d\nS2: @ASK_HUMAN ("go?") > $a\nS3: @KEEP (text=$d.day) > $k\n'
    await world.waits(f'{plan}@RESPOND ("ok")\n')
    told = replace(OWN.tools["MAIL"], fields={"day": PUBLIC})
    with pytest.raises(PolicyRefused) as caught:
        await world.resume(other(tools={**OWN.tools, "MAIL": told, "KEEP": replace(QUIET, egress=True)}))
    assert "POL103 S3" in {f"{d.code} {d.step}" for d in caught.value.diagnostics}


async def test_a_pause_goes_on_under_another_policy(world: World) -> None:
    plan = '# ltp: 2\nS1: @MENU () > $m\nWAIT 1\nS2: @KEEP (text="a") > $k\n@RESPOND ("ok")\n'
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await world.runtime().run(plan, run_id="r")
    assert world.done == ["menu"]
    result = await world.runtime().resume("r", policy=limited(calls=1), accept_changed_policy=True)
    assert (result.response, world.done) == ("ok", ["menu", "keep a"])
