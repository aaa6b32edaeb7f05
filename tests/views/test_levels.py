"""Plans of dependencies as lines: level by level, for any order of the steps."""

from __future__ import annotations

from callsheet.frontends.dag import parse_dag
from callsheet.ir import Call, NotEmpty, OnFail, Order, Plan, Ref, Retry, Step
from callsheet.views.columns import width
from callsheet.views.mermaid import mermaid
from callsheet.views.terminal import terminal_graph


def step(index: str, title: str | None, tool: str, *waits: str, **more: object) -> Step:
    return Step(index, Call(tool), title=title, depends_on=waits, **more)  # type: ignore[arg-type]


def drawn(*steps: Step, **options: object) -> list[str]:
    return terminal_graph(Plan(steps, order=Order.DAG), **options).split("\n")  # type: ignore[arg-type]


def test_levels_are_separated_and_concurrent_steps_are_marked() -> None:
    assert drawn(
        step("4", "Run tests", "RUN_TESTS", "3"),
        step("3", "Write", "WRITE_FILE", "1", "2"),
        step("1", "Read auth", "READ_FILE"),
        step("2", "Find", "SEARCH"),
        status={"1": "done"},
    ) == [
        "● 1. Read auth  [read_file]   ∥",
        "○ 2. Find       [search]      ∥",
        "",
        "○ 3. Write      [write_file]     ← after: 1, 2",
        "",
        "○ 4. Run tests  [run_tests]      ← after: 3",
    ]


def test_wide_characters_take_two_columns_and_title_stays_on_line() -> None:
    lines = drawn(step("1", "日本\nx\x1b[1m", "A"), step("2", "b", "日本"))
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)
    assert width(lines[0][: lines[0].index("[a]")]) == width(lines[1][: lines[1].index("[日本]")])
    assert width(lines[0][: lines[0].index("∥")]) == width(lines[1][: lines[1].index("∥")])


def test_conditions_and_failures_are_shown() -> None:
    (line,) = drawn(step("1", "t", "A", condition=NotEmpty(Ref("x")), on_fail=OnFail(Retry(2))))
    assert line == "○ 1. t  [a]  ? NOT_EMPTY($x)  ! retry 2"


def test_cyclic_steps_are_at_end() -> None:
    lines = drawn(step("1", "a", "A", "2"), step("2", "b", "B", "1"), step("3", "c", "C"))
    assert [line[2:4] for line in lines] == ["3.", "", "1.", "2."]


def test_step_without_title_shows_call() -> None:
    text = '{"steps": [{"index": "1", "title": "", "tool": "t", "args": {"x": 1}, "depends_on": []}]}'
    assert terminal_graph(parse_dag(text).require()) == "○ 1. @T (x=1)  [t]"


def test_flowchart_nodes_are_by_level() -> None:
    plan = Plan((step("b", "B", "B", "a"), step("a", "A", "A")), order=Order.DAG)
    assert [line.strip()[:10] for line in mermaid(plan).splitlines()] == [
        "graph TD",
        'step_1["a:',
        'step_2["b:',
        "step_1 -->",
    ]
