"""How much of a run goes into a client's context: the answer, and the variables that it asks for."""

from __future__ import annotations

import json

import pytest
from tests.mcp_room import Room

from callsheet.apps.table.extent import MOST_OF_A_VALUE, MOST_OF_ALL, MOST_OF_AN_ARGUMENT

PLAN = 'S1: @FORMAT ("$page") > $copy\nS2: @RESPOND ("short")'
MODE = "2026-07-28"
PAGE = "x" * 100_000


async def _run(client, text=PLAN, page=PAGE, **more):
    given = {"ltp_text": text, "variables": {"page": page, "n": 7}, **more}
    return await client.call_tool("plan_execute", given)


async def _explain(client, run_id, **more):
    return await client.call_tool("explain_run", {"run_id": run_id, **more})


async def test_result_has_answer_and_names_variables(room: Room) -> None:
    async with room.client(MODE) as client:
        answer = await _run(client)
        shown = await _explain(client, answer.structured_content["run_id"])
    for each in (answer, shown):
        assert len(json.dumps(each.structured_content)) < 6_000
        assert each.structured_content["variables"] == {}
        assert each.structured_content["response"] == "short"
        left_out = {row["name"]: row["of"] for row in each.structured_content["left_out"]}
        assert left_out == {"$page": len(PAGE), "$n": 1, "$copy": len(PAGE)}
        text = each.content[0].text
        assert "$page (100,000 characters)" in text
        assert 'show_variables ["n"] or ["all"] returns them' in text
    assert len(answer.content[0].text) < 1_000


async def test_wanted_variables_are_returned_and_unknown_ones_named(room: Room) -> None:
    async with room.client(MODE) as client:
        answer = await _run(client, page="small", show_variables=["$n", "nothing"])
        everything = await _run(client, page="small", show_variables=["all"])
    assert answer.structured_content["variables"] == {"n": 7}
    assert "$n = 7" in answer.content[0].text
    assert "the run has no variable $nothing" in answer.content[0].text
    assert everything.structured_content["variables"] == {"page": "small", "n": 7, "copy": "small"}
    assert everything.structured_content["left_out"] == []


async def test_long_variable_is_read_in_parts(room: Room) -> None:
    page = "".join(chr(97 + n % 26) for n in range(3 * MOST_OF_A_VALUE - 5))
    parts: list[str] = []
    async with room.client(MODE) as client:
        run_id = (await _run(client, page=page)).structured_content["run_id"]
        start = 0
        while True:
            part = await _explain(client, run_id, show_variables=["page"], from_character=start)
            parts.append(part.structured_content["variables"]["page"])
            row = next(row for row in part.structured_content["left_out"] if row["name"] == "$page")
            assert (row["from"], row["of"]) == (start, len(page))
            start = row["to"]
            if start == len(page):
                break
            assert f'show_variables ["page"], from_character {start}' in part.content[0].text
    assert "".join(parts) == page


async def test_long_answer_is_read_in_parts(room: Room) -> None:
    async with room.client(MODE) as client:
        answer = await _run(client, 'S1: @RESPOND ("$page")')
        said = answer.structured_content
        assert said["response"] == PAGE[:MOST_OF_A_VALUE]
        assert f"for the rest: explain_run with from_character {MOST_OF_A_VALUE}" in answer.content[0].text
        rest = await _explain(client, said["run_id"], from_character=len(PAGE) - 3)
    assert rest.structured_content["response"] == "xxx"


async def test_all_variables_together_are_limited(room: Room) -> None:
    count = 2 * MOST_OF_ALL // MOST_OF_A_VALUE
    steps = [f'S{n}: @FORMAT ("$page") > $v{n}' for n in range(1, count)]
    async with room.client(MODE) as client:
        answer = await _run(client, "\n".join(steps), show_variables=["all"])
    assert len(json.dumps(answer.structured_content["variables"])) < 1.1 * MOST_OF_ALL
    assert {row["name"] for row in answer.structured_content["left_out"]} >= {f"$v{count - 1}", "$page"}


async def test_many_steps_are_limited(room: Room) -> None:
    async with room.client(MODE) as client:
        answer = await _run(client, "\n".join(f"S{n}: @CALC (1) > $a" for n in range(1, 1_000)))
        shown = await _explain(client, answer.structured_content["run_id"])
    assert len(shown.structured_content["steps"]) == 200
    assert "steps: the last 200 of 999" in shown.content[0].text
    assert len(shown.content[0].text) < 32_000


@pytest.mark.parametrize("tool", ["plan_execute", "resume_run", "explain_run", "rerun_run", "fork_run"])
async def test_tools_declare_their_extent(room: Room, tool: str) -> None:
    async with room.client(MODE) as client:
        (declared,) = (each for each in (await client.list_tools()).tools if each.name == tool)
    assert "show_variables" in declared.input_schema["properties"]
    assert "left_out" in declared.output_schema["properties"]


async def test_dry_run_has_limit_and_says_what_is_left_out(room: Room) -> None:
    text = 'S1: @FORMAT ("$page") > $copy\nS2: @SEND (text="$copy")\nS3: @RESPOND ("short")'
    many = "\n".join(f'S{n}: @FORMAT ("{"y" * 900}") > $v{n}' for n in range(1, 201))
    async with room.client(MODE) as client:
        given = {"ltp_text": text, "variables": {"page": PAGE}}
        told = await client.call_tool("dry_run_plan", given)
        more = await client.call_tool("dry_run_plan", given | {"show_steps": ["S2"]})
        steps = await client.call_tool("dry_run_plan", {"ltp_text": many})
        last = await client.call_tool("dry_run_plan", {"ltp_text": many, "show_steps": ["S200"]})
    data = told.structured_content
    assert len(json.dumps(data)) < 10_000
    assert len(told.content[0].text) < 10_000
    rows = {row["name"]: (row["of"], row["to"]) for row in data["left_out"]}
    assert rows["S2 text"] == (len(PAGE), MOST_OF_AN_ARGUMENT)
    assert "S2 text: characters 0 to 1,000 of 100,000" in told.content[0].text
    assert 'show_steps ["S1"] shows more of a step; `callsheet dry-run --json`' in told.content[0].text
    (visit,) = more.structured_content["steps"][1]["visits"]
    assert visit["arguments"]["text"] == {"cut": PAGE[:MOST_OF_A_VALUE]}
    for answer in (steps, last):
        data = answer.structured_content
        assert len(json.dumps(data)) < MOST_OF_ALL + 10_000
        assert {"name": "steps", "of": 200, "shown": len(data["steps"])} in data["left_out"]
        assert f"steps: {len(data['steps'])} of 200" in answer.content[0].text
        assert "characters are left out; `callsheet dry-run --json`" in answer.content[0].text
    assert last.structured_content["steps"][-1]["id"] == "S200"
