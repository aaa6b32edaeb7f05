"""Plans from what agents did elsewhere: each form of transcript gives a plan that repeats the calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from callsheet.api.distillation import Distillation, distil_all
from callsheet.apps.cli.main import main
from callsheet.authoring.distillation.recorded_calls import work_in_transcript
from callsheet.diagnostics import CallsheetError

SAID = "Send the text of mail 3 to bob@out.example"
CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("read_mail", {"number": 3}, {"from": "ann@corp.example", "text": "the figures of week 3"}),
    ("send_mail", {"to": "bob@out.example", "text": "the figures of week 3"}, "sent"),
]


def claude_code() -> str:
    rows: list[dict[str, Any]] = [
        {"type": "summary", "summary": "mails"},
        {"type": "user", "message": {"role": "user", "content": SAID}},
    ]
    for number, (name, args, result) in enumerate(CALLS):
        use = {"type": "tool_use", "id": f"t{number}", "name": f"mcp__desk__{name}", "input": args}
        rows.append({"type": "assistant", "message": {"role": "assistant", "content": [use]}})
        text = [{"type": "text", "text": result if isinstance(result, str) else json.dumps(result)}]
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        rows.append({"type": "user", "message": {"role": "user", "content": [answer]}})
    return "\n".join(map(json.dumps, rows))


def openai_chat() -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": SAID}]
    for number, (name, args, result) in enumerate(CALLS):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)})
    return json.dumps({"model": "m", "messages": messages})


def openai_responses() -> str:
    items: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": SAID}]}]
    for number, (name, args, result) in enumerate(CALLS):
        given = {"call_id": f"c{number}", "name": name, "arguments": json.dumps(args)}
        items.append({"type": "function_call", **given})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": json.dumps(result)})
    return json.dumps(items)


def spans() -> str:
    def attribute(key: str, value: Any) -> dict[str, Any]:
        text = value if isinstance(value, str) else json.dumps(value)
        return {"key": key, "value": {"stringValue": text}}

    found = [
        {
            "name": f"execute_tool {name}",
            "startTimeUnixNano": str(1000 + number),
            "attributes": [
                attribute("gen_ai.tool.name", name),
                attribute("gen_ai.tool.call.arguments", args),
                attribute("gen_ai.tool.call.result", result),
            ],
        }
        for number, (name, args, result) in enumerate(CALLS)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found[::-1]}]}]})


async def distilled(text: str, name: str) -> Distillation:
    return await distil_all([work_in_transcript(text, name)], {}, [f"the agent in {name}"])


@pytest.mark.parametrize("transcript", [claude_code, openai_chat, openai_responses, spans])
async def test_transcript_becomes_a_plan_that_repeats_its_calls(transcript: Any) -> None:
    made = await distilled(transcript(), "agent.json")
    assert [call.args for call in made.calls] == [args for _, args, _ in CALLS]
    assert "text=" in made.plan.text
    assert '["text"]' in made.plan.text  # copied from the mail, and no input
    assert set(made.plan.inputs.values()) == {3, "bob@out.example"}


async def test_failed_call_is_left_out() -> None:
    failed = claude_code().replace('"tool_use_id": "t1"', '"is_error": true, "tool_use_id": "t1"')
    made = await distilled(failed, "agent.json")
    assert (len(made.calls), made.work.failed) == (1, ["DESK__SEND_MAIL"])


@pytest.mark.parametrize(
    "text", ["no transcript", "{}", '{"messages": []}', "[1, null]", '{"resourceSpans": [1]}']
)
async def test_file_without_calls_is_reported(text: str) -> None:
    with pytest.raises(CallsheetError, match=r"RUN090: notes\.txt: it") as refused:
        await distilled(text, "notes.txt")
    assert "a transcript of Claude Code" in str(refused.value.diagnostics[0].help)


def test_question_that_nobody_answers_is_printed_and_takes_its_answer_from_an_option(own_home: Path) -> None:
    rooms = [{"id": "R1", "price": 50, "seats": 4}, {"id": "R2", "price": 30, "seats": 9}]
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("list_rooms", {}, json.dumps(rooms)),
        ("book_room", {"room": "R2"}, "booked"),
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Book a room for the meeting"}]
    for number, (name, args, result) in enumerate(calls):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": args}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    (own_home / "rooms.json").write_text(json.dumps(messages))

    def distilled(*words: str) -> tuple[int, dict[str, Any]]:
        done = CliRunner().invoke(main, ["distil", "rooms.json", "--json", *words])
        return done.exit_code, json.loads(done.stdout)

    status, asked = distilled("--ask")
    question = asked["question"]
    assert (status, question["place"], question["value"]) == (4, "BOOK_ROOM.room#1", "R2")
    cheapest = next(number for number, code in enumerate(question["readings"], 1) if "price" in code)
    status, made = distilled("--answer", f"{question['place']}={cheapest}")
    assert (status, made["inputs"]) == (0, {})
    cheapest_room = re.search(r'(\w+) = min\(rooms, key=lambda one: one\["price"\]\)\n', made["plan"])
    assert cheapest_room is not None
    assert f'await book_room(room={cheapest_room[1]}["id"])\n' in made["plan"]
    assert distilled("--answer", f"{question['place']}=9")[0] == 2
    assert distilled("--answer", f"{question['place']}={'9' * 5_000}")[0] == 2
    taken = ("--answer", f"{question['place']}={cheapest}", "--answer", "ELSEWHERE.x=1")
    assert distilled(*taken)[1]["diagnostics"][0]["message"] == "no question is about ELSEWHERE.x"
