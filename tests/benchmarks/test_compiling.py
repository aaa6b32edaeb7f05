"""The scoring of compiled plans: which plans are equivalent, and which are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.compiling.__main__ import Row, read_rows, summary, table
from benchmarks.compiling.goals import Goal, Gold, further, goals, held_out, signatures_of, tools_of
from benchmarks.compiling.modes import MODES, Made
from benchmarks.compiling.scoring import Score, expected_of, score

from callsheet.frontends.ltp import parse
from callsheet.passes import check
from callsheet.ports.models.model import Syntax
from scripted_models import Scripted

ALL = {goal.id: goal for goal in goals()}
FURTHER = {goal.id: goal for goal in further()}
HELD_OUT = {goal.id: goal for goal in held_out()}
EVERY = ALL | FURTHER | HELD_OUT


def by_goal(beginning: str) -> Goal:
    """The only goal that begins with this text."""
    (goal,) = (goal for goal in goals() if goal.goal.startswith(beginning))
    return goal


def verdict(goal: Goal, *lines: str) -> Score:
    return score(goal, "\n".join(lines))


def test_sixty_goals_have_catalogues_of_five_to_sixty_tools() -> None:
    assert len(ALL) == 60
    sizes = {goal.catalogue: len(tools_of(goal.catalogue)) for goal in ALL.values()}
    assert sorted(sizes.values()) == [5, 10, 20, 40, 60]
    assert {"chain6", "condition", "foreach", "parallel", "on_fail"} <= {goal.kind for goal in ALL.values()}


def test_held_out_goals_share_no_tool_with_others() -> None:
    assert (len(FURTHER), len(HELD_OUT)) == (30, 20)
    of_goals, of_further, theirs = (
        {tool.name for goal in some.values() for tool in goal.tools} for some in (ALL, FURTHER, HELD_OUT)
    )
    assert not (of_goals | of_further) & theirs
    assert not of_goals & of_further
    assert {goal.kind for goal in HELD_OUT.values()} >= {"condition", "foreach", "parallel", "on_fail"}


@pytest.mark.parametrize("goal", EVERY.values(), ids=list(EVERY))
def test_gold_plans_are_adequate_clean_and_make_expected_calls(goal: Goal) -> None:
    assert expected_of(goal) == goal.expected
    for gold in goal.plans:
        plan = parse(gold.text).plan
        assert plan is not None
        assert check(plan, tools=signatures_of(goal.catalogue)) == ()
        assert score(goal, gold.text) == Score(True, True, True, True, True, True)


@pytest.mark.parametrize("goal", EVERY.values(), ids=list(EVERY))
def test_plans_of_other_goals_are_inadequate(goal: Goal) -> None:
    others = (other for other in EVERY.values() if other is not goal and other.catalogue == goal.catalogue)
    assert not any(score(goal, gold.text).adequate for other in others for gold in other.plans)


def test_names_ids_case_and_detours_are_ignored() -> None:
    goal = by_goal("Copy the text of config/base.yaml")
    assert verdict(
        goal,
        'S1: @read_file ("config/base.yaml") > $v1',
        'S2: @FORMAT ("$v1") > $v2',
        'S3: @write_file (content=$v2, path="config/backup.yaml") > $v3',
        'S4: @RESPOND ("Copied.", $v3)',
    ).adequate


def test_data_from_elsewhere_is_inadequate() -> None:
    goal = by_goal("Copy the text of config/base.yaml")
    for content in ('"the text"', "$other"):
        made = verdict(
            goal,
            'S1: @READ_FILE (path="config/base.yaml") > $text',
            'S2: @READ_FILE (path="config/base.yaml") > $other' if "$" in content else "",
            f'S3: @WRITE_FILE (path="config/backup.yaml", content={content})',
            'S4: @RESPOND ("done")',
        )
        assert made.valid
        assert not made.adequate
    assert made.in_order is False
    assert "calls read_file, read_file, write_file" in made.why


def test_different_literal_keeps_order_but_is_inadequate() -> None:
    goal = by_goal("Rename draft.txt")
    made = verdict(
        goal, 'S1: @MOVE_FILE (source="final.txt", destination="draft.txt")', 'S2: @RESPOND ("ok")'
    )
    assert (made.in_order, made.adequate, made.why) == (True, False, "@move_file: source is another")


def test_calls_are_reordered_only_where_goal_allows() -> None:
    goal = by_goal("Read a.txt and b.txt")
    lines = ['S1: @READ_FILE (path="b.txt") > $b', 'S2: @READ_FILE (path="a.txt") > $a']
    end = ['S3: @WRITE_FILE (path="both.txt", content="$a $b")', 'S4: @RESPOND ("done")']
    assert verdict(goal, *lines, *end).adequate
    fixed = by_goal('Write "closed until Monday"')
    turned = verdict(
        fixed,
        'S1: @MOVE_FILE (source="sign.txt", destination="public/sign.txt")',
        'S2: @WRITE_FILE (path="sign.txt", content="closed until Monday")',
        'S3: @RESPOND ("done")',
    )
    assert (turned.in_order, turned.why) == (False, "calls the tools in another order")


def test_condition_may_be_rephrased_but_not_dropped_or_negated() -> None:
    goal = by_goal("Get the invoice inv-7")
    first = 'S1: @GET_INVOICE (invoice_id="inv-7") > $i'
    post = '@POST_MESSAGE (channel="#finance", text="inv-7 is still open")'
    end = 'S9: @RESPOND ("done")'
    for condition in ("$i.is_paid == false", "NOT ($i.is_paid == true)", '$i.is_paid != "true"'):
        assert verdict(goal, first, f"S2: ?IF ({condition}) THEN {post}", end).adequate, condition
    early = 'S2: ?IF ($i.is_paid == true) THEN @RESPOND ("It is paid.")'
    assert verdict(goal, first, early, f"S3: {post}", end).adequate
    for step in (f"S2: {post}", f"S2: ?IF ($i.is_paid == true) THEN {post}"):
        made = verdict(goal, first, step, end)
        assert made.in_order
        assert made.why == "@post_message: the condition is another"


def test_loop_iterates_over_list_found() -> None:
    goal = by_goal("Search my mail for")
    first = 'S1: @SEARCH_MAIL (query="newsletter") > $mails'
    each = "?FOREACH ($x IN $mails) THEN"
    assert verdict(
        goal, first, f"S2: {each} @ARCHIVE_MAIL (message_id=$x.id)", 'S3: @RESPOND ("ok")'
    ).adequate
    once = verdict(goal, first, "S2: @ARCHIVE_MAIL (message_id=$mails.id)", 'S3: @RESPOND ("ok")')
    assert once.why == "@archive_mail: the loop is another"
    wrong = verdict(goal, first, f"S2: {each} @ARCHIVE_MAIL (message_id=$x.subject)", 'S3: @RESPOND ("ok")')
    assert wrong.why == "@archive_mail: message_id is another"


def test_concurrent_calls_are_in_one_group() -> None:
    goal = by_goal("Get the weather in Rome")
    one, two = 'S1: @GET_WEATHER (city="Rome") > $a', 'S2: @GET_WEATHER (city="Paris") > $b'
    assert verdict(goal, "@PARALLEL {", two, one, "}", "S3: @RESPOND ($a, $b)").adequate
    apart = verdict(goal, one, two, "S3: @RESPOND ($a, $b)")
    assert (apart.in_order, apart.why) == (True, "calls that belong side by side are not in one group")
    half = verdict(goal, "@PARALLEL {", one, two, "}", "S3: @RESPOND ($a)")
    assert half.why == "the answer is another"


def test_failure_handling_counts() -> None:
    goal = by_goal("Fetch https://rates.example")
    write = 'S2: @WRITE_FILE (path="rates.txt", content=$r)'
    fetch = 'S1: @FETCH_URL (url="https://rates.example/daily") > $r'
    ends = ['S3: @RESPOND ("ok")', 'S4: TERMINATE ("no rates")']
    assert verdict(goal, f"{fetch} ON_FAIL @RETRY(2) GOTO S4", write, *ends).adequate
    assert verdict(goal, f"{fetch} ON_FAIL @RETRY(1) GOTO S4", write, *ends).why.endswith(
        "retries is another"
    )
    assert verdict(goal, f"{fetch} ON_FAIL @RETRY(2)", write, *ends).why.endswith("failure is another")


def test_invalid_plans_and_unknown_tools_are_distinguished() -> None:
    goal = by_goal("How is the weather")
    assert verdict(goal, "I am sorry.") == Score(why=verdict(goal, "I am sorry.").why)
    stranger = verdict(goal, 'S1: @WEATHER_NOW (city="Oslo") > $w', "S2: @RESPOND ($w)")
    assert (stranger.parsed, stranger.known, stranger.valid, stranger.in_order) == (True, False, False, False)
    unset = verdict(goal, 'S1: @GET_WEATHER (city="Oslo") > $w', "S2: @RESPOND ($x)")
    assert (unset.known, unset.in_order, unset.adequate) == (False, True, False)


def test_goal_with_several_gold_plans_accepts_each() -> None:
    goal = Goal(
        "x",
        "chain1",
        "files-5",
        "Show a",
        ("read_file",),
        (
            Gold('S1: @READ_FILE (path="a") > $a\nS2: @RESPOND ($a)'),
            Gold('S1: @READ_FILE (path="b") > $a\nS2: @RESPOND ($a)'),
        ),
    )
    for path, fits in (("a", True), ("b", True), ("c", False)):
        assert verdict(goal, f'S1: @READ_FILE (path="{path}") > $v', "S2: @RESPOND ($v)").adequate is fits


def test_saved_answers_are_rescored_without_model(tmp_path: Path) -> None:
    goal = ALL["files-5/01"]
    said = {
        "goal": goal.id,
        "seconds": 2.0,
        **Made(goal.plans[0].text, 100, 40, 20)._asdict(),
    }
    file = tmp_path / "saved.jsonl"
    file.write_text(json.dumps(said) + "\n")
    rows = [*read_rows(file), Row(ALL["web-10/01"], Made("no plan", 50, 50, 10), 4.0)]
    told = summary(rows)
    assert (told["goals"], told["parsed"], told["in_order"], told["adequate"]) == (2, 1, 1, 1)
    assert (told["seconds"], told["input_tokens"], told["fresh_tokens"]) == (3.0, 75, 45)
    assert table(rows, "catalogue").splitlines()[2].startswith("| files-5 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |")


async def test_schema_mode_uses_flat_schema_only() -> None:
    moved = [{"name": "source", "value": "draft.txt"}, {"name": "destination", "value": "final.txt"}]
    steps = [
        {"each": "", "when": "", "tool": "move_file", "args": moved, "out": "v1"},
        {"each": "", "when": "", "tool": "respond", "args": [{"name": "text", "value": "Done."}], "out": ""},
    ]
    model = Scripted([json.dumps({"steps": steps})], [Syntax.LARK, Syntax.JSON_SCHEMA])
    goal = by_goal("Rename draft.txt")
    made = await MODES["compile-json"](model, goal)
    assert [c.syntax for c in model.constraints if c is not None] == [Syntax.JSON_SCHEMA]
    assert score(goal, made.text).adequate, made
