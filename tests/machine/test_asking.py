"""Questions to people, by steps and before calls; an answer counts once, for exactly its question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.driving import FACTS, plan_of

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, plan_hash
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    Awaited,
    CallTool,
    Cancelled,
    Decided,
    Decision,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Question,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    Verdict,
    compile_plan,
)
from callsheet.machine.questions import (
    approval_rules,
    approval_timeouts,
    asked_from_json,
    asked_to_json,
    read_question,
)


class Desk:
    """A machine and all its open commands, by key."""

    def __init__(
        self,
        text: str,
        approve: Iterable[str] = (),
        inputs: Mapping[str, JSON] | None = None,
        timeouts: Mapping[str, float] | None = None,
    ) -> None:
        self.plan = plan_of(text)
        program = compile_plan(self.plan, FACTS)
        self.machine = Machine(program, Limits(retry_delay=0.0), None, approve, timeouts)
        self.waiting: dict[str, Awaited] = {}
        self.feed(Started(inputs or {}))

    def feed(self, event: Event) -> None:
        before = set(self.machine.open_keys())
        commands = self.machine.feed(event)
        for key in before - set(self.machine.open_keys()):
            self.waiting.pop(key, None)
        self.waiting |= {c.key: c for c in commands if not isinstance(c, Finish)}

    def ask(self, key: str) -> Ask:
        command = self.waiting[key]
        assert isinstance(command, Ask)
        return command

    def answer(self, key: str, verdict: Verdict = Verdict.APPROVE, value: JSON = None, **more: str) -> None:
        self.feed(Answered(key, self.ask(key).asked.digest, verdict, value, **more))

    @property
    def calls(self) -> dict[str, dict[str, JSON]]:
        return {key: c.args for key, c in self.waiting.items() if isinstance(c, CallTool)}

    @property
    def variables(self) -> dict[str, JSON]:
        return self.machine.variables()


# ---------------------------------------------------------------- a step asks


def test_question_answer_is_stored_in_variable() -> None:
    desk = Desk('S1: @ASK_HUMAN ("Send it to $who?", ["now", "later"]) > $when', inputs={"who": "Ada"})
    asked = desk.ask("S1.0.1").asked
    assert isinstance(asked, Question)
    assert (asked.prompt, asked.options) == ("Send it to Ada?", ("now", "later"))
    desk.answer("S1.0.1", Verdict.ANSWER, "later")
    assert desk.variables["when"] == "later"


def test_plain_approval_answers_true() -> None:
    desk = Desk('S1: @ASK_HUMAN ("Go on?") > $yes')
    desk.answer("S1.0.1")
    assert desk.variables["yes"] is True


def test_denial_fails_step_and_is_not_asked_again() -> None:
    desk = Desk('S1: @ASK_HUMAN ("Go?") > $a ON_FAIL @RETRY(3) GOTO S3\nS2: @WRITE (1)\nS3: @RESPOND ($a)')
    desk.answer("S1.0.1", Verdict.DENY, by="Ada", note="not on Friday")
    assert desk.machine.result is not None
    assert desk.machine.result.response == "denied by Ada: not on Friday"


def test_expired_question_takes_default() -> None:
    desk = Desk('S1: @ASK_HUMAN ("Go?", timeout="3d", default="stay") > $a')
    asked = desk.ask("S1.0.1").asked
    assert isinstance(asked, Question)
    assert asked.timeout == 3 * 86_400
    desk.answer("S1.0.1", Verdict.EXPIRE)
    assert desk.variables["a"] == "stay"


def test_expired_question_without_default_fails_and_may_be_retried() -> None:
    desk = Desk('S1: @ASK_HUMAN ("Go?", timeout="90m") > $a ON_FAIL @RETRY(1)')
    desk.answer("S1.0.1", Verdict.EXPIRE)
    desk.answer("S1.0.2", Verdict.EXPIRE)
    assert desk.variables["a"] == "nobody answered within 1h 30m"


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ('"?", timeout="soon"', "timeout"),
        ('"?", options=[]', "options"),
        ('"?", options=["a"], schema={"type": "string"}', "only one"),
        ('"?", colour="red"', "colour"),
        ('schema={"type": "string"}', "prompt"),
    ],
)
def test_invalid_questions_are_passed_to_tool_for_its_error(arguments: str, wrong: str) -> None:
    desk = Desk(f"S1: @ASK_HUMAN ({arguments})")
    assert [type(command) for command in desk.waiting.values()] == [CallTool]
    (args,) = desk.calls.values()
    said = read_question(args)
    assert isinstance(said, str)
    assert wrong in said


def test_items_ask_concurrently_and_answers_are_in_order() -> None:
    desk = Desk('S1: ?FOREACH ($x IN $xs) THEN @ASK_HUMAN ("$x?") > $all', inputs={"xs": ["a", "b", "c"]})
    assert list(desk.waiting) == ["S1.0.1", "S1.1.1", "S1.2.1"]
    desk.answer("S1.2.1", Verdict.ANSWER, "C")
    desk.answer("S1.0.1", Verdict.ANSWER, "A")
    desk.answer("S1.1.1", Verdict.DENY)
    assert desk.variables["all"] == ["A", "denied", "C"]


# ---------------------------------------------------------------- a policy asks


SEND = 'S1: @SEND (to="$who", text="hello") > $sent ON_FAIL @RETRY(1)'


def test_call_waits_for_approval_of_exact_arguments() -> None:
    desk = Desk(SEND, ["SEND"], {"who": "ada@x.test"})
    asked = desk.ask("S1.0.1").asked
    assert isinstance(asked, Approval)
    assert (asked.tool, asked.args) == ("SEND", {"to": "ada@x.test", "text": "hello"})
    assert asked.plan == plan_hash(desk.plan)
    desk.answer("S1.0.1")
    assert desk.calls == {"S1.0.1": dict(asked.args)}


def test_approval_of_other_arguments_is_ignored() -> None:
    other = Desk(SEND, ["SEND"], {"who": "eve@x.test"}).ask("S1.0.1").asked.digest
    desk = Desk(SEND, ["SEND"], {"who": "ada@x.test"})
    desk.feed(Answered("S1.0.1", other, Verdict.APPROVE))
    assert desk.calls == {}
    assert "S1.0.1" in desk.waiting


def test_approval_under_other_plan_is_ignored() -> None:
    other = Desk(f"{SEND}\nS2: @WRITE (1)", ["SEND"], {"who": "a"}).ask("S1.0.1").asked.digest
    desk = Desk(SEND, ["SEND"], {"who": "a"})
    desk.feed(Answered("S1.0.1", other, Verdict.APPROVE))
    assert desk.calls == {}


def test_approval_is_used_once_and_retry_asks_again() -> None:
    desk = Desk(SEND, ["SEND"], {"who": "a"})
    first = Answered("S1.0.1", desk.ask("S1.0.1").asked.digest, Verdict.APPROVE)
    desk.feed(first)
    desk.feed(Failed("S1.0.1", "busy"))
    assert isinstance(desk.waiting["S1.0.2"], Ask)
    desk.feed(first)
    desk.feed(first._replace(key="S1.0.2"))
    assert desk.calls == {}


def test_repeated_call_in_doubt_is_asked_again() -> None:
    desk = Desk(SEND, ["SEND"], {"who": "a"})
    first = Answered("S1.0.1", desk.ask("S1.0.1").asked.digest, Verdict.APPROVE)
    desk.feed(first)
    desk.feed(Decided("S1.0.1", Decision.RETRY))
    desk.feed(first)
    desk.feed(Succeeded("S1.0.1", "sent without a yes"))
    assert desk.machine.result is None
    desk.answer("S1.0.1")
    desk.feed(Succeeded("S1.0.1", "sent"))
    assert desk.variables["sent"] == "sent"


def test_outcome_of_unapproved_call_changes_nothing() -> None:
    desk = Desk(SEND, ["SEND"], {"who": "a"})
    desk.feed(Succeeded("S1.0.1", "sent"))
    assert desk.machine.result is None


def test_each_item_is_approved_separately() -> None:
    text = "S1: ?FOREACH ($x IN $xs) THEN @WRITE ($x) > $all"
    desk = Desk(text, ["WRITE"], {"xs": ["same", "same"]})
    assert list(desk.waiting) == ["S1.0.1"]
    first = desk.ask("S1.0.1").asked.digest
    desk.answer("S1.0.1")
    desk.feed(Succeeded("S1.0.1", 1))
    desk.feed(Answered("S1.1.1", first, Verdict.APPROVE))
    assert desk.calls == {}
    desk.answer("S1.1.1", Verdict.DENY)
    assert desk.variables["all"] == [1, "denied"]


def test_second_visit_and_new_plan_are_asked_again() -> None:
    desk = Desk("S1: @WRITE ($x) > $x\nS2: ?IF ($x != 2) THEN GOTO S1", ["write".upper()], {"x": 0})
    desk.answer("S1.0.1")
    desk.feed(Succeeded("S1.0.1", 1))
    assert isinstance(desk.waiting["S1@2.0.1"], Ask)


@pytest.mark.parametrize("rule", ["MAIL__SEND", "SEND"])
@pytest.mark.parametrize("called", ["MAIL__SEND", "SEND"])
def test_tool_aliases_do_not_bypass_rule(rule: str, called: str) -> None:
    assert isinstance(Desk(f"S1: @{called} (1)", [rule]).waiting["S1.0.1"], Ask)


def test_models_and_agents_can_need_approval() -> None:
    desk = Desk('S1: @AGENT_SOLVE ("tidy up") > $a', ["AGENT_SOLVE"])
    asked = desk.ask("S1.0.1").asked
    assert isinstance(asked, Approval)
    assert asked.inputs == ("tidy up",)


def test_call_not_approved_in_time_is_denied_and_not_retried() -> None:
    text = "S1: @WRITE (1) > $w ON_FAIL @RETRY(3) GOTO S2\nS2: @RESPOND ($w)"
    desk = Desk(text, ["WRITE"], timeouts={"": 259_200.0})
    assert desk.ask("S1.0.1").asked.timeout == 259_200.0
    desk.answer("S1.0.1", Verdict.EXPIRE)
    assert desk.machine.result is not None
    assert desk.machine.result.response == "denied: nobody approved the call of @WRITE within 3d"
    assert desk.machine.usage().calls == 0


def test_tool_timeout_applies_under_any_name() -> None:
    text = "@PARALLEL {\n S1: @MAIL__SEND (1)\n S2: @WRITE (1)\n}"
    desk = Desk(text, ["SEND", "WRITE"], timeouts={"": 60.0, "SEND": 5.0, "X__SEND": 1.0})
    assert [desk.ask(key).asked.timeout for key in ("S1.0.1", "S2.0.1")] == [5.0, 60.0]
    desk = Desk(text, ["SEND", "WRITE"], timeouts={"SEND": 5.0})
    assert [desk.ask(key).asked.timeout for key in ("S1.0.1", "S2.0.1")] == [5.0, None]


def test_approval_without_timeout_keeps_its_digest() -> None:
    """Answers in older journals are bound to it."""
    asked = Desk("S1: @WRITE (1) > $w", ["WRITE"]).ask("S1.0.1").asked
    assert asked.digest == "aa51be8711537fb983396576f6ff3fdddb777e122ed37528c9ff49ff7b8d71e9"
    timed = Desk("S1: @WRITE (1) > $w", ["WRITE"], timeouts={"": 5.0}).ask("S1.0.1").asked
    assert timed.digest != asked.digest


def test_other_group_members_run_while_one_waits() -> None:
    desk = Desk("@PARALLEL {\n S1: @WRITE (1) > $a\n S2: @READ (2) > $b\n}\nS3: @RESPOND ($a, $b)", ["WRITE"])
    assert list(desk.calls) == ["S2.0.1"]
    desk.feed(Succeeded("S2.0.1", "read"))
    desk.answer("S1.0.1")
    desk.feed(Succeeded("S1.0.1", "written"))
    assert desk.machine.result is not None
    assert desk.machine.result.response == "written read"


def test_answer_after_cancellation_is_ignored() -> None:
    desk = Desk(SEND, ["SEND"], {"who": "a"})
    ask = desk.ask("S1.0.1")
    desk.feed(Cancelled("enough"))
    desk.feed(Answered(ask.key, ask.asked.digest, Verdict.APPROVE))
    assert desk.calls == {}
    assert desk.machine.result is not None
    assert desk.machine.result.status is Status.CANCELLED


# ---------------------------------------------------------------- laws

_PLAN = """
S1: ?FOREACH ($x IN $xs) THEN @ASK_HUMAN ("$x?", timeout=60) > $said ON_FAIL @RETRY(1)
@PARALLEL {
  S2: @WRITE ($said) > $w ON_FAIL @RETRY(1)
  S3: ?FOREACH ($x IN $said) THEN @READ ($x) > $r
}
S4: ?IF ($w == "again") THEN GOTO S2
S5: @RESPOND ($said, $w, $r)
"""


def _outcome(command: Awaited, choice: int) -> Event:
    match command:
        case Ask(key=key, asked=asked):
            verdicts = [Verdict.APPROVE, Verdict.APPROVE, Verdict.DENY]
            verdicts += [Verdict.EXPIRE] if isinstance(asked, Question) else [Verdict.APPROVE]
            return Answered(key, asked.digest, verdicts[choice % 4], by="Ada")
        case Sleep(key=key):
            return TimerFired(key)
        case _:
            return Failed(command.key, "no") if choice % 5 == 0 else Succeeded(command.key, choice)


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(0, 3))
def test_every_call_matching_rule_has_its_own_approval(choices: list[int], items: int) -> None:
    """A fold of the same events asks for the same, and repeated events change nothing."""
    desk = Desk(_PLAN, ["WRITE"], {"xs": list(range(items))})
    events: list[Event] = []
    made = 0
    for choice in [*choices, *[1] * 200]:
        if desk.machine.result is not None:
            break
        key = list(desk.waiting)[choice % len(desk.waiting)]
        command = desk.waiting[key]
        if isinstance(command, CallTool) and command.tool == "WRITE":
            made += 1
        event = _outcome(command, choice)
        events.append(event)
        desk.feed(event)
        desk.feed(event)
    result = desk.machine.result
    assert result is not None
    yes = [e for e in events if isinstance(e, Answered) and e.key.startswith("S2") and e.verdict == "approve"]
    assert made == len(yes) == len({e.digest for e in yes})
    again = Desk(_PLAN, ["WRITE"], {"xs": list(range(items))})
    for event in events:
        again.feed(event)
    assert again.machine.result == result


@given(st.text(max_size=8), st.lists(st.integers(), max_size=2), st.none() | st.floats(1, 1e6), st.booleans())
def test_questions_survive_json_round_trip(
    prompt: str, options: list[int], timeout: float | None, has_default: bool
) -> None:
    question = Question(prompt, tuple(options), None, timeout, 1 if has_default else None, has_default, "d")
    call = Approval("T", {"a": options}, (prompt,), "hash", {}, "d", timeout)
    assert asked_from_json(asked_to_json(question)) == question
    assert asked_from_json(asked_to_json(call)) == call


@pytest.mark.parametrize("rule", ["MAIL__*", "send?"])
def test_pattern_is_no_rule_for_approvals(rule: str) -> None:
    with pytest.raises(CallsheetError, match="is a pattern, which names no tool"):
        approval_rules([rule])
    with pytest.raises(ValueError, match="is a pattern, which names no tool"):
        approval_timeouts({rule: "3d"})
