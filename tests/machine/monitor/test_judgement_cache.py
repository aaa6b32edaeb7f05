"""A call whose judgement is reused from an equal-looking call gets the judgement of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.monitor.test_laws import keys_of, told
from tests.plans import FACTS, INPUTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.machine import (
    Answered,
    Ask,
    Command,
    Event,
    Finish,
    Machine,
    PlanCompiled,
    Succeeded,
    Verdict,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.policy.calls import CallView, Judgement
from callsheet.policy.judge import Judge
from callsheet.policy.model import Audience, Implicit, Policy, ReplanRule, SourceRule, ToolRule, When
from callsheet.runtime.simulated import Simulation

SEEDS = st.integers(0, 2**32 - 1)
PUBLIC = st.sampled_from([LITERAL, read_label("U/pub")])
LABELS = st.sampled_from(
    [read_label(text) for text in ("T/pub", "U/pub", "T/pub", "U/pub", "U/priv", "T/secret")]
)
TOOLS = st.builds(
    ToolRule,
    egress=st.booleans(),
    control=st.sampled_from([(), (), (), ("x",)]),
    audience_arg=st.sampled_from([None, None, None, "y"]),
    destructive=st.sampled_from([False, False, False, True]),
    idempotent=st.sampled_from([True, True, False]),
    key_arg=st.sampled_from(["idempotency_key", "y"]),
    approval=st.sampled_from([When.NEVER, When.NEVER, When.IF_UNTRUSTED_OR_OUTSIDE]),
    returns=PUBLIC | PUBLIC | LABELS,
    no_echo=st.booleans(),
)
STEPS = st.just(frozenset[str]()) | st.frozensets(st.sampled_from(["S3", "S5"]), max_size=1)
POLICIES = st.builds(
    Policy,
    tools=st.fixed_dictionaries(dict.fromkeys(FACTS, TOOLS)),
    implicit=st.sampled_from(Implicit),
    planner=st.sampled_from([LITERAL, LITERAL, LITERAL, read_label("U/pub")]),
    inputs=PUBLIC,
    approved=STEPS,
    declassify=STEPS,
    forbidden=st.sampled_from([(), (), (), ("[234]",)]),
    max_retries=st.sampled_from([None, None, 1]),
    replan=st.just(ReplanRule(context="any")),
)
ARGUMENTS = st.sampled_from(["$a", "$a", "$b", "$c", '"<$a|$b>"', "[1, $b]", '"x"', '""'])


@st.composite
def same_texts(draw: st.DrawFn) -> str:
    """Plans with many steps of few shapes: most calls resemble an earlier one."""
    tools = draw(st.lists(st.sampled_from(sorted(FACTS)), min_size=1, max_size=2))
    shapes = draw(st.lists(st.tuples(st.sampled_from(tools), ARGUMENTS, ARGUMENTS), min_size=1, max_size=3))
    steps: list[str] = []
    for number in range(1, draw(st.integers(4, 12)) + 1):
        tool, first, second = draw(st.sampled_from(shapes))
        head = draw(st.sampled_from(["", "", "", "?IF ($b == 2) THEN ", "?FOREACH ($a IN [1, 2, 3]) THEN "]))
        out = draw(st.sampled_from([" > $a", " > $b", " > $c", ""]))
        tail = draw(
            st.sampled_from(["", "", "", "", " ON_FAIL @RETRY(1)", " ON_FAIL GOTO S1", " ON_FAIL GOTO S12"])
        )
        steps.append(f"S{number}: {head}@{tool} ({first}, {second}){out}{tail}")
    if len(steps) > 5 and draw(st.booleans()):
        steps[2:5] = ["@PARALLEL {", *(step for step in steps[2:5]), "}"]
    return "\n".join(["PLAN_START", *steps, "PLAN_END"])


def machine_of(text: str, rules: Enforcement) -> Machine:
    return Machine(compile_plan(plan_of(text), FACTS), LIMITS, enforcement=rules)


def driven(
    machine: Machine, world: int, schedule: int, outcome: Callable[[int, Any], Event] = outcome
) -> Simulation:
    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        if isinstance(command, Ask):
            return duration(schedule, command.key), Answered(
                command.key, command.asked.digest, Verdict.APPROVE
            )
        event = outcome(world, command)
        if isinstance(event, PlanCompiled):
            event = event._replace(context=LITERAL)
        return duration(schedule, command.key), event

    return Simulation(machine, respond)


def each(policy: Policy) -> Enforcement:
    """The rules of a policy that judge every call in full."""
    return Enforcement(policy, Judge(policy).judge, {}, policy.inputs)


def runs_equally(
    text: str,
    policy: Policy,
    world: int = 0,
    schedule: int = 0,
    outcome: Callable[[int, Any], Event] = outcome,
) -> Machine:
    """The machine at the end of a run that goes as it does where each call is judged in full.

    Another run of the same program, to which something else happens, has been there before.
    """
    program, rules = compile_plan(plan_of(text), FACTS), Enforcement.under(policy)
    driven(Machine(program, LIMITS, enforcement=rules), world + 1, schedule, outcome).run(INPUTS)
    quick, full = Machine(program, LIMITS, enforcement=rules), machine_of(text, each(policy))
    one, other = driven(quick, world, schedule, outcome), driven(full, world, schedule, outcome)
    assert one.run(INPUTS) == other.run(INPUTS)
    assert keys_of(one) == keys_of(other)
    assert told(quick) == told(full)
    return quick


@given(plan_texts() | same_texts() | same_texts(), POLICIES, SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_run_is_same_with_and_without_cache(text: str, policy: Policy, world: int, schedule: int) -> None:
    runs_equally(text, policy, world, schedule)


PLACES = st.sampled_from(
    ["docs/a.md", "docs/b.md", ".env", "keys/a.pem", "run.sh", "../up", "/etc/shadow", "$b/c.md", "$d"]
)
PAGES = st.sampled_from(
    ["https://a.example/x", "https://b.example/?q=$b", "http://localhost/", "https://api.corp.example/", "$d"]
)
SOURCES = st.lists(
    st.builds(
        SourceRule,
        kind=st.just("file"),
        pattern=st.sampled_from(["docs/**", "docs/a.md", "**/.env", "keys/**"]),
        label=LABELS,
    ),
    max_size=3,
).map(tuple)


@st.composite
def built_in(draw: st.DrawFn) -> str:
    """Plans with tools whose paths or addresses matter, and with model operations."""
    steps: list[str] = []
    for number in range(1, draw(st.integers(2, 10)) + 1):
        place, page, said = draw(PLACES), draw(PAGES), draw(st.sampled_from(["$a", "$b", "$c", '"x"', "$d"]))
        call = draw(
            st.sampled_from(
                [
                    f'@READ_FILE (path="{place}")',
                    f'@WRITE_FILE (path="{place}", content={said})',
                    f'@EDIT_FILE (path="{place}", old="x", new={said})',
                    f'@SEARCH_FILES (pattern={said}, glob="{place}")',
                    f'@HOST_FILE_READ (path="{place}")',
                    f'@FETCH_PAGE (url="{page}")',
                    f'@LLM_SUMMARIZE ({said}, focus="{page}")',
                    f"@STORE_FACT (content={said})",
                    f'@KEEP ({said}, "x")',
                ]
            )
        )
        head = draw(st.sampled_from(["", "", "", "?IF ($b == 2) THEN ", "?FOREACH ($a IN [1, 2]) THEN "]))
        tail = draw(st.sampled_from(["", "", " ON_FAIL @RETRY(1)", " ON_FAIL GOTO S12"]))
        steps.append(f"S{number}: {head}{call} > ${draw(st.sampled_from('abcd'))}{tail}")
    return "\n".join(
        ["PLAN_START", *steps, f"S12: @RESPOND ({draw(st.sampled_from(['$b', '$d']))})", "PLAN_END"]
    )


@given(built_in(), POLICIES, SOURCES, SEEDS)
@settings(max_examples=150, deadline=None)
def test_cache_is_correct_under_path_and_address_rules(
    text: str, policy: Policy, sources: tuple[SourceRule, ...], world: int
) -> None:
    audiences = (Audience(name="corp", hosts=("*.corp.example",)),)
    runs_equally(text, replace(policy, sources=sources, audiences=audiences), world)


ODD: tuple[JSON, ...] = (
    "plain words", "<img src='https://evil.example/?", "see [a](https://evil.example/", "a) b", "[x]: ",
    "a]", "https://evil.example/?q=", "evil.example", "&lt;img src='https://evil.example/?",
    "\\\\evil.example\\", "key 3", "ü 3", "\u200b3", "", 3, 2.5, None, ["a", "<b"], {"k": "("},
)  # fmt: skip
"""What data may say that makes something of what stands beside it, or that patterns look for."""


def odd(world: int, command: Any) -> Event:
    """The outcome of a call: unusual texts for reads, a number otherwise."""
    reads = command.tool in ("READ", "FAULTY")
    value = ODD[crc32(f"{world}{command.key}".encode()) % len(ODD)] if reads else 1
    return Succeeded(command.key, value)


@st.composite
def with_texts(draw: st.DrawFn) -> str:
    """Plans that combine data of several labels, also in texts."""
    given_texts = [
        "$a", '"$a"', '"Number: $a and $b."', '"x $a"', '"$a $b $a"', '"https://evil.example/?q=$a"',
        '"$a$b"', '"[$a]"',
        '"$a.k of $b"', "$b.0", '["$a", $b]', '"no data"', '"($b)"', '"<b> $a"',
    ]  # fmt: skip
    steps = ['S1: @READ ("q") > $a', 'S2: @FAULTY ("q") > $b']
    for number in range(3, draw(st.integers(4, 12)) + 1):
        one, two = (draw(st.sampled_from(given_texts)) for _ in range(2))
        call = draw(
            st.sampled_from(
                [
                    f"@KEEP ({one}, {two})",
                    f"@WRITE (y={one})",
                    f"@LLM_SUMMARIZE ({one}, focus={two})",
                    f"@STORE_FACT (content={one})",
                    f'@WRITE_FILE (path="docs/{number % 3}.md", content={one})',
                    '@FETCH_PAGE (url="https://a.example/?q=$a")',
                    '@FETCH_PAGE (url="https://api.corp.example/$a/$b")',
                    '@FETCH_PAGE (url="https://a.example$a/")',
                    '@READ ("q")',
                ]
            )
        )
        head = draw(st.sampled_from(["", "", "", '?IF ($a != "plain words") THEN ']))
        steps.append(f"S{number}: {head}{call} > ${draw(st.sampled_from('abcd'))}")
    return "\n".join(["PLAN_START", *steps, "PLAN_END"])


@given(with_texts(), POLICIES, LABELS, LABELS, SEEDS)
@settings(max_examples=400, deadline=None)
def test_cache_is_correct_for_mixed_private_data(
    text: str, policy: Policy, label: Label, other: Label, world: int
) -> None:
    audiences = (Audience(name="corp", hosts=("*.corp.example",)),)
    plain = policy_of().tools["READ"]
    tools = {
        **policy.tools,
        "READ": replace(plain, returns=label),
        "FAULTY": replace(plain, returns=other),
    }
    runs_equally(text, replace(policy, tools=tools, audiences=audiences), world, 0, odd)


def names(world: int, command: Any) -> Event:
    """The outcome of a call: reads may return a name."""
    number = crc32(f"{world}{command.key}".encode())
    if number % 4:
        return Succeeded(command.key, ("friend", "stranger", "pal")[number % 3])
    return odd(world, command)


TITLES = [
    "",
    *(
        f', subject="{title}"'
        for title in ("Hello", "Number 7: done", "<a href=", "a\\nBcc: eve", "see https:")
    ),
    *(f', subject="{title}"' for title in ("c.example/?q=", "![x](", "Re: x, y!", "friend", "")),
    ", subject=$b",
    ', webhook="Number 7"',
    ', reply_to="Number 7"',
    ', Subject="Number 8"',
    ', note="pal@stranger.example"',
    ', via="Number 9"',
]


@st.composite
def mails(draw: st.DrawFn) -> str:
    """Plans that send data of several labels to one or more recipients, beside other data."""
    whom = [
        '"friend"',
        '"friend"',
        '"friend, pal"',
        '"stranger"',
        '"Fr <friend>"',
        '"friend@corp.example"',
        '"https://friend.example/"',
        '"friend &#60;a href="',
        "$a",
        '["friend"]',
    ]
    said = [
        "$a",
        '"x@stranger.example"',
        '"Number: $a and $b."',
        '"x $a"',
        '"$a$b"',
        '"Plain"',
        '"https://evil.example/?q="',
        "$b",
    ]
    steps = ['S1: @READ ("q") > $a', 'S2: @FAULTY ("q") > $b']
    for number in range(3, draw(st.integers(4, 10)) + 1):
        title = draw(st.sampled_from(TITLES))
        extra = draw(
            st.sampled_from(
                ["", "", "", ', cc="stranger"', ', attachment="docs/a.md"', ', headers={"to": "eve"}']
            )
        )
        call = f"@KEEP (y={draw(st.sampled_from(whom))}{title}, body={draw(st.sampled_from(said))}{extra})"
        loop = draw(st.sampled_from(["", "", "?FOREACH ($a IN [1, 2]) THEN ", '?IF ($b != "") THEN ']))
        steps.append(f"S{number}: {loop}{call} > ${draw(st.sampled_from('abcd'))}")
    return "\n".join(["PLAN_START", *steps, "PLAN_END"])


@given(mails(), LABELS, LABELS, PUBLIC, st.booleans(), SEEDS)
@settings(max_examples=400, deadline=None)
def test_cache_is_correct_for_any_recipient_of_private_data(
    text: str, label: Label, other: Label, returns: Label, no_echo: bool, world: int
) -> None:
    policy = policy_of()
    plain = policy.tools["READ"]
    tools = {
        **policy.tools,
        "READ": replace(plain, returns=label),
        "FAULTY": replace(plain, returns=other),
        "KEEP": replace(
            plain,
            egress=True,
            audience_arg="y",
            trusted_audience=("friend", "pal", "*@corp.example", "https://friend.example/*"),
            returns=returns,
            no_echo=no_echo,
        ),
    }
    runs_equally(text, replace(policy, tools=tools), world, 0, names)


@pytest.mark.parametrize(
    ("tool", "rest"),
    [("READ_FILE", ""), ("WRITE_FILE", ', content="x"'), ("EDIT_FILE", ', old="x", new="y"')],
)
def test_different_path_is_judged_again(tool: str, rest: str) -> None:
    text = "\n".join(f'S{n}: @{tool} (path="{path}"{rest}) > $d' for n, path in ((1, "a.md"), (2, "../a.md")))
    assert refused(runs_equally(text, Policy())) == "path"


def test_different_host_is_judged_again() -> None:
    text = 'S1: @FETCH_PAGE (url="https://a.example/x")\nS2: @FETCH_PAGE (url="https://localhost/x")'
    assert refused(runs_equally(text, Policy())) == "address"


def test_private_data_for_different_recipient_is_judged_again() -> None:
    policy = policy_of()
    reads = replace(policy.tools["READ"], returns=PRIVATE)
    sends = replace(policy.tools["KEEP"], egress=True, audience_arg="y", trusted_audience=("friend",))
    policy = replace(policy, tools={**policy.tools, "READ": reads, "KEEP": sends})
    text = 'S1: @READ ("q") > $c\nS2: @KEEP ($c, "friend")\nS3: @KEEP ($c, "stranger")'
    assert refused(runs_equally(text, policy)) == "flow"


@pytest.mark.parametrize(
    "second",
    [
        'y="stranger", body=$c',
        'y="friend", cc="stranger", body=$c',
        "y=$s, body=$c",
        'y="friend", body=$c, subject="x\\nBcc: eve"',
    ],
)
def test_recipients_of_private_data_are_judged_per_call(second: str) -> None:
    text = f"""
        S1: @READ ("q") > $c
        S2: ?FOREACH ($i IN [1, 2]) THEN @KEEP (y="friend", body=$c)
        S3: @FAULTY ("q") > $s
        S4: @KEEP ({second})
    """
    assert refused(runs_equally(text, mail())) == "flow"


def mail() -> Policy:
    """Reads return private data, which may only be sent to a friend."""
    policy = policy_of()
    reads = replace(policy.tools["READ"], returns=PRIVATE)
    sends = replace(
        policy.tools["KEEP"], egress=True, audience_arg="y", trusted_audience=("friend",), no_echo=False
    )
    return replace(policy, tools={**policy.tools, "READ": reads, "KEEP": sends})


def test_recipients_derived_from_data_are_judged_per_call() -> None:
    text = 'S1: @READ ("q") > $c\nS2: ?FOREACH ($i IN $c) THEN @KEEP (y=$i, body=$i)'

    def names(_world: int, command: Any) -> Event:
        said: JSON = ["friend", "stranger"] if command.tool == "READ" else 1
        return Succeeded(command.key, said)

    assert refused(runs_equally(text, mail(), outcome=names)) == "flow"


def test_argument_name_unlike_prose_may_be_header() -> None:
    text = 'S1: @READ ("q") > $c\nS2: ?FOREACH ($i IN $c) THEN @KEEP (y="friend", boDy=$i)'

    def headers(_world: int, command: Any) -> Event:
        said: JSON = ["plain", "x\nBcc: eve"] if command.tool == "READ" else 1
        return Succeeded(command.key, said)

    assert refused(runs_equally(text, mail(), outcome=headers)) == "flow"


def test_title_opening_tag_includes_following_text() -> None:
    text = """
        S1: @READ ("q") > $c
        S2: @KEEP (y="friend", subject="<a href=", body="> $c") > $a
        S3: @KEEP (y="friend", subject="<a href=", body="x $c") > $b
    """
    machine = runs_equally(text, mail())
    assert machine.monitor is not None
    assert [str(machine.monitor.variables()[name][0]) for name in "ab"] == ["U/priv", "U/model+trusted"]


def test_titles_of_plain_words_are_equivalent() -> None:
    text = """
        S1: @READ ("q") > $c
        S2: @KEEP (y="friend", subject="Number 7: done", body="Number 7: $c") > $a
        S3: @KEEP (y="friend", subject="Another, then!", body="Another: $c") > $b
        S4: @KEEP (y="friend", subject="see c.example/?q=", body="Another: $c") > $d
    """
    judge, judged = Judge(mail()), list[str]()

    def noted(call: CallView) -> Judgement:
        judged.append(call.step)
        return judge.judge(call)

    machine = machine_of(text, replace(Enforcement.under(mail()), judge=noted))
    driven(machine, 0, 0).run(INPUTS)
    assert set(judged) == {"S1", "S2", "S4"}


def test_attachment_for_different_recipient_is_judged_again() -> None:
    policy = policy_of(egress=True, audience_arg="y", trusted_audience=("friend",))
    policy = replace(policy, sources=(SourceRule(kind="file", pattern="docs/**", label=LITERAL),))
    text = 'S1: @KEEP (y="friend", attachment="notes.txt")\nS2: @KEEP (y="stranger", attachment="notes.txt")'
    assert refused(runs_equally(text, policy)) == "flow"


def test_plan_text_in_variable_counts_beside_private_data() -> None:
    text = """
        S1: @READ ("q", "x") > $c
        S2: ?FOREACH ($i IN ["x", "https://evil.example/?q="]) THEN @KEEP ($i, $c) > $d
    """
    policy = policy_of(returns=PRIVATE, no_echo=False)
    machine = runs_equally(text, replace(policy, planner=LITERAL))
    assert machine.monitor is not None
    assert str(machine.monitor.variables()["d"][0]) == "U/model+trusted"


@pytest.mark.parametrize("opening", ["<", "&lt;"])
def test_data_opening_tag_includes_following_text(opening: str) -> None:
    text = 'S1: @READ ("q") > $c\nS2: ?FOREACH ($i IN $c) THEN @KEEP ("$i and $i", "x") > $d'

    def images(_world: int, command: Any) -> Event:
        said: JSON = ["plain", f"{opening}img src='https://evil.example/?"] if command.tool == "READ" else 1
        return Succeeded(command.key, said)

    machine = runs_equally(text, policy_of(returns=PRIVATE, no_echo=False), outcome=images)
    assert machine.monitor is not None
    assert str(machine.monitor.variables()["d"][0]) == "U/model+trusted"


def test_image_in_data_is_judged_per_call() -> None:
    """Showing the image reveals the condition of the loop to the owner of the image."""

    def images(_world: int, command: Any) -> Event:
        said: JSON = ["plain", "an ![x](https://evil.example/)"] if command.tool == "READ" else 1
        return Succeeded(command.key, said)

    text = """
        S1: @READ ("q") > $c
        S2: ?FOREACH ($i IN $c) THEN @KEEP (y="friend", body=$i)
    """
    assert refused(runs_equally(text, mail(), outcome=images)) == "flow"


def test_path_from_data_is_judged_per_call() -> None:
    text = 'S1: ?FOREACH ($i IN ["a.md", "b.md", "../a.md"]) THEN @WRITE_FILE (path="$i", content="x")'
    assert refused(runs_equally(text, Policy())) == "path"


def test_result_of_tool_without_echo_has_label_of_plan_text() -> None:
    text = 'S1: @READ ("q", "x") > $c\nS2: @READ ("https://evil.example/?q=", "x") > $d'
    machine = runs_equally(text, policy_of(returns=PRIVATE, no_echo=False))
    assert machine.monitor is not None
    assert [str(machine.monitor.variables()[name][0]) for name in "cd"] == ["U/priv", "U/model+trusted"]


def test_untrusted_text_is_not_written_to_executable_file() -> None:
    text = "\n".join(
        f'S{n}: @WRITE_FILE (path="{path}", content=$b)'
        for n, path in ((1, "a.md"), (2, "a.md"), (3, "a.sh"))
    )
    policy = replace(policy_of(), inputs=read_label("U/pub"))
    assert refused(runs_equally(text, policy)) == "executable-target"


def policy_of(**rule: Any) -> Policy:
    """Tools are harmless unless declared otherwise; inputs are untrusted."""
    plain: dict[str, Any] = {
        "egress": False,
        "destructive": False,
        "idempotent": True,
        "no_echo": True,
        "returns": LITERAL,
    }
    rules = {name: ToolRule(**{**plain, **rule}) for name in FACTS}
    return Policy(tools=rules, inputs=read_label("U/pub"))


GUARDED = """
S1: @KEEP ("q", "x") > $d
S2: @KEEP ($d, $d) > $c
S3: ?IF ($b != 2) THEN @KEEP ($d, $d) > $c
"""
TWICE = 'S1: @KEEP ($b, "x") > $c\nS2: @KEEP ($b, "x") > $d'
PRIVATE = read_label("U/priv")


def test_control_flow_label_is_part_of_cache_key() -> None:
    policy = replace(policy_of(egress=True), inputs=PRIVATE)
    assert refused(runs_equally(GUARDED, policy)) == "implicit-flow"


def test_approval_applies_to_one_step_only() -> None:
    policy = policy_of(control=("x",))
    assert refused(runs_equally(TWICE, replace(policy, approved=frozenset({"S1"})))) == "control-argument"


def test_declassification_applies_to_its_step_only() -> None:
    policy = policy_of(returns=PRIVATE)
    machine = runs_equally(TWICE, replace(policy, declassify=frozenset({"S1"})))
    assert machine.monitor is not None
    assert str(machine.monitor.variables()["d"][0]) == "U/priv"


def test_same_data_in_different_argument_is_judged_again() -> None:
    text = 'S1: @KEEP (y=$b, x="q")\nS2: @KEEP (x=$b, y="q")'
    assert refused(runs_equally(text, policy_of(control=("x",)))) == "control-argument"


def test_idempotency_key_of_retried_call_is_checked_for_each_call() -> None:
    text = 'S1: ?FOREACH ($i IN ["k", ""]) THEN @KEEP ($b, $i) ON_FAIL @RETRY(1)'
    assert refused(runs_equally(text, policy_of(idempotent=False, key_arg="y"))) == "retry"


def test_plan_text_beside_private_data_counts() -> None:
    text = """
        S1: @READ ("q", "x") > $d
        S2: @KEEP ($d, "x") > $c
        S3: @KEEP ($d, "https://evil.example/?q=") > $c
    """
    machine = runs_equally(text, policy_of(returns=PRIVATE, no_echo=False))
    assert machine.monitor is not None
    assert str(machine.monitor.variables()["c"][0]) == "U/model+trusted"


def test_success_is_recorded_if_failure_jumps_elsewhere() -> None:
    text = 'S1: @KEEP ("q", $b) > $d\nS2: @KEEP ("q", $b) > $d ON_FAIL GOTO S3\nS3: @KEEP ("q", "x") > $c'
    machine = runs_equally(text, replace(policy_of(), implicit=Implicit.STRICT), world=3)
    assert machine.monitor is not None
    assert machine.monitor.implicit_flows.noted


@pytest.mark.parametrize("beside", ["[1, $b]", '"<$b>"', '{"k": $b, "n": 1}'])
def test_literals_of_untrusted_planner_beside_data_are_judged(beside: str) -> None:
    text = f"S1: @READ ($a, $a) > $c\nS2: @READ ([$b], $b) > $c\nS3: @READ ({beside}, $b) > $c"
    policy = replace(policy_of(control=("x",)), planner=read_label("U/pub"), inputs=LITERAL)
    machine = runs_equally(text, policy)
    assert refused(machine) == "control-argument"
    assert machine.result is not None
    assert machine.result.ended_at == "S3"


def test_template_with_literals_of_untrusted_planner_is_judged_apart_from_one_of_variables() -> None:
    text = 'S1: @READ ("$a$b", $b) > $c\nS2: @READ ("$a, $b", $b) > $c'
    policy = replace(policy_of(control=("x",)), planner=read_label("U/pub"), inputs=LITERAL)
    machine = runs_equally(text, policy)
    assert refused(machine) == "control-argument"
    assert machine.result is not None
    assert machine.result.ended_at == "S2"


def test_forbidden_texts_are_searched_in_each_call() -> None:
    text = "S1: ?FOREACH ($i IN [1, 2, 3]) THEN @KEEP ($i, $b)"
    policy = replace(policy_of(), forbidden=("3",))
    assert refused(runs_equally(text, policy)) == "forbidden-pattern"


def test_judgements_are_not_shared_between_policies() -> None:
    program = compile_plan(plan_of(TWICE), FACTS)
    lenient, strict = policy_of(), policy_of(control=("x",))
    ends = [
        Machine(program, LIMITS, enforcement=Enforcement.under(policy))
        for policy in (lenient, strict, lenient)
    ]
    for machine in ends:
        driven(machine, 0, 0).run(INPUTS)
    assert [refused(machine) for machine in ends] == [None, "control-argument", None]


def refused(machine: Machine) -> str | None:
    """The rule that refused a run."""
    assert machine.result is not None
    objection = machine.result.objection
    return None if objection is None else objection.rule


@given(plan_texts() | same_texts() | same_texts(), POLICIES, SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_restored_run_continues_unchanged(text: str, policy: Policy, world: int, schedule: int) -> None:
    rules = Enforcement.under(policy)
    run = driven(machine_of(text, rules), world, schedule)
    run.run(INPUTS)
    whole, restored, full = machine_of(text, rules), machine_of(text, rules), machine_of(text, each(policy))
    for event in run.events:
        assert restored.feed(event) == whole.feed(event) == full.feed(event)
        assert told(restored) == told(whole)
        state, other = whole.state(), full.state()
        data = None if state is None else state_to_json(state)
        assert data == (None if other is None else state_to_json(other))
        if state is not None and data is not None:
            read = state_from_json(state.program, json.loads(json.dumps(data)), enforcement=rules)
            restored = Machine.at(read)
            assert restored.open_commands() == whole.open_commands()
