"""The jobs of the measurement of compiling: each can be done, and its states tell right from wrong."""

from __future__ import annotations

import json

import pytest
from benchmarks.compiling import clubs, desk, jobs, published, servers, toolsandbox, trades
from benchmarks.compiling.worlds import Task, World, execute

PUBLISHED = (*published.published_tasks(), *published.published_unseen_tasks())
CLUBS = (*clubs.club_tasks(), *clubs.club_unseen_tasks(), *desk.desk_tasks(), *desk.desk_unseen_tasks())
TASKS = {
    task.id: task
    for task in (*jobs.job_tasks(), *trades.trade_tasks(), *servers.server_tasks(), *PUBLISHED, *CLUBS)
}
ROWS = {
    row["id"]: row
    for goals in (jobs.GOALS, trades.GOALS, servers.GOALS, published.GOALS, clubs.GOALS, desk.GOALS)
    for row in map(json.loads, goals.read_text(encoding="utf-8").splitlines())
}


def asked(world: World, names: list[str]) -> None:
    """Note that these tools were called; what they answered does not matter here."""
    world.calls += [(name, "", "") for name in names]


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_expected_calls_are_right_in_each_state_and_those_of_another_are_not(task: Task) -> None:
    states = ROWS[task.id]["states"]
    for case, state in zip(task.cases, states, strict=True):
        for other in states:
            world = case.world()
            execute(other["calls"], world)
            asked(world, other.get("asks", []))
            assert case.is_right(world, " ".join(other.get("says", []))) == (other is state)


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_doing_nothing_or_answering_without_looking_is_not_right(task: Task) -> None:
    assert not all(case.is_right(case.world(), "I do not know.") for case in task.cases)


def test_contact_without_a_relationship_is_in_no_search_for_one() -> None:
    phone = toolsandbox.Phone({})
    phone.add_contact("Ann", "+1")
    assert [one["name"] for one in phone.search_contacts(relationship="boss")] == ["Homer S"]
