# ruff: noqa: E501 - a case is a line
"""Runs of plan trees under a policy: what a proof has accepted is not refused, what leaks is stopped."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.random_plans import Drawing
from tests.passes.verify_tree.runs import FLAKY, OPEN, SECRET, SEEN, TOOLS, rule_of

from callsheet.ir.operations import CLOCK, COMPUTE, Effect
from callsheet.machine import (
    Answered,
    Ask,
    CallTool,
    Command,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Result,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.events import Verdict
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import ToolFacts
from callsheet.machine.questions import Approval
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.machine.tree.values import PRINTED
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy, When

POLICY = Policy(tools={**TOOLS, "KEY": rule_of("T/secret")})
FACTS = {
    **OWN_FACTS,
    **{name: ToolFacts(Effect.READ) for name in (FLAKY, OPEN, SECRET, "KEY")},
    SEEN: ToolFacts(Effect.UNSAFE),
}
_MOST = 300
"""How many outcomes a run takes before it is given up."""


class _World:
    """One run on the real machine; the answers to calls are those of a world, `seen` what it sends out."""

    def __init__(self, text: str, world: int = 1, policy: Policy | None = POLICY) -> None:
        enforcement = None if policy is None else Enforcement.under(policy)
        self.notes: list[Note] = []
        self.machine = Machine(
            compile_plan(plan_of(text), FACTS),
            Limits(max_steps=100_000, retry_delay=0.0),
            self.notes.append,
            enforcement=enforcement,
        )
        self.world = world
        self.seen: list[Any] = []
        self.asked: list[Ask] = []
        self.is_too_long = False
        waiting: list[Command] = self.machine.feed(Started({}))
        for _ in range(_MOST):
            if self.machine.result is not None:
                return
            command = waiting.pop(0)
            if not isinstance(command, Finish):
                waiting += self.machine.feed(self._answer(command))
        self.is_too_long = self.machine.result is None

    @property
    def result(self) -> Result:
        assert self.machine.result is not None
        return self.machine.result

    def _answer(self, command: Command) -> Event:
        if isinstance(command, Sleep):
            return TimerFired(command.key)
        if isinstance(command, Ask):
            self.asked.append(command)
            return Answered(command.key, command.asked.digest, Verdict.APPROVE)
        assert isinstance(command, CallTool)
        if command.tool == CLOCK:
            return Succeeded(command.key, "2026-03-02T09:00:00+00:00")
        if command.tool == COMPUTE:
            scope, printed = dict(command.args["inputs"]), io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(command.args["source"], {}, scope)
            values = {name: scope[name] for name in command.args["outputs"]}
            return Succeeded(command.key, values | {PRINTED: printed.getvalue()})
        if command.tool == SEEN:
            self.seen.append((command.step, repr(command.args)))
            return Succeeded(command.key, "sent")
        return self._value(command)

    def _value(self, command: CallTool) -> Event:
        world = 0 if command.tool == OPEN else self.world
        dice = zlib.crc32(f"{world}:{command.step}:{[*command.args.values()]}".encode())
        if command.tool == FLAKY and (dice % 3 == 0 or command.args == {"x": 8}):
            return Failed(command.key, f"no {dice}")
        values: tuple[Any, ...] = (
            dice % 3,
            "abc"[dice % 3],
            ["x"] * (dice % 3),
            None if dice % 2 else "y",
            {"k": dice % 2},
        )
        return Succeeded(command.key, values[zlib.crc32(command.step.encode()) % len(values)])


def _worlds(text: str, count: int) -> Iterator[_World]:
    runs = (_World(text, world) for world in range(count))
    return (run for run in runs if not run.is_too_long)


@pytest.mark.parametrize("start", range(0, 80, 40))
def test_accepted_plans_run_as_without_a_policy(start: int) -> None:
    ran = 0
    for seed in range(start, start + 40):
        text = Drawing(seed, bits=False).text()
        if not verify(plan_of(text), POLICY).ok:
            continue
        for run in _worlds(text, 4):
            assert run.result.status is not Status.REFUSED, f"{run.result.error}\n{text}"
            free = _World(text, run.world, policy=None)
            assert (run.result.status, run.result.answer, run.seen) == (
                free.result.status,
                free.result.answer,
                free.seen,
            )
            ran += 1
    assert ran > 30


def test_runs_of_any_plan_send_the_same_whatever_the_secrets_are() -> None:
    compared = 0
    for seed in range(60):
        text = Drawing(seed, bits=False).text()
        seen = [run.seen for run in _worlds(text, 4) if run.result.status is Status.DONE]
        assert all(one == seen[0] for one in seen), text
        compared += len(seen) > 1
    assert compared > 10


LEAKS = {
    "an argument": "S1: @SECRET () > $a\nS2: @SEND (x=$a)",
    "an expression": 'S1: @SECRET () > $a\nLET $b = [1, str($a)]\nS2: @SEND (x="${$b[1]}")',
    "a branch": "S1: @SECRET () > $a\n?IF (str($a) != '~') {\nS2: @SEND (x=1)\n}",
    "what a branch that is not taken would set": (
        "S1: @SECRET () > $a\nLET $b = 0\n?IF (str($a) == '~') {\nSET $b = 1\n}\nS2: @SEND (x=$b)"
    ),
    "what a branch has set": "S1: @SECRET () > $a\nLET $b = 0\n?IF (str($a) != '~') {\nSET $b = 1\n}\nS2: @SEND (x=$b)",
    "what a branch has set in a part": "S1: @SECRET () > $a\nLET $b = {'k': 0, 'm': 1}\n?IF (str($a) != '~') {\nSET $b = {'k': 1, 'm': 2}\n}\nS2: @SEND (x=$b.k)",
    "a part of what a branch that is not taken would set": (
        "S1: @SECRET () > $a\nLET $b = [0, $a]\n?IF (str($a) == '~') {\nSET $b = [1, $a]\n}\nS2: @SEND (x=$b[0])"
    ),
    "a part of a sub-plan's result": "PLAN p ($x: json) {\nRETURN ({'k': 1, 'm': [$x]})\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a) > $b\nS2: @SEND (x=$b.m[0])",
    "an early end that does not happen": "S1: @SECRET () > $a\n?IF (str($a) == '~') {\n@RESPOND (1)\n}\nS2: @SEND (x=1)",
    "a test that holds": "S1: @SECRET () > $a\nREQUIRE (str($a) != '~')\nS2: @SEND (x=1)",
    "the time after a private call": "S1: @SECRET () > $a\nLET $t = now()\nS2: @SEND (x=$t.isoformat())",
    "a test of the time after a private call": "S1: @SECRET () > $a\nLET $u = datetime('2020-01-01T00:00:00+00:00')\n?IF (now() > $u) {\nS2: @SEND (x=1)\n}",
    "a handler": "S1: @SECRET () > $a\nTRY {\nREQUIRE (str($a) == '~')\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "a call that cannot be made": "S1: @SECRET () > $a\nTRY {\nS3: @OPEN (x=int(str($a)))\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "the words of a failure": "S1: @SECRET () > $a\nTRY {\nREQUIRE (str($a) == '~')\n} ON_FAIL {\nLET $e = $error.message\n}\nS2: @SEND (x=$e)",
    "the words of a failed call": "S1: @FLAKY (x=8) > $a ON_FAIL CONTINUE\nLET $e = $a.error\nS2: @SEND (x=$e)",
    "the words of a failed item": (
        "LET $e = ''\n?FOREACH ($i IN [8]) {\nS1: @FLAKY (x=$i)\n} ON_FAIL {\nSET $e = $error.error\n}\nS2: @SEND (x=$e)"
    ),
    "the words of a failed sub-plan": (
        "PLAN p () {\nS1: @FLAKY (x=8)\n}\nLET $e = ''\nS3: CALL p () ON_FAIL {\nSET $e = $error.error\n}\nS2: @SEND (x=$e)"
    ),
    "the value of a remedy": "S1: @SECRET () > $a\nS3: @FLAKY (x=8) > $b ON_FAIL USE ($a)\nS2: @SEND (x=$b)",
    "the next item": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\nS2: @SEND (x=$i)\n?IF (str($a) == '~') {\nBREAK\n}\n}",
    "what items yield": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\nYIELD ($a)\n} > $l\nS2: @SEND (x=$l)",
    "how many items there are": "S1: @SECRET () > $a\n?FOREACH ($i IN [1, 2]) {\n?IF (str($a) == '~') {\nBREAK\n}\nYIELD (1)\n} > $l\nS2: @SEND (x=len($l))",
    "what an item that is undone has set": (
        "S1: @SECRET () > $a\nLET $b = $a\n?FOREACH ($i IN [1]) {\nSET $b = 1\nFAIL ('no')\n} ON_FAIL SKIP\nS2: @SEND (x=$b)"
    ),
    "the rounds of a loop": "S1: @SECRET () > $a\nLET $i = 0\n?REPEAT (max=3) {\nSET $i = $i + 1\n} UNTIL (str($a) != '~')\nS2: @SEND (x=$i)",
    "the result of a sub-plan": "PLAN p ($x: json) {\nRETURN ([$x])\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a) > $b\nS2: @SEND (x=$b)",
    "what an item of a sub-plan returns": (
        "PLAN p ($x: json) {\n?FOREACH ($i IN [1]) {\nRETURN ($x)\n}\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a) > $b\nS2: @SEND (x=$b)"
    ),
    "an argument of a sub-plan": "PLAN p ($x: json) {\nS2: @SEND (x=$x)\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a)",
    "whether a sub-plan is called": "PLAN p () {\nS2: @SEND (x=1)\n}\nS1: @SECRET () > $a\n?IF (str($a) != '~') {\nS3: CALL p ()\n}",
    "whether a sub-plan fails": "PLAN p ($x: json) {\nREQUIRE (str($x) == '~')\n}\nS1: @SECRET () > $a\nTRY {\nS3: CALL p (x=$a)\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "that a sub-plan does not fail": "PLAN p ($x: json) {\nREQUIRE (str($x) != '~')\n}\nS1: @SECRET () > $a\nS3: CALL p (x=$a)\nS2: @SEND (x=1)",
    "an item that yields and says more": "S1: @SECRET () > $a\n?FOREACH ($i IN [1]) {\nYIELD ($a)\nNOTE ('x')\n} > $l\nS2: @SEND (x=$l)",
    "that an item does not yield": "S1: @SECRET () > $a\n?FOREACH ($i IN [1]) {\nYIELD (1)\n?IF (str($a) == '~') {\nYIELD (2)\n}\n} > $l\nS2: @SEND (x=$l)",
    "a type that names values": "S1: @SECRET () > $a\nTRY {\nLET $b: 'x' | 'y' = str($a)\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "an early end that its time limit prevents": "TRY WITHIN (5) {\nS1: @SECRET () > $a\n@RESPOND (1)\n} ON_FAIL {\nNOTE ('x')\n}\nS2: @SEND (x=1)",
    "how far a sub-plan comes with its budget": "PLAN p () {\nS1: @SECRET () > $a ON_FAIL CONTINUE\nS2: @SEND (x=1)\n}\nS3: CALL p (max_tokens=5)",
    "whether the budget of a sub-plan is spent": "PLAN p () {\nS1: @SECRET () > $a ON_FAIL CONTINUE\nRETURN (1)\n}\nS3: CALL p (max_tokens=5) > $b ON_FAIL USE (2)\nS2: @SEND (x=$b)",
    "what an attempt at a sub-plan has left of its budget": "PLAN p () {\nS2: @SEND (x=1)\nS1: @SECRET () > $a ON_FAIL CONTINUE\nREQUIRE (1 == 2)\n}\nS3: CALL p (max_tokens=5) ON_FAIL @RETRY(2)",
    "a wait": "S1: @SECRET () > $a\nTRY {\nWAIT (len(str($a)) - 100)\n} ON_FAIL {\nS2: @SEND (x=1)\n}",
    "pure code": 'S1: @SECRET () > $a\nCOMPUTE (reads=[$a]) > $b """\nb = [a]\n"""\nS2: @SEND (x=$b)',
}  # fmt: skip


AFTER_ONE = {"the next item", "what an attempt at a sub-plan has left of its budget"}
"""Those where the first call tells nothing yet."""


@pytest.mark.parametrize("name", LEAKS)
def test_leak_is_stopped_at_the_call(name: str) -> None:
    run = _World(LEAKS[name])
    assert run.result.status is Status.REFUSED, run.result
    assert run.result.objection is not None
    assert run.result.objection.step == "S2"
    assert run.seen == ([("S2", "{'x': 1}")] if name in AFTER_ONE else [])


@pytest.mark.parametrize(
    "text",
    [
        "LET $l = [1, $a]\n@SEND (x=$l[0], y=$l[-2])",
        'LET $l = {"k": {"n": 1}, "m": $a}\nLET $other = $l\n@SEND (x=$other.k.n, y=$other.k?.n ?? 2)',
        'LET $l = {"k": 0, "m": 0}\n?FOREACH ($i IN [1, 2]) {\nSET $l = {"k": $i, "m": $a}\n}\n@SEND (x="${l.k}")',
        'S3: CALL p (x=$a) > $l\nS4: CALL q (x={"k": $l.k, "m": $a})',
    ],
)
def test_parts_that_the_plan_has_composed_keep_their_labels_in_variables(text: str) -> None:
    plans = 'PLAN p ($x: json) {\nRETURN ({"k": 1, "m": $x})\n}\nPLAN q ($x: json) {\n@SEND (x=$x.k)\n}\n'
    text = f"{plans}S1: @SECRET () > $a\n{text}"
    assert verify(plan_of(text), POLICY).ok
    run = _World(text)
    assert run.result.status is Status.DONE, run.result.error
    assert len(run.seen) == 1


def test_values_that_json_lacks_have_labels_too() -> None:
    text = 'S1: @SECRET () > $a\nLET $d = {date("2026-01-02"), date("2026-01-03")}\nLET $b = {1: [$d, $a], (2, 3): None}\n'
    run = _World(f"{text}LET $n = len($b)\nS3: @OPEN (x=1)\nLET $m = [$b, $d]\nS2: @SEND (x=$n)")
    assert (run.result.status, run.seen) == (Status.REFUSED, [])


def test_pure_code_gives_each_result_the_label_of_what_leads_to_it() -> None:
    run = _World(
        'S1: @SECRET () > $a\nLET $c = 1\nCOMPUTE (reads=[$a, $c]) > $b, $d """\nb = str(a)\nd = c + 1\n"""\nS2: @SEND (x=$d)'
    )
    assert (run.result.status, run.seen) == (Status.DONE, [("S2", "{'x': 2}")])


def test_refusal_names_where_the_data_came_from() -> None:
    objection = _World("S1: @SECRET () > $a\nLET $b = [$a]\nS2: @SEND (x=$b)").result.objection
    assert objection is not None
    assert (objection.rule, objection.flow) == ("flow", ("S1", "let1", "S2"))


def test_question_names_the_calls_that_each_argument_comes_from() -> None:
    rule = rule_of("T/priv", egress=False)
    policy = Policy(tools={**POLICY.tools, SEEN: replace(rule, approval=When.ALWAYS)})
    text = "S1: @SECRET () > $a\nS2: @SECRET () > $b\nLET $c = [$b]\nLET $d = [$c]\n"
    run = _World(f"{text}S3: @SEND (x=$a, y=$d, z=1)", policy=policy)
    assert [ask.asked.labels for ask in run.asked if isinstance(ask.asked, Approval)] == [
        {"x": {"label": "T/priv", "from": ["S1"]}, "y": {"label": "T/priv", "from": ["S2"]}}
    ]


def test_call_is_asked_about_with_its_arguments_in_the_place_of_its_item() -> None:
    rule = rule_of("T/pub", egress=True)
    policy = Policy(tools={**POLICY.tools, SEEN: replace(rule, approval=When.ALWAYS)})
    run = _World("?FOREACH ($i IN [1, 2]) {\nS2: @SEND (x=$i)\n}\n@RESPOND (1)", policy=policy)
    assert [ask.key for ask in run.asked] == ["foreach1[0]/S2.1", "foreach1[1]/S2.1"]
    assert run.seen == [("S2", "{'x': 1}"), ("S2", "{'x': 2}")]


def test_secret_values_are_marked_where_people_watch() -> None:
    run = _World("S1: @KEY () > $k\nLET $l = [$k]\nS3: @OPEN (x=1) > $o\n@RESPOND (1)")
    assert run.result.status is Status.DONE
    finished = {note.step: note.is_secret for note in run.notes if note.kind is NoteKind.FINISHED}
    assert finished == {"S1": True, "S3": False}
    assert run.result.secret == {"k", "l"}


@pytest.mark.parametrize("tool", ["KEY", OPEN])
def test_what_pure_code_prints_is_said_to_whom_it_may_be(tool: str) -> None:
    run = _World(
        f'S1: @{tool} () > $k\nCOMPUTE (reads=[$k]) > $b """\nb = 1\nprint("it is", k)\n"""\n@RESPOND (1)'
    )
    (said,) = [note.detail for note in run.notes if note.kind is NoteKind.SAID]
    assert said.startswith("POL180: what it says is withheld" if tool == "KEY" else "it is")


def test_secret_words_of_a_failure_are_withheld() -> None:
    run = _World("S1: @KEY () > $k\nREQUIRE ($k == '~') \"it is ${$k}\"\n@RESPOND (1)")
    assert run.result.status is Status.FAILED
    assert run.result.error is not None
    assert "POL180" in run.result.error
