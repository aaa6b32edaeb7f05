"""Plans as Mermaid flowcharts: what is drawn, and that labels cannot be escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.strategies import plans

from callsheet.compat.static import mermaid_block
from callsheet.frontends.ltp import parse
from callsheet.ir import Call, IsEmpty, Literal, Order, Plan, Ref, Respond, Step
from callsheet.views.columns import escape_label
from callsheet.views.mermaid import mermaid

LINE = re.compile(
    r"graph TD|    end|    start\(\(\"start\"\)\)"
    r"|    subgraph parallel_\d+\[\"parallel\"\]"
    r"|\s+\w+(\(\[\"[^\"\n]*\"\]\)|\[\"[^\"\n]*\"\]|\(\(\" \"\)\))"
    r"|    \w+ (-->|-\.->)(\|\"[^\"\n]*\"\|)? \w+"
)


def drawn(text: str) -> list[str]:
    plan = parse(text).plan
    assert plan is not None
    return [line.strip() for line in mermaid(plan).splitlines()]


def test_steps_are_nodes_connected_in_sequence() -> None:
    assert drawn('S1: @READ_FILE (path="a") > $a\nS2: @RESPOND ($a)') == [
        "graph TD",
        "S1[\"S1: @READ_FILE (path='a') > $a\"]",
        'S2(["S2: @RESPOND ($a)"])',
        "S1 --> S2",
    ]


def test_condition_is_on_arrow_into_step() -> None:
    lines = drawn('S1: @A () > $a\nS2: ?IF ($a > 5) THEN @RESPOND ("y")\nS3: @RESPOND ("z")')
    assert lines[-2:] == ['S1 -->|"IF $a > 5"| S2', 'S2 -->|"else"| S3']


def test_condition_of_first_step_has_start_node() -> None:
    lines = drawn('S1: ?IF (IS_EMPTY($a)) THEN TERMINATE ("x")\nS2: @RESPOND ("z")')
    assert 'start -->|"IF IS_EMPTY($a)"| S1' in lines


@pytest.mark.parametrize("end", ['@RESPOND ("x")', 'TERMINATE ("x")', "GOTO S3"])
def test_unconditional_end_has_no_outgoing_arrow(end: str) -> None:
    lines = drawn(f"S1: {end}\nS2: @A ()\nS3: @RESPOND (1)")
    assert not [line for line in lines if line.startswith("S1 ") and line.endswith(" S2")]


def test_jumps_failures_and_replans_are_arrows() -> None:
    lines = drawn(
        'S1: @A () > $a ON_FAIL @RETRY(3) GOTO S4\nS2: @B () ON_FAIL TERMINATE ("off")\n'
        'S3: ?IF ($a == 1) THEN RE-PLAN ("why")\nS4: ?IF ($a == 2) THEN GOTO S1\nS5: @RESPOND ($a)'
    )
    assert 'S1["S1: @A > $a ↻ 3"]' in lines
    assert 'S1 -.->|"ON_FAIL GOTO"| S4' in lines
    assert "S2_fail([\"TERMINATE ('off')\"])" in lines
    assert 'S2 -.->|"ON_FAIL"| S2_fail' in lines
    assert 'S3 -.->|"RE-PLAN"| S3_replan' in lines
    assert 'S4 -->|"GOTO"| S1' in lines


def test_missing_target_is_drawn_as_missing() -> None:
    lines = drawn("S1: GOTO S9")
    assert lines[-2:] == ['S1 -->|"GOTO"| missing_1', 'missing_1["S9 does not exist"]']


def test_groups_are_subgraphs_with_few_arrows() -> None:
    members = "\n".join(f"S{i}: @A ()" for i in range(1, 41))
    others = "\n".join(f"S{i}: @A ()" for i in range(41, 81))
    lines = drawn(f"@PARALLEL {{\n{members}\n}}\n@PARALLEL {{\n{others}\n}}")

    assert [line for line in lines if line.startswith("subgraph")] == [
        'subgraph parallel_0["parallel"]',
        'subgraph parallel_1["parallel"]',
    ]
    assert len([line for line in lines if "-->" in line]) == 80


def test_group_members_are_connected_to_neighbouring_steps() -> None:
    lines = drawn("S1: @A ()\n@PARALLEL {\nS2: @A ()\nS3: @A ()\nS4: @A ()\n}\nS5: @A ()\nS6: @A ()")
    assert [line for line in lines if "-->" in line] == [
        "S1 --> S2",
        "S1 --> S3",
        "S1 --> S4",
        "S2 --> S5",
        "S3 --> S5",
        "S4 --> S5",
        "S5 --> S6",
    ]


def test_many_steps_are_drawn_like_few() -> None:
    texts = [f"@PARALLEL {{\nS{i}: @A ()\nS{i + 1}: @B () ON_FAIL @RETRY(2)\n}}" for i in range(1, 300, 2)]
    lines = drawn("\n".join(texts))

    nodes = [line for line in lines if line.startswith("S") and "[" in line]
    assert nodes[126:130] == [
        'S127["S127: @A"]',
        'S128["S128: @B ↻ 2"]',
        'S129["S129: @A"]',
        'S130["S130: @B ↻ 2"]',
    ]
    assert lines.count("end") == len(texts)


def test_loop_is_shown_in_node() -> None:
    lines = drawn("S1: ?FOREACH ($t IN $page.data) THEN @A ($t) > $k")
    assert lines[1] == 'S1["S1: FOREACH $t IN $page.data THEN @A ($t) > $k"]'


def test_graph_has_dependency_arrows() -> None:
    steps = (
        Step("1", Call("A"), depends_on=()),
        Step("2", Call("B"), depends_on=("1", "9"), condition=IsEmpty(Ref("a"))),
    )
    assert mermaid(Plan(steps, order=Order.DAG)).splitlines()[-1].strip() == (
        'step_1 -->|"IF IS_EMPTY($a)"| step_2'
    )


def test_empty_plan_is_labelled() -> None:
    assert mermaid_block(Plan(())) == '```mermaid\ngraph TD\n    empty["Empty plan"]\n```'


@pytest.mark.parametrize(
    "step_id", ["end", "subgraph", "S1]", "a b", "TD", "o1", "x-1", "", "S1\nS2", "日本"]
)
def test_mermaid_keyword_is_not_used_as_id(step_id: str) -> None:
    text = mermaid(Plan((Step(step_id, Respond((Literal("x"),))),)))
    assert text.splitlines()[1].startswith('    step_1(["')
    assert len(text.splitlines()) == 2


def test_duplicate_ids_are_separate_nodes() -> None:
    lines = mermaid(Plan((Step("S1", Call("A")), Step("S1", Call("B"))))).splitlines()
    assert [line.strip()[:6] for line in lines[1:3]] == ['S1["S1', "step_2"]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('say "hi"', "say 'hi'"),
        ("[me] {now} (x) | ]", "[me] {now} (x) | ]"),
        ("<script>alert(1)</script>", "#lt;script>alert(1)#lt;/script>"),
        ("$a < 5 <= 6", "$a < 5 <= 6"),
        ("#quot; &quot;", "#35;quot; #amp;quot;"),
        ("%%{init: {}}%%", "#37;%{init: {}}#37;%"),
        ("`code`", "#96;code#96;"),
        ("two\nlines\t\x1b[1m", "two lines \ufffd[1m"),
        ("日本 é 😀", "日本 é 😀"),
    ],
)
def test_labels_are_escaped(text: str, label: str) -> None:
    assert escape_label(text) == label


def test_long_text_is_truncated() -> None:
    line = mermaid(Plan((Step("S1", Respond((Literal("x" * 10_000),))),))).splitlines()[1]
    assert "…" in line
    assert len(line) < 200


@given(plans(), st.lists(st.text(max_size=12) | st.just("S1"), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_diagram_line_has_known_form(plan: Plan, ids: list[str]) -> None:
    """No text of a plan, including ids, can close a label, open a line or name a node."""
    odd = Plan(tuple(replace(step, id=id_) for step, id_ in zip(plan.steps, ids, strict=False)))
    for each in (plan, odd, replace(odd, order=Order.DAG)):
        for line in mermaid(each).split("\n"):
            assert LINE.fullmatch(line), line
