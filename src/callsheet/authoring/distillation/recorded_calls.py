"""The calls that a model made, with results and its user's words: in a recorded run, in a transcript.

In: the events of a run with a session or an agent. Out: its calls in order, and those that led to the end.

In: the text of a file, JSON or a JSON value on each line: a transcript of Claude Code, messages of the
Anthropic or the OpenAI API (also its items of responses), or an OpenTelemetry export (OTLP JSON) with tool
calls. Out: its calls with their results and the words of its user, as in a recorded run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.calculations import column_sums
from callsheet.authoring.distillation.leaves import number_of
from callsheet.authoring.distillation.lists import tables_in
from callsheet.authoring.distillation.wording import SMALL_WORDS, counts
from callsheet.authoring.likely_effects import likely_effect
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect, canonical_tool_name
from callsheet.machine.agents.actions import MAX_AT_ONCE, Finish, Unreadable, read_action
from callsheet.machine.values import parse_json, to_json_text
from callsheet.ports.answers import value_of
from callsheet.ports.calls import ToolFailed
from callsheet.store.events import Event, EventType

_TURN = re.compile(r".*/t(\d+)(?:c(\d+))?\Z")
_WORD = re.compile(r"\S{4,}")
"""A word of a listing that is taken for a name."""
_LOOKS = ("QUERY", "CHECK")
"""Verbs of tools whose calls in a session that is over were looks."""
_LEAST = 4
"""The characters that a text has at least to be recognised in another one."""


class RecordedCall(NamedTuple):
    """A call with its result; `place` counts from 0 in the order in which the calls were made."""

    place: int
    tool: str
    args: dict[str, JSON]
    result: JSON


@dataclass(slots=True)
class RecordedWork:
    """What a model did: its calls that gave a result, how many did not, and the words of its user."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    failed: list[str] = field(default_factory=list[str])
    said: str = ""


def work_in(events: Iterable[Event]) -> RecordedWork:
    """The calls in the events of a run; those that failed, were refused or have no outcome are only named."""
    asked: dict[tuple[str, int], tuple[str, dict[str, JSON]]] = {}
    results: dict[tuple[str, int], JSON] = {}
    said: list[str] = []
    for event in events:
        found = _TURN.match(event.key or "")
        if found is None or event.type is not EventType.OK or event.body is None:
            continue
        turn, value = (event.key or "").partition("c")[0], event.body.get("value")
        if found[2] is not None:
            results[turn, int(found[2])] = value
            continue
        if isinstance(value, dict):
            said += [str(text) for text in cast("dict[str, Any]", value).get("said") or ()]
        actions = read_action(cast("JSON", value), MAX_AT_ONCE)
        if not isinstance(actions, Finish | Unreadable):
            for number, action in enumerate(actions, 1):
                asked[turn, number] = action.tool, {**action.args}
    work = RecordedWork(said="\n".join(said))
    for key, (tool, args) in asked.items():
        if key in results:
            work.calls.append(RecordedCall(len(work.calls), tool, args, results[key]))
        else:
            work.failed.append(tool)
    return work


def without_repetitions(calls: Sequence[RecordedCall], effects: Mapping[str, Effect]) -> list[RecordedCall]:
    """The calls without looks that were made before, and told the same, when nothing was changed since."""
    kept: list[RecordedCall] = []
    known: dict[str, JSON] = {}
    for call in calls:
        if not only_reads(call.tool, effects):
            known = {}
            kept.append(call)
            continue
        key = to_json_text([call.tool, {name: call.args[name] for name in sorted(call.args)}])
        if key not in known or known[key] != call.result:
            kept.append(call)
        known[key] = call.result
    return kept


def in_one_order(
    runs: Sequence[Sequence[RecordedCall]], effects: Mapping[str, Effect]
) -> list[Sequence[RecordedCall]]:
    """The calls of runs, with looks between two changes in the order of tools of the first run.

    The order of looks that do not need each other is chance.
    """
    order: dict[str, int] = {}
    for call in chain.from_iterable(runs):
        order.setdefault(call.tool, len(order))
    found: list[Sequence[RecordedCall]] = []
    for calls in runs:
        changes = accumulate(not only_reads(call.tool, effects) for call in calls)
        keys = [
            (number, only_reads(call.tool, effects), order[call.tool] * only_reads(call.tool, effects))
            for number, call in zip(changes, calls, strict=True)
        ]
        found.append([call for _, call in sorted(zip(keys, calls, strict=True), key=lambda one: one[0])])
    return found


def without_guesses(
    calls: Sequence[RecordedCall], effects: Mapping[str, Effect], said: str
) -> list[RecordedCall]:
    """The calls without looks for something that nobody has said and no earlier result has."""
    kept: list[RecordedCall] = []
    known = said.lower()
    for call in calls:
        asked = [text.lower() for text in texts_in(call.args) if len(text) >= _LEAST]
        if only_reads(call.tool, effects) and not all(_is_known(text, known) for text in asked):
            continue
        kept.append(call)
        known = "\n".join((known, *texts_in(call.result))).lower()
    return kept


def _is_known(text: str, known: str) -> bool:
    """Whether a text, or a word of it, is in what is known."""
    return text in known or any(word in known for word in _WORD.findall(text))


def slice_of(
    calls: Sequence[RecordedCall], effects: Mapping[str, Effect], said: str = ""
) -> list[RecordedCall]:
    """The calls that changed something, came last or are named, and those whose results went into them.

    If the user has asked for a number of things, the length of a list may go into an argument. A tool of an
    unknown effect whose name begins like one that reads counts as reading here.
    """
    needed: set[int] = set()
    is_counting = counts(said)
    sums = {call.place: [*map(str, column_sums(call.result))] for call in calls}
    told = {call.place: [text.lower() for text in texts_in(call.result)] for call in calls}
    waiting = [call for call in calls if not only_reads(call.tool, effects)][::-1]
    waiting += [call for call in calls if only_reads(call.tool, effects) and _is_named(call, said)]
    waiting += [*calls[-1:]]
    while waiting:
        call = waiting.pop()
        if call.place in needed:
            continue
        needed.add(call.place)
        wanted = {*texts_in(call.args)}
        for before in calls[: call.place]:
            if before.place in needed:
                continue
            is_counted = is_counting and any(
                isinstance(number, int) and number <= len(rows)
                for number in map(number_of, wanted)
                for _, rows in tables_in("", before.result)
            )
            if is_counted or not wanted.isdisjoint(sums[before.place]) or _gives(told[before.place], wanted):
                waiting.append(before)
    return [call for call in calls if call.place in needed]


def _is_named(call: RecordedCall, said: str) -> bool:
    """Whether the user has named what a look is at, so that it decides even if nothing of it is used."""
    if not all(text in said for text in texts_in(call.args)):
        return False
    nouns = [word for word in call.tool.rpartition("__")[2].lower().split("_")[1:] if word not in SMALL_WORDS]
    words = re.findall(r"[a-z]{3,}", said.lower())
    return bool(nouns) and any(word.rstrip("s") == nouns[-1].rstrip("s") for word in words)


def only_reads(tool: str, effects: Mapping[str, Effect]) -> bool:
    """Whether a tool changes nothing; of one of an unknown effect, its name tells."""
    return likely_effect(tool, effects.get(tool, Effect.UNSAFE), _LOOKS).only_reads


def _gives(texts: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether a text of a result is one of the wanted texts, or a part of one, or the reverse."""
    wanted = {text.lower() for text in wanted}
    for text in texts:
        if text in wanted:
            return True
        if len(text) >= _LEAST and any(text in whole for whole in wanted):
            return True
        if any(len(part) >= _LEAST and part in text for part in wanted):
            return True
        words = _WORD.findall(text) if "\n" in text else ()
        if any(word in whole for word in words for whole in wanted):
            return True
    return False


def texts_in(value: JSON) -> Iterable[str]:
    """The texts and numbers in a value, as text."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, bool) or value is None:
        return
    else:
        yield str(value)


_MCP = "mcp__"
"""How clients begin the names of tools of MCP servers: `mcp__SERVER__TOOL`."""
_NAME = "gen_ai.tool.name"
_ARGUMENTS = ("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "input.value")
_RESULT = ("gen_ai.tool.call.result", "gen_ai.tool.result", "output.value")
_SAID = frozenset({"text", "input_text"})


@dataclass
class _Reading:
    """What was found so far; `asked` are calls by their ids, in order, and `results` their contents."""

    asked: dict[str, tuple[str, dict[str, JSON]]] = field(
        default_factory=dict[str, tuple[str, dict[str, JSON]]]
    )
    results: dict[str, JSON] = field(default_factory=dict[str, JSON])
    failed: set[str] = field(default_factory=set[str])
    said: list[str] = field(default_factory=list[str])


def work_in_transcript(text: str, name: str) -> RecordedWork:
    """The calls in a transcript; those without a result, or that failed, are only named.

    Raises CallsheetError (RUN090) for a text that is no transcript, or has no calls.
    """
    try:
        reading = _read_all(text, name)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _no_transcript(name, f"it cannot be read: {error!r}") from error
    work = RecordedWork(said="\n".join(reading.said))
    for call_id, (tool, args) in reading.asked.items():
        if call_id in reading.results and call_id not in reading.failed:
            work.calls.append(RecordedCall(len(work.calls), tool, args, reading.results[call_id]))
        else:
            work.failed.append(tool)
    if not work.calls:
        raise _no_transcript(name, "it has no tool calls with results")
    return work


def _read_all(text: str, name: str) -> _Reading:
    reading = _Reading()
    spans: list[tuple[int, Mapping[str, Any]]] = []
    for document in _documents(text, name):
        for part in _parts(document):
            spans += _spans(part)
            _read(part, reading)
    for number, (_, span) in enumerate(sorted(spans, key=lambda each: each[0])):
        _read_span(span, f"span {number}", reading)
    return reading


def _no_transcript(name: str, why: str) -> CallsheetError:
    return CallsheetError.single(
        "RUN090",
        f"{name}: {why}",
        help="name a run, or a file: a transcript of Claude Code (.jsonl), messages of the Anthropic or "
        "OpenAI API, or an OpenTelemetry export in JSON",
    )


def _documents(text: str, name: str) -> Iterator[Any]:
    try:
        yield json.loads(text)
        return
    except ValueError:
        pass
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        documents = [json.loads(line) for line in lines]
    except ValueError as error:
        raise _no_transcript(name, f"it is neither JSON nor JSON on each line: {error}") from None
    yield from documents


def _parts(document: Any) -> Iterator[Mapping[str, Any]]:
    """The messages, items and exports in a document."""
    if isinstance(document, list):
        for each in cast("list[Any]", document):
            yield from _parts(each)
    elif isinstance(document, dict):
        table = cast("dict[str, Any]", document)
        inner = next(
            (table[key] for key in ("messages", "input", "output", "items") if _is_list(table, key)), None
        )
        if inner is not None and "role" not in table and "type" not in table:
            yield from _parts(inner)
        elif isinstance(table.get("message"), dict) and not table.get("isMeta"):
            yield cast("dict[str, Any]", table["message"])
        else:
            yield table


def _is_list(table: Mapping[str, Any], key: str) -> bool:
    return isinstance(table.get(key), list)


def _read(part: Mapping[str, Any], reading: _Reading) -> None:
    """Take a message, or an item of a response."""
    kind, role, content = part.get("type"), part.get("role"), part.get("content")
    if kind == "function_call":
        _ask(reading, part.get("call_id"), part.get("name"), part.get("arguments"))
    elif kind == "function_call_output":
        _answer(reading, part.get("call_id"), part.get("output"))
    elif role == "tool":
        _answer(reading, part.get("tool_call_id"), content)
    elif role == "assistant" and _is_list(part, "tool_calls"):
        for call in cast("list[Any]", part["tool_calls"]):
            function: dict[str, Any] = call.get("function") or {}
            _ask(reading, call.get("id"), function.get("name"), function.get("arguments"))
    if isinstance(content, str) and role == "user":
        reading.said.append(content)
    for block in cast("list[Any]", content) if isinstance(content, list) and role != "tool" else ():
        match block:
            case {"type": "tool_use", "id": call_id, "name": name, "input": given}:
                _ask(reading, call_id, name, given)
            case {"type": "tool_result", "tool_use_id": call_id}:
                _answer(reading, call_id, block.get("content"), has_failed=bool(block.get("is_error")))
            case {"type": kind, "text": str(words)} if kind in _SAID and role == "user":
                reading.said.append(words)
            case _:
                pass


def _ask(reading: _Reading, call_id: object, name: object, given: object) -> None:
    if not isinstance(name, str):
        return
    args: object = given
    if isinstance(given, str):
        try:
            args = json.loads(given or "{}")
        except ValueError:
            args = None
    if isinstance(args, dict):
        tool = canonical_tool_name(name.removeprefix(_MCP))
        reading.asked[str(call_id)] = tool, cast("dict[str, JSON]", args)


def _answer(reading: _Reading, call_id: object, content: Any, *, has_failed: bool = False) -> None:
    """Take the result of a call, which is what a run would have got from the same content.

    A text that is a JSON object or list counts as that: servers send it beside structured content, which is
    what a run gets. A plan that meets the mere text instead fails at its first use.
    """
    blocks: list[Any] = (
        cast("list[Any]", content)
        if isinstance(content, list)
        else [{"type": "text", "text": to_json_text(content)}]
    )
    try:
        value = value_of({"content": blocks, "isError": has_failed})
        is_json, parsed = parse_json(value) if isinstance(value, str) else (False, None)
        reading.results[str(call_id)] = parsed if is_json and isinstance(parsed, dict | list) else value
    except ToolFailed:
        reading.failed.add(str(call_id))


# ---------------------------------------------------------------- spans


def _spans(part: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The spans of tool calls in an export, with the times of their starts."""
    for resource in part.get("resourceSpans") or ():
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                attributes = {
                    each["key"]: _value(each.get("value") or {}) for each in span.get("attributes") or ()
                }
                if _NAME in attributes:
                    yield int(span.get("startTimeUnixNano") or 0), {**span, "attributes": attributes}


def _value(value: Mapping[str, Any]) -> JSON:
    """A value of OTLP JSON."""
    match value:
        case {"stringValue": str(text)}:
            return text
        case {"intValue": number}:
            return int(number)
        case {"kvlistValue": {"values": pairs}}:
            return {pair["key"]: _value(pair["value"]) for pair in pairs}
        case {"arrayValue": {"values": items}}:
            return [_value(item) for item in items]
        case _:
            return next(iter(value.values()), None)


def _read_span(span: Mapping[str, Any], call_id: str, reading: _Reading) -> None:
    attributes = cast("dict[str, JSON]", span["attributes"])
    given: JSON = next((attributes[key] for key in _ARGUMENTS if key in attributes), "")
    _ask(reading, call_id, attributes[_NAME], given)
    result = next((attributes[key] for key in _RESULT if key in attributes), None)
    status: dict[str, Any] = span.get("status") or {}
    if result is not None and status.get("code") not in (2, "STATUS_CODE_ERROR"):
        _answer(reading, call_id, result)
