"""A run under a policy, with real tools and a real journal: a refused call never reaches its tool."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.tools import plan_of
from tests.security.world import FACTS, POLICY, World, refusal

from callsheet.api.plan import Plan
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect, plan_hash
from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.machine import Status, ToolFacts
from callsheet.machine.program import Loop
from callsheet.policy.canon import policy_hash
from callsheet.policy.model import AgentRule, ReplanRule
from callsheet.ports.calls import CallContext
from callsheet.runtime.answers import Answer
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import fold_run
from callsheet.runtime.inbox import answer_run, inbox
from callsheet.runtime.runs import run_unrecorded, start_run
from callsheet.store import EventType, JournalError, RunStatus
from callsheet.store.labels import LabelStore

YES = Respondents(lambda ask: True)
LEAK = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WEB_SEARCH ("about $n"{}) > $r{}\nS3: @RESPOND ("done")'


def labels_of(world: World, run_id: str = "run") -> dict[str, str]:
    info = world.journal.find_run(run_id)
    folded = fold_run(world.journal, run_id, world.journal.plan_of(info.plan_hash))
    assert folded.machine.monitor is not None
    return {name: str(label) for name, (label, _) in folded.machine.monitor.variables().items()}


@pytest.mark.parametrize("then", ["", " ON_FAIL GOTO S3", " ON_FAIL @RETRY(2)", ' ON_FAIL TERMINATE ("x")'])
async def test_private_data_is_never_sent_outside_under_any_plan(world: World, then: str) -> None:
    world.write("notes.txt", "private")
    found = refusal(await world.run(LEAK.format("", then)))
    assert world.sent == []
    assert (found.step, found.tool, found.rule, found.argument) == ("S2", "WEB_SEARCH", "flow", "query")
    assert (found.label, found.flow) == ("U/priv", ("S1", "S2"))
    assert world.journal.find_run("run").status is RunStatus.REFUSED


@pytest.mark.parametrize("text", ["http://[", "https://a:99999/", "data:text/html,x", "https://\ud800/", ""])
@pytest.mark.parametrize("then", ["", " ON_FAIL GOTO S3"])
async def test_malformed_address_from_data_ends_run_by_rule(world: World, text: str, then: str) -> None:
    fetched: list[Any] = []
    world.tools["FETCH_PAGE"] = fetched.append
    world.tools["WEB_SEARCH"] = lambda args: text
    plan = f'S1: @WEB_SEARCH ("x") > $u\nS2: @FETCH_PAGE ($u) > $p{then}\nS3: @RESPOND ("done")'
    facts = {"FETCH_PAGE": ToolFacts(Effect.READ, ("url",))}
    found = refusal(await world.run(plan, facts=facts))
    assert (found.step, found.rule, found.argument, fetched) == ("S2", "address", "url", [])


async def test_public_data_may_be_sent(world: World) -> None:
    world.write("docs/a.txt", "public")
    outcome = await world.run('S1: @READ_FILE ("docs/a.txt") > $n\nS2: @WEB_SEARCH ("$n") > $r')
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    assert world.sent == [{"query": "public"}]


async def test_journal_has_reason_and_resumed_run_has_same_end(world: World) -> None:
    world.write("notes.txt", "private")
    first = await world.run(LEAK.format("", ""))
    end = list(world.journal.events("run"))[-1]
    assert end.body is not None
    assert end.body["objection"]["rule"] == "flow"
    assert (await world.resume()).result == first.result


async def test_only_verified_plan_is_run(world: World) -> None:
    plan = plan_of('S1: @NOTE ("x")')
    launch = replace(world.launch(plan, {}, {}), verified=plan_hash(plan_of('S1: @NOTE ("y")')))
    with pytest.raises(CallsheetError) as caught:
        await start_run(plan, world.ports(), launch, world.journal, "run")
    assert caught.value.diagnostics[0].code == "RUN050"


# ---------------------------------------------------------------- the policy of a run


async def interrupted(world: World, text: str) -> None:
    """A run whose process ends during @NOTE."""
    reached = asyncio.Event()

    async def hang(args: dict[str, Any], context: CallContext) -> JSON:
        reached.set()
        await asyncio.sleep(60)
        return None

    kept, world.tools["NOTE"] = world.tools["NOTE"], hang
    driving = asyncio.create_task(world.run(text, facts={"NOTE": ToolFacts(parameters=("text",))}))
    async with asyncio.timeout(50):
        await reached.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    world.tools["NOTE"] = kept


INTERRUPTED = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @NOTE ("x") > $m\nS3: @WEB_SEARCH ("$n")'


async def test_run_continues_under_original_policy(world: World) -> None:
    from callsheet.machine import Decision

    world.write("notes.txt", "private")
    await interrupted(world, INTERRUPTED)
    start = next(iter(world.journal.events("run")))
    assert start.body is not None
    assert start.body["policy_hash"] == policy_hash(POLICY)
    assert labels_of(world) == {"n": "U/priv", "m": "T/pub"}
    assert refusal(await world.resume(in_doubt=Decision.SKIP)).step == "S3"
    assert world.sent == []


async def test_policy_budgets_apply(world: World) -> None:
    world.policy = replace(POLICY, max_calls=2)
    outcome = await world.run('S1: @NOTE ("a")\nS2: @NOTE ("b")\nS3: @NOTE ("c")')
    assert outcome.result is not None
    assert outcome.result.refusal is not None
    assert (outcome.result.refusal.budget, outcome.result.usage.calls) == ("max_calls", 2)


async def test_call_in_flight_at_refusal_is_shown_as_possibly_done(
    world: World,
) -> None:
    world.write("notes.txt", "private")
    begun, done = asyncio.Event(), list[str]()

    async def slow(args: dict[str, Any], context: CallContext) -> JSON:
        begun.set()
        await asyncio.sleep(30)
        done.append(args["text"])
        return None

    async def notes(args: dict[str, Any], context: CallContext) -> JSON:
        await begun.wait()
        return "private"

    world.tools |= {"NOTE": slow, "READ_FILE": notes}
    steps: list[tuple[Any, ...]] = [("1", "note", {"text": "x"}, [], "a")]
    steps.append(("2", "read_file", {"path": "notes.txt"}, [], "n"))
    steps.append(("3", "web_search", {"query": "${n}"}, ["2"], "r"))
    keys = "index", "tool", "args", "depends_on", "result_variable"
    text = json.dumps({"goal": "g", "steps": [dict(zip(keys, s, strict=True), title="t") for s in steps]})
    outcome = await world.run(Plan.parse(text).ir)
    assert refusal(outcome).step == "3"
    assert (world.sent, done) == ([], [])
    told = [(call.key, call.tool, call.why) for call in outcome.in_doubt]
    assert told == [("1.0.1", "NOTE", "the run was ended before the answer came")]
    assert (await world.resume()).in_doubt == outcome.in_doubt


# ---------------------------------------------------------------- a person's yes

PAYS = 'S1: @NOTE ("ada") > $who\nS2: @PAY ($who, 5) > $p\nS3: @RESPOND ($p)'


async def test_approval_covers_resolved_call_with_labels_once(world: World) -> None:
    outcome = await world.run(PAYS)
    assert outcome.result is None
    (ask,) = outcome.waiting
    assert ask.key == "S2.0.1"
    assert world.paid == []
    (pending,) = inbox(world.journal)
    assert pending.digest == ask.digest
    assert ask.why == ("@PAY cannot be undone",)
    answer_run(world.journal, "run", Answer.approve())
    done = await world.resume()
    assert done.result is not None
    assert done.result.response == "paid"
    assert world.paid == [{"to": "ada", "amount": 5}]


async def test_untrusted_payee_is_not_paid(world: World) -> None:
    found = refusal(await world.run('S1: @WEB_SEARCH ("who") > $w\nS2: @PAY ($w, 5)'))
    assert (found.step, found.argument) == ("S2", "to")
    assert world.paid == []


# ---------------------------------------------------------------- files and facts, from run to run


async def test_file_keeps_label_for_later_runs(world: World) -> None:
    world.write("box/k.txt", "KEY=1")
    await world.run(
        'S1: @READ_FILE ("box/k.txt") > $k\nS2: @WRITE_FILE ("docs/out.txt", $k)', "first", present=YES
    )
    found = await world.run('S1: @READ_FILE ("./docs//out.txt") > $k\nS2: @WEB_SEARCH ("$k")', "second")
    assert refusal(found).label.endswith("/secret")
    found = await world.run('S1: @SEARCH_FILES ("KEY", "docs") > $k\nS2: @WEB_SEARCH ("$k")', "third")
    assert refusal(found).label.endswith("/secret")
    assert world.sent == []


async def test_declassified_content_is_public_for_any_file_label(world: World) -> None:
    world.write("notes.txt", "private")
    await world.run('S1: @READ_FILE ("notes.txt") > $k\nS2: @WRITE_FILE ("out.txt", $k)', "first")
    world.policy = replace(POLICY, declassify=frozenset({"S1"}))
    outcome = await world.run('S1: @READ_FILE ("out.txt") > $k\nS2: @WEB_SEARCH ("$k")', "second")
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    assert world.sent == [{"query": "private"}]


async def test_replaced_file_content_removes_label(world: World) -> None:
    world.write("box/k.txt", "KEY=1")
    await world.run(
        'S1: @READ_FILE ("box/k.txt") > $k\nS2: @WRITE_FILE ("docs/out.txt", $k)', "first", present=YES
    )
    await world.run('S1: @WRITE_FILE ("docs/out.txt", "hello")', "second")
    outcome = await world.run('S1: @READ_FILE ("docs/out.txt") > $k\nS2: @WEB_SEARCH ("$k")', "third")
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    assert world.sent == [{"query": "hello"}]


async def test_facts_have_label_of_their_words(world: World) -> None:
    await world.run('S1: @STORE_FACT ("the office opens at nine")', "first")
    outcome = await world.run('S1: @QUERY_MEMORY ("office opens") > $f\nS2: @WEB_SEARCH ("$f")', "second")
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    world.write("notes.txt", "the vault opens with 1234")
    await world.run('S1: @READ_FILE ("notes.txt") > $n\nS2: @STORE_FACT ($n)', "third")
    refusal(await world.run('S1: @QUERY_MEMORY ("vault opens") > $f\nS2: @WEB_SEARCH ("$f")', "fourth"))


async def test_resumed_run_has_recorded_labels(world: World) -> None:
    from callsheet.machine import Decision

    world.write("box/k.txt", "KEY=1")
    await world.run(
        'S1: @READ_FILE ("box/k.txt") > $k\nS2: @WRITE_FILE ("docs/out.txt", $k)', "first", present=YES
    )
    await interrupted(
        world, 'S1: @READ_FILE ("docs/out.txt") > $n\nS2: @NOTE ("x") > $m\nS3: @WEB_SEARCH ("$n")'
    )
    world.journal.path.with_name(f"{world.journal.path.name}-labels").unlink()
    assert refusal(await world.resume(in_doubt=Decision.SKIP)).label.endswith("/secret")


async def test_search_finding_secret_file_has_its_label(world: World) -> None:
    world.write("box/k.txt", "KEY=1")
    found = refusal(await world.run('S1: @SEARCH_FILES ("KEY") > $k\nS2: @WEB_SEARCH ("$k")'))
    assert found.label.endswith("/secret")


async def test_content_that_cannot_be_labelled_is_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(LabelStore, "begin", full)
    outcome = await world.run('S1: @WRITE_FILE ("out.txt", "x") > $a\nS2: @RESPOND ($a)')
    assert outcome.result is not None
    assert "cannot be stored" in outcome.result.response
    assert not (world.folder / "out.txt").exists()


async def test_unreadable_labels_stop_run_before_start(world: World) -> None:
    world.journal.path.with_name(f"{world.journal.path.name}-labels").write_text("no database" * 99)
    with pytest.raises(JournalError) as caught:
        await world.run('S1: @NOTE ("x")')
    assert caught.value.diagnostics[0].code == "JRN010"


async def test_policy_applies_without_journal(world: World) -> None:
    world.write("notes.txt", "private")
    plan = plan_of(LEAK.format("", ""))
    result = await run_unrecorded(plan, world.ports(), world.launch(plan, {}, {}))
    assert result.status is Status.REFUSED
    assert world.sent == []


async def test_pending_group_calls_do_not_start_after_refusal(world: World) -> None:
    world.write("notes.txt", "private")
    text = 'S1: @READ_FILE ("notes.txt") > $n\n@PARALLEL {\n S2: @NOTE ("x")\n S3: @WEB_SEARCH ("$n")\n}'
    refusal(await world.run(text))
    intents = [event.key for event in world.journal.events("run") if event.type is EventType.INTENT]
    assert intents == ["S1.0.1"]


async def test_notes_have_label_of_content(world: World) -> None:
    world.write("notes.txt", "private")
    reads = 'S2: @GET_WM ("k") > $g\nS3: @WEB_SEARCH ("$g")'
    text = f'S1: @READ_FILE ("notes.txt") > $n\nS0: @SET_WM ("k", $n)\n{reads}'
    assert refusal(await world.run(text)).step == "S3"
    outcome = await world.run(
        'S1: @SET_WM ("k", "hello")\nS2: @GET_WM ("k") > $g\nS3: @WEB_SEARCH ("$g")', "b"
    )
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE


# ---------------------------------------------------------------- agents and new plans

AGENT = {"AGENT_SOLVE": ToolFacts(loop=Loop(("NOTE", "WEB_SEARCH", "READ_FILE")))}


def saying(*answers: JSON) -> Any:
    left = list(answers)

    async def turn(command: Any, context: CallContext) -> JSON:
        return left.pop(0)

    return turn


async def test_agent_has_only_permissions_of_policy(world: World) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), max_turns=3, max_calls=1))
    world.more["turn"] = saying(
        {"tool": "web_search", "args": {"query": "x"}},
        {"calls": [{"tool": "note", "args": {"text": "a"}}]},
        {"finish": "done"},
    )
    outcome = await world.run('S1: @AGENT_SOLVE ("go") > $a', facts=AGENT)
    assert outcome.result is not None
    assert outcome.result.status is Status.DONE
    assert world.sent == []
    assert labels_of(world)["a"] == "U/priv"


async def test_agent_token_expires(world: World) -> None:
    world.policy = replace(POLICY, agent=AgentRule(tools=("NOTE",), seconds=0.0))
    world.more["turn"] = saying({"tool": "note", "args": {"text": "a"}})
    outcome = await world.run('S1: @AGENT_SOLVE ("go") > $a ON_FAIL TERMINATE ("$a")', facts=AGENT)
    assert outcome.result is not None
    assert "agent.seconds" in outcome.result.response


async def test_opaque_agent_is_refused_under_policy(world: World) -> None:
    world.policy = replace(POLICY, agent=AgentRule())

    async def solve(command: Any, context: CallContext) -> JSON:
        raise AssertionError("it must not be asked")

    world.more["agent"] = solve
    assert refusal(await world.run('S1: @AGENT_SOLVE ("go") > $a')).rule == "agent"


def planning(text: str, shown: Label | None = LITERAL) -> Any:
    async def compiler(command: Any, context: CallContext) -> Any:
        context.shown = shown
        return plan_of(text), FACTS

    return compiler


REPLANS = 'S1: @READ_FILE ("notes.txt") > $n\nS2: RE-PLAN ("go on")'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('S1: @WEB_SEARCH ("$n")', LITERAL),
        ('S1: @WEB_SEARCH ("x")', read_label("U/priv")),
        ('S1: @WEB_SEARCH ("x")', None),
    ],
)
async def test_leaking_new_plan_is_refused(world: World, text: str, shown: Label | None) -> None:
    world.write("notes.txt", "private")
    world.policy = replace(POLICY, replan=ReplanRule())
    world.more["compiler"] = planning(text, shown)
    outcome = await world.run(REPLANS)
    assert outcome.result is not None
    assert outcome.result.status is Status.FAILED
    assert "the policy refuses the new plan" in (outcome.result.error or "")
    assert world.sent == []


async def test_proved_new_plan_runs_within_remaining_limits(world: World) -> None:
    world.write("notes.txt", "private")
    world.policy = replace(POLICY, replan=ReplanRule(max=1))
    world.more["compiler"] = planning('S1: @WEB_SEARCH ("x") > $r\nS2: RE-PLAN ("again")')
    outcome = await world.run(REPLANS)
    assert world.sent == [{"query": "x"}]
    assert outcome.result is not None
    assert outcome.result.refusal is not None
    assert outcome.result.refusal.budget == "max_replans"
    assert (await world.resume()).result == outcome.result


async def test_approvals_of_first_plan_do_not_apply_to_new_plan(world: World) -> None:
    world.write("notes.txt", "private")
    world.policy = replace(POLICY, replan=ReplanRule(), declassify=frozenset({"S9"}))
    world.more["compiler"] = planning('S9: @READ_FILE ("notes.txt") > $n\nS2: @WEB_SEARCH ("$n")')
    outcome = await world.run('S1: RE-PLAN ("go on")')
    assert outcome.result is not None
    assert outcome.result.status is Status.FAILED
    assert world.sent == []


async def test_refused_replan_names_rule_and_planner_inputs(world: World) -> None:
    """Otherwise nobody sees why a literal of the plan is private."""
    world.write("notes.txt", "private")
    world.policy = replace(POLICY, replan=ReplanRule())
    world.more["compiler"] = planning('S1: @WEB_SEARCH ("$n")', read_label("T/priv"))
    outcome = await world.run(REPLANS)
    assert outcome.result is not None
    error = outcome.result.error or ""
    assert "RUN051: S1: POL103 private data" in error
    assert "($n → S1" in error
    assert error.endswith("literals of the new plan have the label T/priv of the planner's prompt")


PUBLIC = {"memory": read_label("T/pub"), "replan": ReplanRule()}


@pytest.mark.parametrize(
    ("before", "reads"),
    [
        ('@WRITE_FILE ("docs/copy.txt", $n) > $w', '@READ_FILE ("docs/./copy.txt")'),
        ('@WRITE_FILE ("docs/copy.txt", $n) > $w', '@SEARCH_FILES ("priv", "docs")'),
        ("@STORE_FACT ($n) > $w", '@QUERY_MEMORY ("private")'),
        ('@SET_WM ("k", $n) > $w', '@GET_WM ("k")'),
        ('@SET_WM ("k", $n) > $w', '@GET_WM ("$a")'),
    ],
)
async def test_new_plan_is_proved_with_remaining_labels(world: World, before: str, reads: str) -> None:
    """A location that the policy calls public is not public once private data was written to it."""
    world.write("notes.txt", "private")
    world.policy = replace(POLICY, **PUBLIC)
    world.more["compiler"] = planning(f'S1: {reads} > $c\nS2: @WEB_SEARCH ("$c")')
    outcome = await world.run(
        f'S1: @READ_FILE ("notes.txt") > $n\nS2: {before}\nS3: RE-PLAN ("go on")', a="k"
    )
    assert outcome.result is not None
    assert (outcome.result.status, world.sent) == (Status.FAILED, [])
    assert "the policy refuses the new plan" in (outcome.result.error or "")


async def test_new_plan_may_use_public_locations_without_other_content(world: World) -> None:
    world.write("notes.txt", "private")
    world.write("docs/other.txt", "public")
    world.policy = replace(POLICY, **PUBLIC)
    copies = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/copy.txt", $n) > $w\n'
    await world.run(f"{copies}S3: @STORE_FACT ($n) > $f", "first")
    reads = (
        '@READ_FILE ("docs/other.txt")',
        '@QUERY_MEMORY ("nothing such")',
        '@SEARCH_FILES ("public", "docs/d")',
    )
    (world.folder / "docs" / "d").mkdir()
    for number, call in enumerate(reads):
        world.more["compiler"] = planning(f'S1: {call} > $c\nS2: @WEB_SEARCH ("x$c")')
        outcome = await world.run('S1: RE-PLAN ("go on")', f"run{number}")
        assert outcome.result is not None
        assert outcome.result.status is Status.DONE, outcome.result.error
    assert len(world.sent) == len(reads)
