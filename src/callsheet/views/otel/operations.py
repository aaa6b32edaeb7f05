"""The calls of a run from its events, and the spans of each attempt with the calls nested in it.

In: events, by their type, key and body. Out: `CallRecord` records, kept until their visit is exported; then a
span for each, and those below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from callsheet.ir import JSON, CallKind, Plan, call_kind
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, Compile, RunAgent, Spent
from callsheet.machine.keys import attempt_key, parse_key, span_id, trace_id, visit_of
from callsheet.store.events import EventType
from callsheet.store.start import Start
from callsheet.trace.visits import arguments_of
from callsheet.views.otel.model import (
    PROVIDERS,
    Attributes,
    CallsheetKey,
    ErrorType,
    Gen,
    Kind,
    Op,
    OpenInference,
    Rpc,
    Span,
    SpanKind,
)


class Failure(NamedTuple):
    """Why something failed: the type of the error and its text."""

    type: ErrorType
    text: str = ""


@dataclass(slots=True)
class CallRecord:
    """One call. `issued` and `ended` are times in nanoseconds since 1970; `ended` is 0 while it is open.

    `error_type` and `error_text` describe its failure; `model` and `prompt` are those of the answer.
    """

    key: str
    issued: int
    ended: int = 0
    error_type: ErrorType | None = None
    error_text: str = ""
    value: JSON = None
    spent: Spent | None = None
    model: str = ""
    prompt: str = ""

    @property
    def failure(self) -> Failure | None:
        """Why it failed, None if it succeeded; a call that is open when it is exported was interrupted."""
        error_type = self.error_type if self.ended else ErrorType.INTERRUPTED
        return None if error_type is None else Failure(error_type, self.error_text)

    def is_within(self, key: str) -> bool:
        """Whether it was made within the operation with this key."""
        return self.key.startswith(f"{key}/")


@dataclass(slots=True)
class Calls:
    """The calls of visits that have not been exported yet, by the key prefix of the visit."""

    by_visit: dict[str, dict[str, CallRecord]] = field(default_factory=dict[str, "dict[str, CallRecord]"])

    def issued(self, key: str, now: int) -> None:
        """Record that a call was issued. It replaces an earlier record, of a process that ended before."""
        self.by_visit.setdefault(visit_of(key), {})[key] = CallRecord(key, now)

    def outcome(
        self, kind: str, key: str, body: Mapping[str, Any], now: int, command: Awaited | None
    ) -> None:
        """Record the outcome of a call: a result, an error, that it is in doubt, or a decision about it."""
        of_visit = self.by_visit.setdefault(visit_of(key), {})
        called = of_visit.get(key)
        if called is None:
            called = of_visit[key] = CallRecord(key, now)
        called.ended = now
        match kind:
            case EventType.OK:
                called.value = body.get("value")
            case EventType.ERR:
                called.error_type, called.error_text = (
                    _error_type_of_call(command),
                    str(body.get("error", "")),
                )
            case EventType.IN_DOUBT:
                called.error_type, called.error_text = ErrorType.IN_DOUBT, str(body.get("reason", ""))
            case EventType.DECIDED:
                _decide(called, body)
            case _:
                pass
        if "spent" in body:
            called.spent = Spent(*body["spent"])
        for remark in body.get("remarks", ()):
            if remark.get("fact") == "model":
                called.model = str(remark["text"])
            elif remark.get("fact") == "prompt":
                called.prompt = str(remark["text"])

    def of(self, visit: str) -> list[CallRecord]:
        """Returns the calls of a visit, in the order in which they were first issued."""
        return list(self.by_visit.get(visit, {}).values())

    def forget(self, visit: str, *, but_open: bool = False) -> None:
        """Remove the calls of a visit that has been exported; with `but_open`, only those that have ended."""
        records = self.by_visit.pop(visit, {})
        if but_open:
            open_records = {key: called for key, called in records.items() if not called.ended}
            if open_records:
                self.by_visit[visit] = open_records


def attempts_in(calls: Iterable[CallRecord]) -> dict[int, dict[str, list[CallRecord]]]:
    """Groups calls by item, then by the key of their attempt, both in ascending order."""
    attempts: dict[int, dict[str, list[CallRecord]]] = {}
    for called in calls:
        base = attempt_key(called.key)
        attempts.setdefault(parse_key(base).index, {}).setdefault(base, []).append(called)
    return {
        item: dict(sorted(attempts[item].items(), key=lambda pair: parse_key(pair[0]).attempt))
        for item in sorted(attempts)
    }


def _decide(called: CallRecord, body: Mapping[str, Any]) -> None:
    decision = body.get("decision")
    if decision == "retry":
        called.ended = 0
    elif decision != "fail":
        called.error_type, called.error_text, called.value = None, "", body.get("value")


def _error_type_of_call(command: Awaited | None) -> ErrorType:
    match command:
        case CallModel() | AgentTurn():
            return ErrorType.MODEL
        case RunAgent():
            return ErrorType.AGENT
        case Compile():
            return ErrorType.PLANNER
        case CallTool():
            return ErrorType.TOOL
        case _:
            return ErrorType.STEP


_MOST_OF_A_NAME = 120


class McpTool(NamedTuple):
    """A tool of an MCP server: the server's name in the configuration, its transport and protocol version."""

    server: str
    transport: str
    protocol: str


class RequestedModel(NamedTuple):
    """The model that a run was started with: provider (by the conventions' name), name and settings."""

    provider: str = ""
    name: str = ""
    settings: tuple[tuple[str, float], ...] = ()

    def attributes(self) -> Attributes:
        """Returns the attributes of a request to the model."""
        result: Attributes = {}
        if self.provider:
            result[Gen.PROVIDER] = self.provider
        if self.name:
            result[Gen.REQUEST_MODEL] = self.name
        return result | dict(self.settings)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run: its id, its plan, the run it was forked from, its model and its MCP servers.

    `includes_content` says whether arguments, results and error texts are included in the telemetry.
    """

    run_id: str
    plan_name: str
    plan_id: str
    plan_hash: str
    parent: str
    model: RequestedModel
    servers: Mapping[str, McpTool]
    includes_content: bool = False


def describe_run(
    run_id: str, plan: Plan, plan_hash: str, start: Start, parent: str | None, *, content: bool = False
) -> RunDescription:
    """Collects the data about a run; `content` becomes `includes_content`."""
    launch = cast("Mapping[str, Any]", start.launch)
    name = plan.id or plan.title or _file_name(launch.get("plan")) or "plan"
    return RunDescription(
        run_id,
        name[:_MOST_OF_A_NAME],
        plan.id or "",
        plan_hash,
        parent or "",
        _requested_model(_table(launch.get("setup"))),
        _servers(_table(launch.get("servers"))),
        content,
    )


def _file_name(value: object) -> str:
    """Returns the name of the plan's file, or an empty string for a text without a file."""
    return value.rpartition("/")[2] if isinstance(value, str) and not value.startswith("<") else ""


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _requested_model(setup: Mapping[str, Any]) -> RequestedModel:
    table = _table(_table(setup.get("settings")).get("model"))
    named = str(setup.get("model") or table.get("model") or "")
    names = {"temperature": Gen.TEMPERATURE, "max_tokens": Gen.MAX_TOKENS, "seed": Gen.SEED}
    settings = tuple(
        (name, table[key]) for key, name in names.items() if isinstance(table.get(key), int | float)
    )
    if not named or "://" in named:
        model = str(table.get("name") or "")
        return RequestedModel("", model, settings if model else ())
    provider, _, model = named.partition(":")
    return RequestedModel(PROVIDERS.get(provider, provider), model, settings)


def _servers(rows: Mapping[str, Any]) -> dict[str, McpTool]:
    return {
        tool: McpTool(*map(str, cast("list[Any]", row)))
        for tool, row in rows.items()
        if isinstance(row, list) and len(cast("list[Any]", row)) == len(McpTool._fields)
    }


COMPILER = "compiler"
"""The agent name of the operation that compiles plans."""
_MOST_OF_CONTENT = 16_000
_CALL = "tools/call"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class SpanBuilder:
    """Builds the spans of a run from the data about it and its commands by key."""

    about: RunDescription
    commands: Mapping[str, Awaited]

    def named(self, op: Op, what: str) -> str:
        """Returns the name of a span: the operation and its target."""
        return f"{op} {what}" if what else str(op)

    def error(self, error_text: str) -> str:
        """Returns an error's text, or an empty string if content is not exported."""
        return error_text if self.about.includes_content else ""

    def operation(self, tool: str, key: str, kind: CallKind) -> tuple[str, Attributes]:
        """Returns the span name and attributes for a call of a tool, an operation or an agent."""
        if kind is CallKind.AGENT:
            named: Attributes = {Gen.OPERATION: Op.AGENT, Gen.AGENT: tool}
            return self.named(Op.AGENT, tool), named | {
                OpenInference.KIND: Kind.AGENT,
                OpenInference.AGENT: tool,
            }
        values: Attributes = {
            Gen.OPERATION: Op.TOOL,
            Gen.TOOL: tool,
            Gen.TOOL_TYPE: "function",
            Gen.CALL_ID: key,
            OpenInference.KIND: Kind.TOOL,
            OpenInference.TOOL: tool,
        }
        server = self.about.servers.get(tool)
        if server is not None:
            values[Gen.TOOL_TYPE] = "extension"
            values[Rpc.METHOD] = _CALL
            values |= {
                name: value
                for name, value in ((Rpc.PROTOCOL, server.protocol), (Rpc.TRANSPORT, server.transport))
                if value
            }
            values[CallsheetKey.SERVER] = server.server
        return self.named(Op.TOOL, tool), values

    def content(self, arguments: JSON, result: JSON, *, of_tool: bool, has_result: bool) -> Attributes:
        """Returns the attributes of arguments and result; none if content is not exported."""
        if not self.about.includes_content:
            return {}
        arguments_text = as_text(arguments)
        values: Attributes = {OpenInference.INPUT: arguments_text, OpenInference.INPUT_TYPE: _JSON}
        if of_tool:
            values[Gen.ARGUMENTS] = arguments_text
        if has_result:
            result_text = as_text(result)
            values |= {OpenInference.OUTPUT: result_text, OpenInference.OUTPUT_TYPE: _JSON}
            if of_tool:
                values[Gen.RESULT] = result_text
        return values

    # ------------------------------------------------------------ one attempt

    def id_of(self, called: CallRecord, *part: str) -> str:
        """Returns the id of the span of a call, or of a part of it.

        For a finished call it is the id that the call sent to the server, which depends on the key alone. An
        unfinished call may be made again by the next process under the same key, so its span has another id.
        """
        run, key = self.about.run_id, called.key
        is_final = called.ended and called.error_type is not ErrorType.IN_DOUBT
        return span_id(run, key, *part) if is_final else span_id(run, key, *part, "unfinished", called.issued)

    def attempt(
        self,
        key: str,
        tool: str,
        calls: Sequence[CallRecord],
        parent: str,
        now: int,
        extra: Attributes,
        *,
        is_interrupted: bool = False,
    ) -> list[Span]:
        """Returns the spans of an attempt, its own first; an unanswered call ends `now`, as interrupted.

        `extra` are additional attributes of its own span. `is_interrupted` says that a process ended before
        the attempt was finished.
        """
        kind = call_kind(tool)
        own = next((called for called in calls if called.key == key), None)
        within = [called for called in calls if called.is_within(key)]
        start = min(called.issued for called in calls)
        end = max(called.ended or now for called in calls)
        name, attributes = self.operation(tool, key, kind)
        command = self.commands.get(key)
        own_id = self.id_of(own or CallRecord(key, start, 0 if is_interrupted else end))
        attributes |= extra
        if own is not None:
            has_result = own.error_type is None and bool(own.ended)
            attributes |= self.content(
                arguments_of(command), own.value, of_tool=kind is not CallKind.AGENT, has_result=has_result
            )
        if within and kind is CallKind.AGENT:
            if self.about.model.provider:
                attributes[Gen.PROVIDER] = self.about.model.provider
            attributes |= _usage([called.spent for called in within])
        below: list[Span] = []
        if own is not None and kind is CallKind.MODEL and not within:
            below = [self._chat(own, own_id, self.id_of(own, "chat"), end)]
        elif own is not None and kind is CallKind.AGENT and not within:
            attributes |= self._answered_by(own)
        below += [span for called in within for span in self._inner(called, own_id, now)]
        failure = None if own is None else own.failure
        return [self.span(own_id, parent, name, (start, end), attributes, failure), *below]

    def planning(
        self, called: CallRecord, parent: str, now: int, extra: Attributes, own_id: str = ""
    ) -> list[Span]:
        """Returns the spans of compiling a plan: its own, and as its child that of the model request."""
        end = called.ended or now
        attributes: Attributes = {
            Gen.OPERATION: Op.PLAN,
            Gen.AGENT: COMPILER,
            OpenInference.KIND: Kind.CHAIN,
            OpenInference.AGENT: COMPILER,
            **extra,
        }
        own_id, times = own_id or self.id_of(called), (called.issued, end)
        name = self.named(Op.PLAN, COMPILER)
        own = self.span(own_id, parent, name, times, attributes, called.failure)
        if called.spent is None and not called.model:
            return [own]  # no model request is known
        return [own, self._chat(called, own_id, self.id_of(called, "chat"), end)]

    def _inner(self, called: CallRecord, parent: str, now: int) -> list[Span]:
        """Returns the spans of a model request or a tool call in a turn of an operation."""
        key, command = called.key, self.commands.get(called.key)
        turn: Attributes = {CallsheetKey.TURN: parse_key(key).turn}
        if isinstance(command, CallTool):
            return self.attempt(key, command.tool, [called], parent, now, turn)
        return [self._chat(called, parent, self.id_of(called), called.ended or now, turn)]

    def _chat(
        self, called: CallRecord, parent: str, own_id: str, end: int, extra: Attributes | None = None
    ) -> Span:
        attributes: Attributes = {
            Gen.OPERATION: Op.CHAT,
            **self.about.model.attributes(),
            OpenInference.KIND: Kind.LLM,
            **self._answered_by(called),
            **_usage([called.spent]),
            **(extra or {}),
        }
        if called.prompt:
            attributes[CallsheetKey.PROMPT] = called.prompt
        arguments_text = arguments_of(self.commands.get(called.key))
        is_answered = called.error_type is None and bool(called.ended)
        attributes |= self.content(arguments_text, called.value, of_tool=False, has_result=is_answered)
        name, times = self.named(Op.CHAT, self.about.model.name or called.model), (called.issued, end)
        return self.span(own_id, parent, name, times, attributes, called.failure, SpanKind.CLIENT)

    def _answered_by(self, called: CallRecord) -> Attributes:
        values: Attributes = {}
        name = called.model or self.about.model.name
        if called.model:
            values[Gen.RESPONSE_MODEL] = called.model
        if name:
            values[OpenInference.MODEL] = name
        if self.about.model.provider:
            values[OpenInference.PROVIDER] = self.about.model.provider
        return values

    def span(
        self,
        own_id: str,
        parent: str,
        name: str,
        times: tuple[int, int],
        attributes: Attributes,
        failure: Failure | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Returns a span of the run; with a `failure` it has failed."""
        run = self.about.run_id
        values: Attributes = {**attributes, CallsheetKey.RUN: run, OpenInference.SESSION: run}
        if failure is not None:
            values[Rpc.ERROR] = failure.type
        start, end = times
        error = None if failure is None else self.error(failure.text)
        return Span(trace_id(run), own_id, parent, name, kind, start, max(start, end), values, error=error)


def _usage(spent: Sequence[Spent | None]) -> Attributes:
    """Returns the attributes of token counts and cost; none if no usage was reported."""
    known = [each for each in spent if each is not None]
    if not known:
        return {}
    total = Spent()
    for each in known:
        total = total.plus(each)
    values: Attributes = {
        Gen.INPUT_TOKENS: total.input_tokens,
        Gen.OUTPUT_TOKENS: total.output_tokens,
        OpenInference.PROMPT_TOKENS: total.input_tokens,
        OpenInference.COMPLETION_TOKENS: total.output_tokens,
        OpenInference.TOTAL_TOKENS: total.input_tokens + total.output_tokens,
    }
    if total.cached_tokens:
        values[Gen.CACHED_TOKENS] = total.cached_tokens
    if total.requests:
        values[CallsheetKey.REQUESTS] = total.requests
    if total.cost:
        values[CallsheetKey.COST] = total.cost
    return values


def as_text(value: JSON) -> str:
    """Returns a value as JSON text, truncated to 16,000 characters."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _MOST_OF_CONTENT else f"{text[:_MOST_OF_CONTENT]}… ({len(text):,} characters)"
