"""In which order the items of a FOREACH run: what is declared of tools, and what that never changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.driving import Bench

from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.labels import read_label
from callsheet.ir.operations import Independence
from callsheet.ir.tree import Foreach, statements
from callsheet.machine import (
    CallTool,
    Edited,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Result,
    Started,
    Succeeded,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.decision_log import DecisionLog
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.notes import NoteKind
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.machine.tree.item_order import all_differ, order_of_items
from callsheet.policy.model import Implicit, Policy, ToolRule
from callsheet.store.replay import begin
from callsheet.store.start import SECRETS, Start, facts_from_json, facts_to_json

COMMUTES = Independence(commutes=True)
OF_ID = Independence(resource=("id",))
OF_ROW = Independence(resource=("board", "row"))
FACTS = {
    "LOOK": ToolFacts(Effect.READ, ("id",)),
    "SEEK": ToolFacts(Effect.READ, ("id",), independence=COMMUTES),
    "GET": ToolFacts(Effect.READ, ("id",), independence=OF_ID),
    "PUT": ToolFacts(Effect.UNSAFE, ("id", "text"), independence=OF_ID),
    "SET": ToolFacts(Effect.IDEMPOTENT, ("id", "text")),
    "MOVE": ToolFacts(Effect.UNSAFE, ("board", "row"), independence=OF_ROW),
    "SEND": ToolFacts(Effect.UNSAFE, ("text",), independence=COMMUTES),
    "WRITE": ToolFacts(Effect.UNSAFE, ("id", "text")),
    **OWN_FACTS,
}


def plan(text: str) -> Plan:
    return read_structured(f"# ltp: 2\n{text}").require()


SUB_PLANS = """
PLAN look ($id: json) -> json {
  P1: @LOOK ($id) > $x
  RETURN ($x)
}
PLAN put ($id: int, $text: str = "seen") -> json {
  P2: @GET ("item-${id}") > $old ON_FAIL CONTINUE
  P3: @PUT ("item-${id}", $text) > $x
  RETURN ($x)
}
PLAN both ($row: json, $text: str) -> json {
  P4: CALL put (id=$row.id, text=$text) > $x
  RETURN ($x)
}
PLAN found ($id: int) -> json {
  P5: @SEEK ($id) > $x
  P6: CALL put (id=$x) > $y
  RETURN ($y)
}
PLAN changed ($id: int) -> json {
  SET $id = $id % 2
  P7: @PUT ($id, 1) > $x
  RETURN ($x)
}
PLAN always () -> json {
  P8: @PUT (1, 1) > $x
  RETURN ($x)
}
PLAN again ($id: int) -> json {
  P9: CALL again (id=$id) > $x
  RETURN ($x)
}
PLAN waits ($id: int) -> json {
  P10: @ASK_HUMAN ("?") > $x
  P11: CALL put (id=$id) > $y
  RETURN ($y)
}
"""


def said_of(body: str, head: str = "$i IN [1, 2]") -> str:
    """What is said of the order of a loop with this body."""
    tree = plan(f"{SUB_PLANS}S1: ?FOREACH ({head}) {{\n{body}\n}}").tree
    assert tree is not None
    loop = next(one for one in statements(tree.body) if isinstance(one, Foreach))
    order = order_of_items(loop, FACTS, tree)
    return f"{'side by side' if order.side_by_side else 'in order'}: {order.why}"


DIFFERING, ELSE = "side by side: while its items differ in", "else one after another"
LATE = "@PUT is known only while an item runs"
GET_LATE = "in order: id of P2 @GET is known only while an item runs"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("A: @LOOK ($i)\nB: @GET ($i)", "side by side: all its calls only read"),
        ("A: @SEND ($i)", "side by side: its calls commute"),
        ("A: @SEEK ($i) > $x\nB: @SEND ($x)", "side by side: its calls commute"),
        ('A: @LLM_EXTRACT ("a") > $x\nB: @SEND ($x)', "side by side: its calls commute"),
        ("A: @PUT ($i, 2)", f"{DIFFERING} id, {ELSE}"),
        ("A: @PUT ($i.a, 2)\nB: @SEND ($i)", f"{DIFFERING} id, {ELSE}"),
        ("A: @MOVE (board=1, row=$i)", f"{DIFFERING} board and row, {ELSE}"),
        ("A: @WRITE ($i)", "in order: A @WRITE may write"),
        ("A: @SET ($i, 1)", "in order: A @SET may write"),
        ("A: @SEND ($i)\nB: @WRITE ($i)", "in order: B @WRITE may write"),
        ("A: @LOOK ($i) > $x\nB: @SEND ($x)", "in order: A @LOOK may see what B @SEND changes"),
        ('A: @ASK_HUMAN ("?") > $x\nB: @SEND ($x)', "in order: A @ASK_HUMAN may see what B @SEND changes"),
        ("A: @PUT (text=$i)", "in order: A @PUT may touch anything without id"),
        ("A: @SEEK ($i) > $x\nB: @PUT ($x.id, 1)", f"in order: id of B {LATE}"),
        ("LET $x = $i\nB: @PUT ($x, 1)", f"in order: id of B {LATE}"),
        ("A: ?FOREACH ($j IN $i) {\nB: @PUT ($j, 1)\n}", f"in order: id of B {LATE}"),
        ("A: @PUT (str(now()), 1)", f"in order: id of A {LATE}"),
        (
            "A: @PUT ($i, 1)\nB: @MOVE (1, $i)",
            "in order: A and B may touch the same: A names it by id, B by board and row",
        ),
        ("A: @SEND ($i) ON_FAIL {\nB: @WRITE (1)\n}", "in order: B @WRITE may write"),
        ("A: CALL look (id=$i)", "side by side: all its calls only read"),
        ("A: @SEND ($i)\nB: CALL look (id=$i)", "in order: P1 @LOOK may see what A @SEND changes"),
        ("A: CALL put (id=$i)", f"{DIFFERING} id, {ELSE}"),
        ("A: @SEND ($i) > $x\nB: CALL put (id=$i, text=$x)", f"{DIFFERING} id, {ELSE}"),
        ("A: @SEND ($i) > $x\nB: CALL both (row=$i, text=$x)", f"{DIFFERING} id, {ELSE}"),
        ("A: @SEND ($i) > $x\nB: CALL both (row=$x, text=$x)", GET_LATE),
        ("A: CALL put (id=int(str(now())))", GET_LATE),
        ("A: CALL found (id=$i)", GET_LATE),
        ("A: CALL changed (id=$i)", "in order: id of P7 @PUT is known only while an item runs"),
        ("A: CALL always ()", f"{DIFFERING} id, {ELSE}"),
        ("A: CALL waits (id=$i)", "in order: P10 @ASK_HUMAN may see what P3 @PUT changes"),
        ("A: @WRITE ($i) ON_FAIL {\nB: CALL put (id=$i)\n}", "in order: A @WRITE may write"),
        ("A: CALL again (id=$i)", "in order: it is not known what the sub-plan again calls (P9)"),
        (
            "A: @MOVE (1, $i)\nB: CALL put (id=$i)",
            "in order: A and P2 may touch the same: A names it by board and row, P2 by id",
        ),
        ("A: @SEND ($i)\n?IF ($i == 2) {\nBREAK\n}", "in order: an item may end it early"),
        ("A: @SEND ($i) ON_FAIL TERMINATE", "in order: an item may end it early"),
        ('A: @AGENT_SOLVE ("a")', "in order: A @AGENT_SOLVE may write"),
    ],
)  # fmt: skip
def test_order_of_items_follows_from_what_is_declared_of_all_that_touches_the_world(
    body: str, said: str
) -> None:
    assert said_of(body) == said


def test_items_that_stop_at_the_first_failure_run_in_order_whatever_is_declared() -> None:
    text = "LET $n = 0\nS1: ?FOREACH ($i IN [1, 2]){order} {{\nS2: @SEND ($i)\n{more}}}"
    for order, more in ((" IN ORDER", ""), ("", "SET $n = $n + 1\n")):
        bench = Bench(plan(text.format(order=order, more=more)), facts=FACTS)
        assert list(bench.waiting) == ["S1[0]/S2.1"]


def bench(source: str, body: str = "S2: @PUT ($i, 1)", limits: Limits | None = None) -> Bench:
    return Bench(plan(f"S1: ?FOREACH ($i IN {source}) {{\n{body}\n}}"), facts=FACTS, limits=limits)


@pytest.mark.parametrize("source", ["[1, 2, 3]", '["a", "b", 1]', "[1, [2, 3], 4]", "[1, 2, 10**5000]"])
def test_items_that_touch_different_things_start_together(source: str) -> None:
    assert list(bench(source).waiting) == ["S1[0]/S2.1", "S1[1]/S2.1", "S1[2]/S2.1"]


@pytest.mark.parametrize(
    "source",
    [
        "[1, 2, 1]", "[1, 2, 1.0]", '[1, 2, "1"]', '["a", "A "]', "[1, None]", "[1, []]", '[1, {"id": 2}]',
        "[1, [2, 1]]", '[1, "01"]', '[1, "1.0"]', "[1, True]",
    ],
)  # fmt: skip
def test_items_that_may_touch_the_same_run_one_after_another_and_say_so(source: str) -> None:
    run = bench(source)
    assert list(run.waiting) == ["S1[0]/S2.1"]
    said = [one.detail for one in run.notes if one.kind is NoteKind.FACT]
    assert said == ["its items run one after another, as they are not known to differ in id"]
    run.fail("S1[0]/S2.1")
    assert list(run.waiting) == ["S1[1]/S2.1"]


@pytest.mark.parametrize(
    ("source", "called", "count"),
    [
        ("[1, 2]", "put (id=$i)", 2),
        ("[1, 2, 1]", "put (id=$i)", 1),
        ("[1, 1.0]", "put (id=$i)", 1),  # an int each, with one text
        ('[1, "2"]', "put (id=$i)", 1),  # a text is no int: that item fails, and names nothing
        ('[{"id": 1}, {"id": 2}]', 'both (row=$i, text="a")', 2),
        ('[{"id": 1}, {"id": 1.0}]', 'both (row=$i, text="a")', 1),
        ('[{"id": 1}, {"no": 2}]', 'both (row=$i, text="a")', 1),
        ("[1, 2]", "always ()", 1),
        ("[1, 2]", "put (id=1, text=str($i))", 1),
        ("[1, 2]", "put (id=$i // 2)", 2),
        ("[2, 3]", "put (id=$i // 2)", 1),
    ],
)
def test_items_differ_in_what_their_sub_plans_touch(source: str, called: str, count: int) -> None:
    text = f"{SUB_PLANS}S1: ?FOREACH ($i IN {source}) {{\nS2: CALL {called}\n}}"
    facts = {**FACTS, "GET": ToolFacts(Effect.READ, ("id",), independence=COMMUTES)}
    assert len(Bench(plan(text.replace("P9: CALL again", "P9: CALL look")), facts=facts).waiting) == count


def test_calls_of_one_item_may_touch_the_same_and_those_of_others_may_not() -> None:
    body = "S2: @GET ($i.a) > $old\nS3: @PUT ($i.b, $old)"
    assert len(bench('[{"a": 1, "b": 1}, {"a": 2, "b": 3}]', body).waiting) == 2
    assert len(bench('[{"a": 1, "b": 2}, {"a": 3, "b": 1}]', body).waiting) == 1


@pytest.mark.parametrize(("last", "count"), [(19, 20), (0, 1)])
def test_items_are_told_apart_in_slices(last: int, count: int) -> None:
    """What names the thing of an item is work of its own: here each goes through a long list."""
    text = f"""LET $all = list(range(3000))
S1: ?FOREACH ($i IN list(range(19)) + [{last}]) {{
  S2: @PUT (id=sum([n for n in $all if n == $i]), text="x")
}}"""
    machine = Machine(compile_plan(plan(text), FACTS), Limits(window=20))
    made = [machine.feed(Started({}), 100)]
    while machine.is_paused:
        made.append(machine.go_on(100))
    assert len(list(chain.from_iterable(made))) == count
    assert not any(made[:20])


def test_more_names_than_are_compared_may_be_any() -> None:
    boards, rows = [*range(10_000)], [*range(10_000)]
    assert not all_differ([[(boards, rows)], [("other", 1)]])


def test_a_thing_that_cannot_be_named_may_be_any() -> None:
    assert len(bench('[{"a": 1}, {"b": 2}]', "S2: @PUT ($i.a, 1)").waiting) == 1


def test_on_the_sequential_schedule_no_declaration_counts() -> None:
    assert len(bench("[1, 2]", limits=Limits(schedule="sequential")).waiting) == 1
    assert len(bench("[1, 2]", "S2: @SEND ($i)", Limits(schedule="sequential")).waiting) == 1
    assert len(bench("[1, 2]", "S2: @SEEK ($i)", Limits(schedule="sequential")).waiting) == 2


@pytest.mark.parametrize("restoring", [False, True])
def test_once_a_person_has_set_variables_no_declaration_counts(restoring: bool) -> None:
    """Here the first item is given the third's thing: the third waits for it."""
    body = "S2: @SEEK ($i) > $x\nS3: @PUT ($i, $x)"
    run = bench("[1, 2, 3]", body, Limits(window=2))
    run.feed(Edited({"S1[0]/i": 3}))
    for each in (0, 1):
        run.ok(f"S1[{each}]/S2.1", "x")
    if restoring:
        state = run.machine.state()
        assert state is not None
        data = json.loads(json.dumps(state_to_json(state)))
        run.machine = Machine.at(state_from_json(run.machine.program, data))
    run.ok("S1[1]/S3.1")
    assert {key: call.args["id"] for key, call in run.waiting.items() if isinstance(call, CallTool)} == {
        "S1[0]/S3.1": 3
    }
    run.ok("S1[0]/S3.1")
    assert list(run.waiting) == ["S1[2]/S2.1"]


# ---------------------------------------------------------------- what it never changes


@dataclass
class World:
    """Things with texts, letters that were sent, and a book of all that was written, in this order."""

    things: dict[str, JSON] = field(default_factory=dict[str, JSON])
    sent: Counter[str] = field(default_factory=Counter[str])
    book: list[str] = field(default_factory=list[str])

    def answer(self, tool: str, args: Mapping[str, Any]) -> JSON:
        """What a call gives; it fails, without effect, for a text about seven."""
        thing, text = str(args.get("id")).strip().lower(), args.get("text")
        if "7" in json.dumps([args], sort_keys=True):
            raise ValueError(tool)
        match tool:
            case "GET":
                return self.things.get(thing)
            case "PUT":
                before, self.things[thing] = self.things.get(thing), text
                return before
            case "SET" | "MOVE":
                self.things[str(args.get("row", thing)).strip().lower()] = text
                return None
            case "SEND":
                self.sent[json.dumps(text)] += 1
                return None
            case "LOOK":
                return [dict(self.things), len(self.book), sum(self.sent.values())]
            case "WRITE":
                self.book.append(json.dumps([args, self.things], sort_keys=True))
                return len(self.book)
            case _:
                return len(str(args))


_DECLARED = ["GET ({id})", "PUT ({id}, {text})", "PUT ({id}, {text})", "SEND ({text})", "SEEK ({id})"]
_OTHERS = ["LOOK ({id})", "MOVE (1, {id})", "SET ({id}, {text})", "WRITE (1, {text})"]
_HANDLED = [
    "",
    "",
    " ON_FAIL @RETRY(1)",
    " ON_FAIL USE (0)",
    ' ON_FAIL {{\n@SEND ("sorry")\nLET {into} = 1\n}}',
]
_ITEM = {"id": st.sampled_from(["1", 1, 2, 3, "b", "B", 7]), "other": st.integers(1, 3)}
_ITEMS = st.fixed_dictionaries(_ITEM)
ITEMS = st.lists(_ITEMS, min_size=2, max_size=4) | st.lists(
    _ITEMS, min_size=2, max_size=3, unique_by=lambda item: str(item["id"]).lower()
)


@st.composite
def bodies(draw: st.DrawFn, known: list[str]) -> str:
    """Calls of a loop's item, which YIELDs all that they give; `known` are expressions of what they touch."""
    tools = st.sampled_from(_DECLARED + draw(st.sampled_from([[], *([one] * 5 for one in _OTHERS)])))
    lines: list[str] = []
    for number in range(draw(st.integers(1, 3))):
        into, handled = f"$v{number}", draw(st.sampled_from(_HANDLED)).replace("{{", "{").replace("}}", "}")
        named, text = draw(st.sampled_from(known)), draw(st.sampled_from([*known, '"seen"']))
        line = f"@{draw(tools)}".replace("{id}", named).replace("{text}", text)
        lines.append(f"{line} > {into}{handled.replace('{into}', into)}")
        known = [*known, *([into] if draw(st.integers(0, 5)) == 0 else [])]
    if draw(st.booleans()):
        lines = [f"?IF ($i.other != 2) {{\n{lines[0]}\n}} ELSE {{\nLET $v0 = 0\n}}", *lines[1:]]
    return "\n".join([*lines, f"YIELD ([{', '.join(f'$v{n}' for n in range(len(lines)))}])"])


_ID = re.compile(r"\$[a-z]\w*(?:\.\w+)?")
_TYPES = st.sampled_from(["json", "json", "int", "str", "float", "int?"])


@st.composite
def in_sub_plans(draw: st.DrawFn, body: str, name: str) -> tuple[str, str]:
    """Some calls of a body in sub-plans, whose inputs are what they read: those plans, and the body."""
    lines, made = body.splitlines(), list[str]()
    for number, line in enumerate(lines):
        call = re.fullmatch(r"(@\w+ \(.*\)) > (\$\w+)(| ON_FAIL @RETRY\(1\)| ON_FAIL USE \(0\))", line)
        if call is None or draw(st.booleans()):
            continue
        read = dict.fromkeys(_ID.findall(call[1]))
        inputs = {value: f"n{at}" for at, value in enumerate(read)}
        inner = call[1]
        for value, each in sorted(inputs.items(), key=lambda pair: -len(pair[0])):
            inner = inner.replace(value, f"${each}")
        if draw(st.booleans()):  # by way of another one
            made.append(_sub_plan(f"{name}{number}a", f"{inner} > $x", inputs.values(), draw(_TYPES)))
            passed = ", ".join(f"{each}=${each}" for each in inputs.values())
            inner = f"CALL {name}{number}a ({passed})"
        made.append(_sub_plan(f"{name}{number}", f"{inner} > $x", inputs.values(), draw(_TYPES)))
        given = ", ".join(f"{each}={value}" for value, each in inputs.items())
        lines[number] = f"CALL {name}{number} ({given}) > {call[2]}{call[3]}"
    return "".join(made), "\n".join(lines)


def _sub_plan(name: str, call: str, inputs: Iterable[str], kind: str) -> str:
    typed = ", ".join(f"${each}: {kind if at == 0 else 'json'}" for at, each in enumerate(inputs))
    return f"PLAN {name} ({typed}) -> json {{\n{call}\nRETURN ($x)\n}}\n"


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Two loops over records, one of them perhaps around another, of calls of all kinds of declaration."""
    known = ["$i.id", "$i.id", "$i.id", "$i.other", "$base"]
    first, second, tail = (
        draw(bodies(known)),
        draw(bodies(known)),
        draw(st.sampled_from(["", " ON_FAIL SKIP"])),
    )
    if draw(st.integers(0, 3)) == 0:
        nested = draw(bodies(["$j", "$i.id"]))
        second = f"?FOREACH ($j IN [1, 2]) {{\n{nested}\n}} > $w\n{second}"
    (plans_a, first), (plans_b, second) = draw(in_sub_plans(first, "a")), draw(in_sub_plans(second, "b"))
    return plan(
        f'INPUT $items: json\n{plans_a}{plans_b}LET $base = "c"\nTRY {{\n'
        f"?FOREACH ($i IN $items) {{\n{first}\n}} > $all{tail}\n"
        "} ON_FAIL {\nLET $all = $error.message\n}\n"
        f"?FOREACH ($i IN $items) {{\n{second}\n}} > $more ON_FAIL SKIP\n@RESPOND ([$all, $more])"
    )  # fmt: skip


def run(
    program: Plan, items: JSON, limits: Limits, order: Callable[[int], int], *, restoring: bool
) -> tuple[Result, World, Counter[str]]:
    """A run in which `order` chooses which call under way ends next."""
    world, calls = World(), Counter[str]()
    machine = Machine(compile_plan(program, FACTS), limits)
    waiting = machine.feed(Started({"items": items}))
    while machine.result is None:
        if restoring:
            state = machine.state()
            assert state is not None
            data = json.loads(json.dumps(state_to_json(state)))
            machine = Machine.at(state_from_json(compile_plan(program, FACTS), data))
        command = waiting.pop(order(len(waiting)))
        assert isinstance(command, CallTool)
        calls[command.key] += 1
        try:
            event: Event = Succeeded(command.key, world.answer(command.tool, command.args))
        except ValueError as error:
            event = Failed(command.key, str(error))
        waiting += [one for one in machine.feed(event) if not isinstance(one, Finish)]
    return machine.result, world, calls


@settings(max_examples=150)
@given(plans(), ITEMS, st.randoms(use_true_random=False), st.booleans())
def test_auto_ends_as_sequential_whatever_is_declared_and_in_whatever_order_calls_end(
    program: Plan, items: list[JSON], chance: Random, restoring: bool
) -> None:
    auto, sequential = Limits(retry_delay=0.0), Limits(retry_delay=0.0, schedule="sequential")
    expected, world, calls = run(program, items, sequential, lambda _: 0, restoring=False)
    result, other, made = run(program, items, auto, chance.randrange, restoring=restoring)
    assert (result.status, result.answer, result.error) == (expected.status, expected.answer, expected.error)
    assert made == calls
    assert other == world


# ---------------------------------------------------------------- under a policy, and over sealed values

READERS = ToolRule(returns=read_label("T/priv"), egress=False, destructive=False)
OPEN = {
    name: ToolRule(returns=read_label("T/pub"), egress=False, destructive=False) for name in ("PUT", "SEEK")
}
LOOPS = "S1: @{tool} () > $rows\nS2: ?FOREACH ($i IN $rows) {{\nS3: @PUT ($i, 1)\n}}"
_INNER = "S2: ?FOREACH ($i IN $rows) {{\nS3: @PUT ($i, 1)\n}}\n"
IN_A_LOOP = "S1: @{tool} () > $rows\n?FOREACH ($n IN [1]) IN ORDER {{\n" + _INNER + "}}"


@pytest.mark.parametrize(
    ("text", "tool", "implicit", "count"),
    [
        (LOOPS, "GET", Implicit.BOUNDED, 2),
        (LOOPS, "GET", Implicit.STRICT, 1),
        (LOOPS, "SEEK", Implicit.STRICT, 2),
        (IN_A_LOOP, "GET", Implicit.BOUNDED, 1),
        (IN_A_LOOP, "SEEK", Implicit.BOUNDED, 2),
    ],
)
def test_whether_private_items_differ_shows_in_no_order_where_a_bit_counts(
    text: str, tool: str, implicit: Implicit, count: int
) -> None:
    policy = Policy(tools={"GET": READERS, **OPEN}, implicit=implicit)
    program = compile_plan(plan(text.format(tool=tool)), FACTS)
    machine = Machine(program, enforcement=Enforcement.under(policy))
    machine.feed(Started({}))
    assert len(machine.feed(Succeeded("S1.1", [1, 2]))) == count


def test_over_placeholders_items_run_in_the_recorded_order() -> None:
    text = plan("INPUT $a: json\nS1: ?FOREACH ($i IN $a) {\nS2: @PUT ($i, 1)\n}")
    log = DecisionLog(notes=True)
    first, other = Machine(compile_plan(text, FACTS)), Machine(compile_plan(text, FACTS))
    first.use_decision_log(log)
    sent = first.feed(Started({"a": [1, 2]}))
    other.use_decision_log(DecisionLog(notes=False))
    other.follow(log.taken())
    sealed = other.feed(Started({"a": ["[sealed]", "[sealed]"]}))
    assert [one.key for one in sealed if not isinstance(one, Finish)] == ["S1[0]/S2.1", "S1[1]/S2.1"]
    assert len(sent) == 2


@pytest.mark.parametrize(("secrets", "count"), [({}, 2), ({"[secret a]": "A", "[secret b]": "B"}, 1)])
def test_texts_that_stand_for_secrets_may_name_the_same(secrets: dict[str, JSON], count: int) -> None:
    """As on Temporal, where the machine does not know that $b is $a and a 1 behind it, for one."""
    body = 'S2: @PUT ("${a}${i}", 1)\nS3: @PUT ("${b}${i}", 1)'
    text = f'INPUT $a: str\nINPUT $b: str\nS1: ?FOREACH ($i IN ["1", "11"]) {{\n{body}\n}}'
    inputs: dict[str, JSON] = {"a": "[secret a]", "b": "[secret b]"}
    start = Start(inputs, FACTS, Limits(), {}, {SECRETS: secrets})
    assert len(begin(plan(text), start).machine.feed(Started(inputs))) == count


# ---------------------------------------------------------------- what is recorded of it


def test_what_is_declared_is_recorded_with_the_run() -> None:
    assert facts_from_json(json.loads(json.dumps(facts_to_json(FACTS)))) == FACTS


def test_runs_of_before_go_on_as_they_began() -> None:
    facts = facts_from_json({"SET": ["idempotent", ["id", "text"]]})
    assert facts_to_json(facts) == {"SET": ["idempotent", ["id", "text"], "ask"]}
    run = Bench(plan("S1: ?FOREACH ($i IN [1, 2]) {\nS2: @SET ($i, 1)\n}"), facts=facts)
    assert len(run.waiting) == 2
