"""Differences of two plans: each kind of difference, and nothing else."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.ir import Call, Literal, Order, Plan, Step
from callsheet.ir.diff import Change, Part, PlanDiff, diff_plans
from callsheet.ir.diff.matching import staying

BASE = """\
S1: @FETCH_PAGE (url="https://a", timeout=5) > $page:json ON_FAIL @RETRY(2) GOTO LAST
S2: ?FOREACH ($t IN $page.items) THEN @LLM_CLASSIFY ($t, categories=["a", "b"]) > $kinds
S3: ?IF ($kinds contains "a") THEN @NOTIFY ("#eng", text="There is one.")
LAST: @RESPOND ("Done.", $kinds)
"""


def plan(text: str) -> Plan:
    return parse(text).require()


def differ(old: str, new: str) -> PlanDiff:
    made = diff_plans(plan(old), plan(new))
    assert isinstance(made, PlanDiff)
    return made


def said(diff: PlanDiff) -> list[tuple[str, ...]]:
    """The difference in a few words, one row for each step."""
    rows: list[tuple[str, ...]] = []
    for step in diff.different():
        name = f"{step.old.id if step.old else ''}>{step.new.id if step.new else ''}"
        parts = [str(c.part) if c.name is None else f"{c.part} {c.name}" for c in step.changes]
        rows.append((name, *parts, *(["moved"] if step.moved else [])))
    return rows


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("@FETCH_PAGE", "@READ_PAGE", ("S1>S1", "tool")),
        ('"https://a"', '"https://b"', ("S1>S1", "argument url")),
        ("timeout=5", "timeout=5.0", ("S1>S1", "argument timeout")),
        (", timeout=5", "", ("S1>S1", "argument timeout")),
        ('url="https://a", timeout=5', 'timeout=5, url="https://a"', ("S1>S1", "argument order")),
        ("$page:json", "$page:list", ("S1>S1", "cast")),
        ("> $page:json", "> $other:json", ("S1>S1", "output")),
        ("> $page:json", "", ("S1>S1", "output", "cast")),
        ("@RETRY(2)", "@RETRY(3)", ("S1>S1", "retry")),
        ("@RETRY(2)", "@RETRY(2, delay=1.5)", ("S1>S1", "retry")),
        (" GOTO LAST", "", ("S1>S1", "on_fail")),
        (" GOTO LAST", ' TERMINATE ("no")', ("S1>S1", "on_fail")),
        ("$t IN $page.items", "$t IN $page.rows", ("S2>S2", "loop source")),
        ("?FOREACH ($t IN $page.items) THEN ", "", ("S2>S2", "foreach")),
        ("?FOREACH ($t IN", "?FOREACH ($u IN", ("S2>S2", "loop variable")),
        ('["a", "b"]', '["a"]', ("S2>S2", "argument categories")),
        ("($t, ", "($t, $page, ", ("S2>S2", "argument 2")),
        ('contains "a"', 'contains "b"', ("S3>S3", "condition")),
        ('?IF ($kinds contains "a") THEN ', "", ("S3>S3", "condition")),
        ('"#eng"', '"#ops"', ("S3>S3", "argument 1")),
        ('@NOTIFY ("#eng", text="There is one.")', 'TERMINATE ("one")', ("S3>S3", "action")),
        ("@RESPOND", "TERMINATE", ("LAST>LAST", "action")),
        ('"Done.", $kinds', "$kinds", ("LAST>LAST", "argument 1")),
    ],
)
def test_changed_step_names_part(old: str, new: str, changed: tuple[str, ...]) -> None:
    assert old in BASE
    assert said(differ(BASE, BASE.replace(old, new, 1))) == [changed]


@pytest.mark.parametrize(("old", "new"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "null")])
def test_values_equal_in_python_are_distinguished(old: object, new: object) -> None:
    plans = [Plan((Step("S1", Call("X", (Literal(v),))),)) for v in (old, new)]  # type: ignore[arg-type]
    (step,) = diff_plans(*plans).steps
    assert step.changes == (Change(Part.ARGUMENT, Literal(old), Literal(new), 1),)  # type: ignore[arg-type]


def test_comments_and_spelling_are_ignored() -> None:
    loose = BASE.replace("@FETCH_PAGE", "@fetch_page").replace('"#eng"', "'#eng'")
    assert differ(BASE, f"# a comment\n{loose}").is_same


def test_plan_head_is_compared() -> None:
    diff = differ(f"# id: a\n# goal: one\n{BASE}", f"# title: T\n# goal: two\n{BASE}")
    assert [(c.part, c.old, c.new) for c in diff.head] == [
        (Part.ID, "a", None),
        (Part.TITLE, None, "T"),
        (Part.GOAL, "one", "two"),
    ]


def test_order_and_inputs_belong_to_head() -> None:
    steps = plan(BASE).steps
    old = Plan(steps, variables=(("a", Literal(1)), ("b", Literal(2))))
    new = Plan(steps, Order.DAG, variables=(("c", Literal(3)), ("a", Literal(2))))
    assert [(c.part, c.name) for c in diff_plans(old, new).head] == [
        (Part.ORDER, None),
        (Part.VARIABLE, "a"),
        (Part.VARIABLE, "b"),
        (Part.VARIABLE, "c"),
        (Part.VARIABLE_ORDER, None),
    ]


# ---------------------------------------------------------------- steps that come, go and move


def test_added_or_removed_step_changes_no_other() -> None:
    more = BASE.replace("LAST:", 'CHECK: @LOG ("x")\nLAST:')
    assert said(differ(BASE, more)) == [(">CHECK",)]
    assert said(differ(more, BASE)) == [("CHECK>",)]


def test_moved_step_is_only_move() -> None:
    lines = [f"T{n}: @X ({n})" for n in range(6)]
    moved = [*lines[:1], *lines[2:5], lines[1], lines[5]]
    assert said(differ("\n".join(lines), "\n".join(moved))) == [("T1>T1", "moved")]


@pytest.mark.parametrize("places", [[], [0], [1, 0], [3, 1, 2, 0], [4, 0, 1, 2, 3], [2, 3, 0, 1]])
def test_maximum_number_of_steps_stays(places: list[int]) -> None:
    kept = [places[i] for i in sorted(staying(places))]
    assert kept == sorted(kept)
    best = [1] * len(places)
    for i, place in enumerate(places):
        best[i] += max((best[j] for j in range(i) if places[j] < place), default=0)
    assert len(kept) == max(best, default=0)


# ---------------------------------------------------------------- renaming


def test_renamed_id_with_references_is_one_rename() -> None:
    diff = differ(BASE, BASE.replace("LAST", "END"))
    assert said(diff) == [("LAST>END",)]


def test_unrenamed_reference_is_change() -> None:
    diff = differ(BASE, BASE.replace("LAST:", "END:").replace("GOTO LAST", "GOTO S3"))
    assert said(diff) == [("S1>S1", "on_fail"), ("LAST>END",)]


def test_reference_that_means_another_step_is_change() -> None:
    old = "S1: GOTO S2\nS2: @X (1)\nS3: @Y (2)\nS4: @Z ()"
    new = "S1: GOTO S2\nS2: @N (7)\nS3: @X (1)\nS4: @Y (2)\nS5: @Z ()"
    diff = differ(old, new)
    assert ("S1>S1", "goto") in said(diff)
    assert ("S1>S1", "goto") not in said(differ(old, new.replace("GOTO S2", "GOTO S3")))


def test_swapped_ids_identify_steps() -> None:
    diff = differ("A: @X (1) > $a\nB: @Y (2) > $b\n", "B: @X (1) > $a\nA: @Y (2) > $b\n")
    assert said(diff) == [
        ("B>B", "tool", "argument 1", "output"),
        ("A>A", "tool", "argument 1", "output", "moved"),
    ]


def test_renamed_and_changed_step_is_matched_by_similarity() -> None:
    new = BASE.replace("S2:", "KINDS:").replace('["a", "b"]', '["a"]')
    assert said(differ(BASE, new)) == [("S2>KINDS", "argument categories")]


def test_different_step_under_new_id_is_addition() -> None:
    new = BASE.replace(
        'S3: ?IF ($kinds contains "a") THEN @NOTIFY ("#eng", text="There is one.")', "N: @LOG (1)"
    )
    assert sorted(said(differ(BASE, new))) == [(">N",), ("S3>",)]


def numbered(*lines: str) -> str:
    return "".join(f"S{n}: {line}\n" for n, line in enumerate(lines, 1))


LINES = ("@A (1) > $a", "@B ($a) > $b", "?IF ($b == 1) THEN GOTO S5", "@C ($b)", "@RESPOND ($b)")


def test_inserted_line_among_numbered_steps_is_one_addition() -> None:
    more = [*LINES[:1], "@NEW ()", *LINES[1:]]
    more[3] = more[3].replace("S5", "S6")
    diff = differ(numbered(*LINES), numbered(*more))
    assert [row for row in said(diff) if row[0] == ">S2"] == [(">S2",)]
    assert [row for row in said(diff) if len(row) > 1] == []
    assert sum(step.is_renamed for step in diff.steps) == 4


def test_removed_line_among_numbered_steps_is_one_removal() -> None:
    less = [*LINES[:1], *LINES[2:]]
    less[1] = less[1].replace("S5", "S4")
    diff = differ(numbered(*LINES), numbered(*less))
    assert [row for row in said(diff) if row[0] == "S2>"] == [("S2>",)]
    assert [row for row in said(diff) if len(row) > 1] == []


def test_numbered_steps_edited_in_place_keep_ids() -> None:
    edited = [line.replace("@B ($a)", "@B ($a, 2)").replace("@C", "@D") for line in LINES]
    assert said(differ(numbered(*LINES), numbered(*edited))) == [("S2>S2", "argument 2"), ("S4>S4", "tool")]


def test_duplicate_ids_are_matched_in_order() -> None:
    old = "A: @X (1)\nA: @Y (2)\n"
    assert said(differ(old, old.replace("(2)", "(3)"))) == [("A>A", "argument 1")]


# ---------------------------------------------------------------- groups


GROUPED = "@PARALLEL {\nS1: @A ()\nS2: @B ()\n}\n@PARALLEL {\nS3: @C ()\nS4: @D ()\n}\nS5: @E ()\n"


def test_step_leaves_or_joins_group() -> None:
    out = GROUPED.replace("S4: @D ()\n}\n", "}\nS4: @D ()\n")
    assert said(differ(GROUPED, out)) == [("S4>S4", "group")]
    assert said(differ(out, GROUPED)) == [("S4>S4", "group")]


def test_inserted_group_changes_no_member_of_others() -> None:
    alone = GROUPED.replace("@PARALLEL {\nS1: @A ()\nS2: @B ()\n}\n", "S1: @A ()\nS2: @B ()\n")
    assert said(differ(GROUPED, alone)) == [("S1>S1", "group"), ("S2>S2", "group")]


def test_two_groups_are_merged() -> None:
    one = GROUPED.replace("}\n@PARALLEL {\n", "")
    assert said(differ(GROUPED, one)) == [("S3>S3", "group"), ("S4>S4", "group")]
