"""Finding stored plans by goal: exact matches, similar ones by score, never with different tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.frontends.ltp import parse
from callsheet.store.library import PlanLibrary, find_by_goal, read_params
from callsheet.store.library.goals import LEAST_SCORE, normalised, similarities
from callsheet.store.library.record import layed_out

TEXT = 'PLAN_START\nS1: @READ_FILE (path="$path") > $t\nS2: @SEND (to="ada", text=$t)\nPLAN_END\n'
PINS = {"READ_FILE": "sha256:1", "SEND": "sha256:2"}


@pytest.fixture
def library(tmp_path: Path) -> PlanLibrary:
    return PlanLibrary(tmp_path / "plans")


def keep(library: PlanLibrary, plan_id: str, goal: str, pins: dict[str, str | None] | None = None) -> None:
    params = read_params(["path"])
    tools = PINS if pins is None else pins
    library.save(parse(TEXT).require(), plan_id, goal=goal, params=params, tools=tools, replaces=True)


def test_asked_goal_is_found_in_any_spacing_and_punctuation(library):
    keep(library, "mail", "Send the notes to Ada")
    for goal in ("Send the notes to Ada", "  send the  notes\nto Ada. ", "Send the notes to Ada!"):
        found = find_by_goal(library, goal, PINS.get)
        assert found.exact is not None
        assert (found.exact.id, found.exact.version, found.exact.score) == ("mail", 1, 1.0)
        assert found.exact.is_usable
        assert found.near == ()
    assert library.load(found.exact.id).require().steps[0].id == "S1"


@pytest.mark.parametrize(
    ("saved", "asked"),
    [
        ("Read A.txt", "Read a.txt"),
        ("Add 3 + 4", "Add 3 - 4"),
        ("Send the notes to Ada", "Send the notes to Bo"),
        ("Delete it", "Do not delete it"),
        ("", ""),
    ],
)
def test_goal_with_possibly_other_meaning_is_different(library, saved, asked):
    keep(library, "p", saved or "x")
    assert find_by_goal(library, asked, PINS.get).exact is None


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"READ_FILE": "sha256:1"}, "@SEND is not reachable"),
        ({**PINS, "SEND": "sha256:9"}, "@SEND is declared differently now"),
        ({**PINS, "SEND": ""}, "@SEND is declared differently now"),
    ],
)
def test_same_goal_with_other_tools_is_no_match_and_reason_is_given(library, now, said):
    keep(library, "mail", "Send the notes to Ada")
    found = find_by_goal(library, "Send the notes to Ada", now.get)
    assert found.exact is None
    (near,) = found.near
    assert (near.id, near.score, near.is_exact, near.is_usable) == ("mail", 1.0, True, False)
    assert near.differences == (said,)
    assert said in str(near)


def test_plan_saved_without_tools_is_no_match(library):
    keep(library, "mail", "Send the notes to Ada", {"READ_FILE": "sha256:1", "SEND": None})
    found = find_by_goal(library, "Send the notes to Ada", PINS.get)
    assert found.exact is None
    assert found.near[0].differences == ("@SEND was not known when the plan was saved",)


def test_newest_usable_plan_for_goal_is_taken(tmp_path):
    now = iter(range(1, 100))
    library = PlanLibrary(tmp_path / "plans", clock=lambda: float(next(now)))
    for plan_id in ("b", "c", "a"):
        keep(library, plan_id, "Send the notes to Ada")
    keep(library, "d", "Send the notes to Ada", {**PINS, "SEND": "old"})
    found = find_by_goal(library, "Send the notes to Ada", PINS.get)
    assert found.exact is not None
    assert found.exact.id == "a"
    assert [match.id for match in found.near] == ["d", "c", "b"]
    assert len(find_by_goal(library, "Send the notes to Ada", PINS.get, most=1).near) == 1


def test_similar_goals_are_ordered_by_score_with_parameters(library):
    keep(library, "notes", "Send the notes of the meeting to Ada")
    keep(library, "bills", "Pay the bills of October")
    keep(library, "report", "Send the report of the meeting to the board")
    found = find_by_goal(library, "send the notes of a meeting to Bo", PINS.get)
    assert found.exact is None
    assert [match.id for match in found.near] == ["notes", "report"]
    scores = [match.score for match in found.near]
    assert 1 > scores[0] > scores[1] >= LEAST_SCORE
    assert "notes@1 (path): Send the notes" in str(found.near[0])


def test_newest_goal_counts_and_title_is_fallback(library):
    keep(library, "mail", "Send the notes to Ada")
    keep(library, "mail", "Send the bill to Ada")
    assert find_by_goal(library, "Send the notes to Ada", PINS.get).exact is None
    exact = find_by_goal(library, "Send the bill to Ada", PINS.get).exact
    assert exact is not None
    assert exact.version == 2
    (library.folder / "by-hand.ltp").write_text("# goal: Water the plants\n" + TEXT)
    found = find_by_goal(library, "Water the plants", PINS.get)
    assert found.exact is None  # nobody knows for which tools it was written
    assert found.near[0].id == "by-hand"


def test_manually_changed_plan_is_found_as_changed(library):
    keep(library, "mail", "Send the notes to Ada")
    (library.folder / "mail.ltp").write_text(TEXT.replace("ada", "bo"))
    exact = find_by_goal(library, "Send the notes to Ada", PINS.get).exact
    assert exact is not None
    assert (exact.version, exact.name) == (None, "mail")
    assert "bo" in library.load(exact.name).text
    (library.folder / "mail.ltp").write_text(TEXT.replace("@SEND", "@POST"))
    found = find_by_goal(library, "Send the notes to Ada", {**PINS, "POST": "sha256:3"}.get)
    assert found.exact is None
    assert found.near[0].differences == ("@POST was not known when the plan was saved",)


def test_invalid_plan_is_no_match_and_unreadable_one_is_skipped(library):
    keep(library, "mail", "Send the notes to Ada")
    keep(library, "other", "Send the notes to Ada")
    (library.folder / "other.ltp").write_text("S1: @@@\n")
    (library.folder / ".versions" / "broken").mkdir()
    (library.folder / ".versions" / "broken" / "1.json").write_text("{}")
    (library.folder / "broken.ltp").write_text(TEXT)
    found = find_by_goal(library, "Send the notes to Ada", PINS.get)
    assert found.exact is not None
    assert found.exact.id == "mail"
    assert [match.differences for match in found.near] == [("its text has errors",)]


def test_empty_library_has_no_matches(library):
    found = find_by_goal(library, "anything", PINS.get)
    assert (found.exact, found.near) == (None, ())


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=5))
def test_similarity_is_between_0_and_1_deterministic_and_1_with_itself(goal, others):
    scores = similarities(goal, [*others, goal])
    assert scores == similarities(goal, [*others, goal])
    assert all(0 <= score <= 1 for score in scores)
    assert scores[-1] == pytest.approx(1.0) or not any(c.isalnum() or c == "_" for c in goal.casefold())
    assert scores[-1] >= max(scores) - 1e-9
    assert normalised(normalised(goal)) == normalised(goal)


def test_plan_is_found_among_hundreds_of_similar_goals(library):
    keep(library, "p0", "Do the thing number 0 with care")
    (record,) = library.versions("p0")
    for number in range(1, 300):
        own = replace(record, id=f"p{number}", goal=f"Do the thing number {number} with care")
        (library.folder / f"p{number}.ltp").write_text(record.text)
        path = library.folder / ".versions" / f"p{number}" / "1.json"
        path.parent.mkdir()
        path.write_text(layed_out(own.to_json()))
    found = find_by_goal(library, "Do the thing number 77 with care", PINS.get)
    assert found.exact is not None
    assert found.exact.id == "p77"
