"""Doubts about a valid plan, and the one further model request that they cause."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.compiling.goals import goals, signatures_of
from benchmarks.grammars.matching import Matcher
from tests.growth import seconds

from callsheet.authoring.compiler.catalogue import Catalogue, catalogue_for
from callsheet.authoring.compiler.compile import MAX_GOAL, compile_goal
from callsheet.authoring.compiler.course import course_of
from callsheet.authoring.compiler.omissions import doubts_of
from callsheet.authoring.compiler.request import Draft, Options, PlanForm, Request
from callsheet.authoring.compiler.spelling import as_spelled
from callsheet.diagnostics import Diagnostic
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan, canonical_tool_name
from callsheet.machine import Fact
from callsheet.passes import check
from callsheet.ports.models.model import Strength, Syntax
from callsheet.ports.tools import ToolSpec
from scripted_models import Scripted

ALL = {goal.id: goal for goal in goals()}
SPECS = tuple(
    ToolSpec(canonical_tool_name(tool.name), tool.name, tool.description, tool.parameters)
    for tool in ALL["all-60/01"].tools
)


def _named(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def told(goal: str) -> Catalogue:
    return catalogue_for(goal, SPECS)


def doubts(goal: str, *lines: str) -> tuple[str, ...]:
    catalogue = told(goal)
    about = {offer.name: offer.line for offer in catalogue.offers if offer.parameters is not None}
    return doubts_of(parse("\n".join(lines)).require(), goal, catalogue.parts, about)


@pytest.mark.parametrize("goal", ALL.values(), ids=list(ALL))
def test_correct_plans_raise_no_doubts(goal) -> None:
    specs = (ToolSpec(canonical_tool_name(t.name), t.name, t.description, t.parameters) for t in goal.tools)
    catalogue = catalogue_for(goal.goal, specs)
    about = {offer.name: offer.line for offer in catalogue.offers if offer.parameters is not None}
    plans = [parse(gold.text).require() for gold in goal.plans]
    assert () in [doubts_of(plan, goal.goal, catalogue.parts, about) for plan in plans]


@pytest.mark.parametrize(
    ("goal", "lines", "doubt"),
    [
        (
            "Read the mail m17 and post it to #team",
            ['S1: @READ_MAIL (message_id="m17") > $m', 'S2: @POST_MESSAGE (channel="team", text=$m)'],
            'the goal says "#team": write that',
        ),
        (
            "Deploy the service shop in version 2.1.0",
            ['S1: @DEPLOY_SERVICE (service="shop", version=">=2.1.0")'],
            'the goal says "2.1.0": write that',
        ),
        (
            'Search the web for "tax" and make a note "Tax" with the results',
            ['S1: @SEARCH_NOTES (query="tax") > $r', 'S2: @CREATE_NOTE (title="Tax", content=$r)'],
            'for "Search the web for "tax"" call @web_search',
        ),
        (
            'List the events of 2026-09-01 and search the notes for "budget"',
            [
                'S1: @LIST_EVENTS (date="2026-09-01") > $a',
                'S2: @SEARCH_NOTES (query="budget") > $b',
                'S3: @LIST_EVENTS (date="2026-09-01") > $c',
            ],
            "call @list_events once",
        ),
        (
            "Read a.txt and b.txt, and write both texts into both.txt",
            [
                'S1: @READ_FILE (path="a.txt") > $a',
                'S2: @READ_FILE (path="b.txt") > $b',
                'S3: @WRITE_FILE (path="both.txt", content=$a)',
            ],
            'use all results of @read_file, as in "$v1 $v2"',
        ),
        (
            "List the issues of acme/web and close each",
            [
                'S1: @LIST_ISSUES (repo="acme/web") > $i',
                "S2: ?FOREACH ($x IN $i) THEN @CLOSE_ISSUE (repo=$x.repo, number=$x.number)",
            ],
            "@list_issues gives no repo",
        ),
        (
            "Move every file in downloads that matches *.pdf into papers",
            [
                'S1: @MOVE_FILE (source="*.pdf", destination="papers") > $m',
                'S2: ?FOREACH ($x IN $m) THEN @MOVE_FILE (source=$x, destination="papers")',
            ],
            "@move_file gives no list: call @search_files first",
        ),
        (
            "Delete all events on 2026-08-08",
            ['S1: @LIST_EVENTS (date="2026-08-08") > $e', "S2: @DELETE_EVENT (event_id=$e.id)"],
            'for "Delete all events on 2026" list them first, then ?FOREACH ($x IN $v1) THEN',
        ),
        (
            "Describe the table customers and tell me its columns",
            ['S1: @DESCRIBE_TABLE (table="context") > $c'],
            'the goal does not say "context": give @describe_table its words',
        ),
        (
            "Read a.txt and write its text into b.txt",
            [
                'S1: @READ_FILE (path="a.txt") > $a',
                'S2: @WRITE_FILE (path="a.txt", content=$a) > $b',
                'S3: @RESPOND ("Wrote b.txt")',
            ],
            'the goal says "b.txt": write that',
        ),
        (
            "Read the mail m17 and post it to #team",
            ['S1: @READ_MAIL (message_id="m17") > $m', 'S2: @POST_MESSAGE (channel="#team", text="a mail")'],
            'for "post it to #team" give @post_message what a step before gave, as $v1',
        ),
    ],
)
def test_parts_of_goal_missing_in_plan_are_doubts(goal: str, lines: list[str], doubt: str) -> None:
    assert doubt in doubts(goal, *lines)


GOAL = 'Read the mail m17 and post "is read" to #team'
DOUBTFUL = (
    'S1: @read_mail (message_id="m17") > $v1\n'
    'S2: @post_message (channel="#team", text="it was") > $v2\n'
    'S3: @respond ("Posted:", $v1)'
)
GOOD = DOUBTFUL.replace('"it was"', '"is read"')
WORSE = DOUBTFUL.replace('"m17"', '"m1"')


def drafted(model: Scripted, options: Options | None = None) -> Draft:
    def checked(plan: Plan) -> tuple[Diagnostic, ...]:
        return tuple(check(plan, tools=signatures_of("all-60")))

    return asyncio.run(
        compile_goal(Request(GOAL, SPECS), model, checked, options or Options(form=PlanForm.LTP))
    )


def test_small_model_is_asked_again_with_missing_parts() -> None:
    model = Scripted([DOUBTFUL, GOOD], accepts=[Syntax.LARK], strength=Strength.SMALL)
    draft = drafted(model)
    assert draft.plan is not None
    assert 'text="is read"' in draft.source.text
    assert (draft.accounting.calls, draft.accounting.repaired) == (2, False)
    assert "the second plan is used" in str(draft.accounting.remarks)
    assert model.asked[1][-1]["content"].startswith('Mind:\n- the goal says "is read": write that\n')
    assert [message["role"] for message in model.asked[1]] == [m["role"] for m in model.asked[0]]


@pytest.mark.parametrize("second", [DOUBTFUL, WORSE, "S1: @nothing", ""])
def test_first_plan_is_kept_unless_second_is_better(second: str) -> None:
    draft = drafted(Scripted([DOUBTFUL, second], accepts=[Syntax.LARK], strength=Strength.SMALL))
    assert draft.plan is not None
    assert 'message_id="m17"' in draft.source.text
    assert (draft.accounting.calls, draft.errors) == (2, ())


EVERY = "Assign every open issue of acme/api to lena."
OFF = 'S1: @assign_issue (repo="acme/api", number=1, assignee="lena") > $v1\nS2: @respond ("Done:", $v1)'
ON = (
    'S1: @list_issues (repo="acme/api", state="open") > $v1\n'
    'S2: ?FOREACH ($x IN $v1) THEN @assign_issue (repo="acme/api", number=$x.number, assignee="lena") > $v2\n'
    'S3: @respond ("Done:", $v1)'
)


def test_second_answer_is_constrained_to_course() -> None:
    model = Scripted([OFF, ON], accepts=[Syntax.LARK], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(Request(EVERY, SPECS), model, lambda _: (), Options(form=PlanForm.LTP)))
    assert "the second plan is used" in str(draft.accounting.remarks)
    assert [getattr(r, "name", "") for r in draft.accounting.remarks].count("constraint") == 1
    said = model.asked[1][-1]["content"]
    assert said.startswith("Mind:\n- the steps are @list_issues, then @assign_issue")
    first, second = (Matcher(held.text) for held in model.constraints if held is not None)
    assert (first.takes(OFF), first.takes(ON)) == (True, True)
    assert (second.takes(OFF), second.takes(ON)) == (False, True)


def test_plan_with_doubts_is_returned_with_them() -> None:
    model = Scripted([OFF, OFF], accepts=[Syntax.LARK], strength=Strength.SMALL)
    draft = asyncio.run(compile_goal(Request(EVERY, SPECS), model, lambda _: (), Options(form=PlanForm.LTP)))
    (told_of,) = [
        r.text for r in draft.accounting.remarks if isinstance(r, Fact) and "plan is used" in r.text
    ]
    assert told_of.startswith("the steps are @list_issues, then @assign_issue")
    assert told_of.endswith("so the first plan is used: check whether it leaves that out")


@pytest.mark.parametrize(
    ("goal", "legs"),
    [
        ("Assign every open issue of acme/api to lena.", "each"),
        ("Read the mail m17 and post it to #team", "plain"),
        ("Read the mail m17", None),
        ("What is in the mail m17 and who sent it?", None),
        ("Read the mail m17 and frobnicate the quux", None),
    ],
)
def test_course_is_known_where_each_part_of_goal_has_tools(goal: str, legs: str | None) -> None:
    catalogue = told(goal)
    course = course_of(catalogue.parts, {offer.name: offer.line for offer in catalogue.offers})
    assert (legs is not None) == bool(course)
    assert [leg.is_each for leg in course] == {"each": [False, True], "plain": [False, False]}.get(
        legs or "", []
    )


def test_data_in_goal_leaves_course_open() -> None:
    model = Scripted([OFF], accepts=[Syntax.LARK], strength=Strength.SMALL)
    asyncio.run(
        compile_goal(
            Request(EVERY, SPECS, "They are the issues 3 and 4."),
            model,
            lambda _: (),
            Options(form=PlanForm.LTP),
        )
    )
    assert not any("the steps are" in message["content"] for asked in model.asked for message in asked)


READERS = (
    ToolSpec(
        "FIND_READER", "find_reader", "Find a reader by name. Gives reader_id and email.", _named("name")
    ),
    ToolSpec("LIST_LOANS", "list_loans", "List the loans of a reader. Gives a list.", _named("reader_id")),
)


@pytest.mark.parametrize(
    ("goal", "has_giver"),
    [
        ("Which loans has the reader Tomas Vrba?", True),
        ("List the loans of reader r-7", False),
        ("Find the reader Tomas Vrba and list his loans", False),
    ],
)
def test_tool_returning_id_precedes_tool_that_needs_it(goal: str, *, has_giver: bool) -> None:
    parts = catalogue_for(goal, READERS).parts
    assert (("reader_id", ("FIND_READER",)) in parts) == has_giver


def test_no_second_request_without_grammar_or_repairs() -> None:
    assert drafted(Scripted([DOUBTFUL, GOOD])).accounting.calls == 1
    once = Scripted([DOUBTFUL, GOOD], accepts=[Syntax.LARK], strength=Strength.SMALL)
    assert drafted(once, Options(form=PlanForm.LTP, repairs=False)).accounting.calls == 1
    assert drafted(once, Options(form=PlanForm.LTP, second_look=False)).accounting.calls == 1


def test_names_from_context_raise_no_doubt() -> None:
    goal, line = "Describe the table", 'S1: @DESCRIBE_TABLE (table="tickets") > $c'
    about = {offer.name: offer.line for offer in told(goal).offers}
    plan, parts = parse(line).require(), told(goal).parts
    assert doubts_of(plan, goal, parts, about) != ()
    assert doubts_of(plan, goal, parts, about, "The tables are tickets and decisions.") == ()


@pytest.mark.parametrize("repeated", ["a", "-", "*", "a.", "a/", "#a ", '"a" ', "12 ", "a@", "if a "])
def test_doubts_about_long_goals_take_bounded_time(repeated: str) -> None:
    goal = (repeated * MAX_GOAL)[:MAX_GOAL]
    plan = parse('S1: @READ_FILE (path="a") > $v1').require()

    def look() -> None:
        catalogue = catalogue_for(goal, SPECS[:5])
        doubts_of(as_spelled(plan, goal), goal, catalogue.parts, {})

    assert seconds(look) < 2
