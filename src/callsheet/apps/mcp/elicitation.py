"""Turns the questions of a run into forms for the person at the client, and the replies into answers.

In: the state of a run. Out: forms by name, or recorded answers. An answer is bound by a digest to the
question that was shown; if the question has changed, it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mcp_types import ElicitResult

from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import Form
from callsheet.apps.rendering.runs import pending_call_lines, program_lines, question_lines
from callsheet.apps.rendering.values import without_controls
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine import Decision, TookPlace
from callsheet.machine.values import to_json_text
from callsheet.runtime.answers import Answer, PendingAsk, read_answer
from callsheet.runtime.doubt import DoubtfulCall, Resolution, RunOutcome
from callsheet.runtime.inbox import answer_run, precedents_of, programs_of

if TYPE_CHECKING:
    from callsheet.runtime.program_question import ProgramQuestion

_NOTE = {"type": "string", "title": "Note", "description": "A note recorded with the answer."}
_PROGRAM = {
    "type": "boolean",
    "title": "Call also those marked +",
    "description": "Each once, exactly as shown; all others ask again.",
}
_PLAIN = frozenset({"string", "number", "integer", "boolean"})
_FIELD = frozenset({"type", "title", "description", "minimum", "maximum"})
_TOOK_PLACE = "it took place"
_DECISIONS = {
    "retry": Decision.RETRY,
    "skip": Decision.SKIP,
    "fail": Decision.FAIL,
}


async def open_forms(host: Host, outcome: RunOutcome) -> dict[str, Form]:
    """The forms for what a run asks, each with the further calls of its plan that will ask."""

    def beside() -> tuple[Mapping[str, ProgramQuestion], Mapping[str, str]]:
        return programs_of(host.journal, outcome.waiting), precedents_of(host.journal, outcome.waiting)

    return forms_of(outcome, *await host.beside(beside))


def forms_of(
    outcome: RunOutcome, programs: Mapping[str, ProgramQuestion], precedents: Mapping[str, str]
) -> dict[str, Form]:
    """The forms for the open questions of a run, by a name with the digest of the question.

    `programs` are the further calls of the plan that will ask, by the digest of the question; their hash is
    part of the form's name, so that a yes is for what was shown. `precedents` are what earlier runs were
    approved for. Nobody knows who answers at a client, so what only somebody with a role may answer has no
    form: the forms name it.
    """
    forms: dict[str, Form] = {}
    for ask in outcome.waiting:
        if not ask.is_answered and not ask.role:
            program = programs.get(ask.digest)
            name = f"{ask.key}#{ask.digest}" + ("" if program is None else f"+{program.digest}")
            forms[name] = ask_form(ask, program, precedents.get(ask.digest))
    forms |= {f"{call.key}#": _doubt_form(outcome.run_id, call) for call in outcome.in_doubt}
    besides = [_besides(ask) for ask in outcome.waiting if ask.role and not ask.is_answered]
    if not besides:
        return forms
    return {name: replace(form, message="\n".join([form.message, *besides])) for name, form in forms.items()}


def _besides(ask: PendingAsk) -> str:
    what = f"the approval of {ask.tool_as_written}" if ask.kind == "approval" else "an answer"
    return f"Besides, {ask.key} waits for {what} by {ask.answered_by}."


def ask_form(ask: PendingAsk, program: ProgramQuestion | None = None, precedent: str | None = None) -> Form:
    """The form for one question, and for the further calls of its plan that will ask."""
    *shown, _ = question_lines(ask, precedent=precedent)
    message = "\n".join([*shown, *(() if program is None else program_lines(program, ask.site))])
    if ask.kind == "approval":
        title = "Use this answer" if ask.answer else "Call it with exactly this"
        field: dict[str, Any] = {"type": "boolean", "title": title}
        also = {} if program is None else {"program": _PROGRAM}
        return Form(message, _object({"approve": field, **also, "note": _NOTE}, ["approve"]))
    return Form(message, _object({"answer": _answer_field(ask), "note": _NOTE}, ["answer"]))


def _answer_field(ask: PendingAsk) -> dict[str, Any]:
    """The form field for an answer; values that forms do not support are entered as JSON."""
    if ask.options:
        return {"type": "string", "title": "Answer", "enum": [to_json_text(option) for option in ask.options]}
    schema = dict(ask.schema or {})
    if schema.get("type") in _PLAIN and schema.keys() <= _FIELD:
        return {"title": "Answer", **schema}
    return {"type": "string", "title": "Answer" if ask.schema is None else "Answer, as JSON"}


def _doubt_form(run_id: str, call: DoubtfulCall) -> Form:
    lines = [f"run {run_id}", *(without_controls(line) for line in pending_call_lines([call]))]
    lines.append(
        "Check whether it did. retry: make the call again. skip: continue as if it had returned null."
    )
    lines.append(f"fail: treat it as failed. {_TOOK_PLACE}: value is the result that it returned, as JSON.")
    decision = {"type": "string", "title": "Decision", "enum": [*_DECISIONS, _TOOK_PLACE]}
    value = {"type": "string", "title": "Value", "description": f"JSON, for: {_TOOK_PLACE}"}
    return Form("\n".join(lines), _object({"decision": decision, "value": value}, ["decision"]))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


async def record_answers(
    host: Host, run_id: str, given: Mapping[str, ElicitResult], by: str
) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Record the answers for a run; returns whether any was recorded, and diagnostics of refused ones.

    A cancelled form is no answer; a declined form denies.
    """
    has_recorded, diagnostics = False, list[Diagnostic]()
    for name, result in given.items():
        key, _, digest = name.rpartition("#")
        if result.action == "cancel" or (result.action == "decline" and not digest):
            continue
        try:
            await _record_answer(host, run_id, key, digest, result, by)
            has_recorded = True
        except CallsheetError as error:
            diagnostics += error.diagnostics
    return has_recorded, tuple(diagnostics)


async def _record_answer(
    host: Host, run_id: str, key: str, digest: str, result: ElicitResult, by: str
) -> None:
    fields = dict(result.content or {})
    if not digest:
        await host.decide(run_id, [key], _verdict(fields))
        return

    digest, _, program = digest.partition("+")

    def answer(ask: PendingAsk) -> Answer:
        return answer_in(ask, result, by, program)

    await asyncio.to_thread(answer_run, host.journal, run_id, answer, key, digest=digest)


def answer_in(ask: PendingAsk, result: ElicitResult, by: str, program: str = "") -> Answer:
    """The answer of a person in a form; a declined form denies. Raises as `read_answer` does.

    `program` is the hash of the further calls that the form showed.
    """
    fields = dict(result.content or {})
    note = str(fields.get("note") or "")
    if result.action == "decline":
        return Answer.deny(by=by, note=note)
    if ask.kind == "approval":
        agrees = fields.get("approve") is True
        also = program if fields.get("program") is True else ""
        if not agrees:
            return Answer.deny(by=by, note=note)
        return Answer.approve(by=by, note=note, for_program=also)
    value = fields.get("answer")
    answer_value = read_answer(ask, value) if isinstance(value, str) else cast("JSON", value)
    return Answer.of(answer_value, by=by, note=note)


def _verdict(fields: Mapping[str, Any]) -> Resolution:
    decision = fields.get("decision")
    if decision in _DECISIONS:
        return _DECISIONS[decision]
    if decision != _TOOK_PLACE:
        raise CallsheetError.single(
            "MCP001", f"{str(decision)[:40]!r} is not a decision about a call in doubt"
        )
    try:
        return TookPlace(read_json(str(fields.get("value") or "null")))
    except NotJson as error:
        message = f"the value that the call returned is not JSON: {error}"
        raise CallsheetError.single("CFG011", message, help='a text needs quotes: "paid"') from None
