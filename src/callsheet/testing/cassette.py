"""Makes a case of a recorded run: its inputs, the answers of its tools as a cassette, and what it did.

In: a journal and the id of a run that has ended. Out: a case as TOML text, the cassette as JSON text, and
what was left out. Secrets are never in it: the journal is read without its key, so a secret is a placeholder
both where it was given and where it was used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.ir.operations import CLOCK, COMPUTE
from callsheet.machine import (
    AgentTurn,
    Answered,
    Ask,
    CallModel,
    CallTool,
    Command,
    Compile,
    Failed,
    Outcome,
    PlanCompiled,
    RunAgent,
    Succeeded,
    Verdict,
)
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.questions import Approval, headline
from callsheet.store import Journal
from callsheet.store.events import Event as Row
from callsheet.store.records import recorded_event
from callsheet.store.replay import begin_with, fold_on
from callsheet.store.start import Start
from callsheet.testing.case import CASSETTE
from callsheet.testing.coverage import own_id
from callsheet.testing.fakes import REPLAN, transforms

MOST_BYTES = 100_000
"""The size of one answer that a cassette takes, unless the user says another."""
_PLACEHOLDER = "[sealed "


@dataclass(slots=True)
class RecordedCase:
    """A case made of a run: its plan (with the file that it came from, if that is still the same), the texts
    of the case and of its cassette, and what is not in them.
    """

    plan: Plan
    text: str
    plan_file: Path | None
    calls: list[dict[str, JSON]] = field(default_factory=list[dict[str, JSON]])
    left_out: list[str] = field(default_factory=list[str])
    fields: dict[str, JSON] = field(default_factory=dict[str, JSON])
    rules: dict[str, JSON] = field(default_factory=dict[str, JSON])
    """The policy of the run and what had to be approved, as in the event with which it began."""

    @property
    def suffix(self) -> str:
        """How the name of a file with the plan's text ends."""
        from callsheet.frontends.spelling import Syntax, read_plan_text  # noqa: PLC0415 - where it has no file

        endings = {Syntax.MICRO: ".micro", Syntax.DAG: ".json", Syntax.PYTHON: ".py"}
        return endings.get(read_plan_text(self.text, "<run>").syntax or Syntax.LTP, ".ltp")

    def cassette(self) -> str:
        """The cassette as JSON text."""
        calls = ",\n    ".join(json.dumps(call, ensure_ascii=False) for call in self.calls)
        rules = "".join(
            f'  "{name}": {json.dumps(value, ensure_ascii=False)},\n' for name, value in self.rules.items()
        )
        return f'{{\n  "kind": "{CASSETTE}",\n  "version": 1,\n{rules}  "calls": [\n    {calls}\n  ]\n}}\n'

    def case(self, name: str, cassette: str) -> str:
        """The case as TOML text; `cassette` is the name of that file."""
        lines = ["[[cases]]", f"name = {toml(name)}", f"cassette = {toml(cassette)}"]
        for key, value in self.fields.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                lines += [f"{key} = [", *(f"  {toml(one)}," for one in value), "]"]
            else:
                lines.append(f"{key} = {toml(value)}")
        return "\n".join(lines) + "\n"


def recorded_case(journal: Journal, run_id: str, most_bytes: int = MOST_BYTES) -> RecordedCase:
    """A case of a run that has ended.

    Raises CallsheetError (TST003) for a run that has not ended, was branched off, or is a gate's session;
    JournalError if it cannot be read.
    """
    info = journal.find_run(run_id)
    plan, text = journal.plan(info.plan_hash)
    rows = iter(journal.events(info.run_id))
    first = next(rows)
    start = Start.from_json(first.body or {})
    if any(fact.loop is not None and fact.loop.is_session for fact in start.facts.values()):
        raise _cannot(info.run_id, "it is a session of a gate", "callsheet distil makes a plan of it")
    made = RecordedCase(plan, text, _file_of(start, plan))
    reader = _Reader(made, most_bytes)
    folded = begin_with(plan, first, reader.note)

    def noted() -> Iterator[Row]:
        for row in rows:
            reader.row(row, folded.waiting, journal)
            yield row

    fold_on(folded, noted(), journal.plan_of)
    result = folded.machine.result
    if result is None:
        raise _cannot(info.run_id, "it has not ended", "`callsheet resume` continues it")
    secret = {name: value for name, value in start.inputs.items() if name in start.secret}
    plain = {name: value for name, value in start.inputs.items() if name not in start.secret}
    outcome = Outcome.of(cast("Any", str(result.status)), has_failures=bool(result.failed_steps))
    made.rules = {name: value for name in ("policy", "approve") if (value := (first.body or {}).get(name))}
    fields: dict[str, JSON] = {"now": datetime.fromtimestamp(info.created, UTC).isoformat()}
    fields |= {"inputs": plain} if plain else {}
    fields |= {"secrets": secret} if secret else {}
    fields["outcome"] = str(outcome)
    if result.error:
        fields["error"] = result.error[:500]
    if result.answer is not None or result.response:
        value = result.response if result.answer is None else result.answer
        if _size(value) <= most_bytes:
            fields["answer"] = value
        else:
            made.left_out.append(f"the answer ({_size(value):,} bytes)")
    fields |= {"replies": cast("JSON", reader.replies)} if reader.replies else {}
    fields |= {"order": "any"} if reader.has_overlap else {}
    fields["calls"] = cast("JSON", reader.expected)
    made.fields = fields
    if _PLACEHOLDER in json.dumps([made.calls, fields], ensure_ascii=False):
        made.left_out.append("secrets: placeholders stand for them, also in the inputs")
    if info.parent_run is not None:
        made.left_out.append(f"edits of run {info.parent_run}, from which it was branched off")
    return made


def _cannot(run_id: str, why: str, hint: str) -> CallsheetError:
    return CallsheetError.single("TST003", f"no case can be made of run {run_id}: {why}", help=hint)


def _file_of(start: Start, plan: Plan) -> Path | None:
    """The file that the plan of a run came from, if it still has that plan."""
    from callsheet.api.plan import Plan as Read  # noqa: PLC0415 - to compare

    note: Any = start.launch.get("file")
    path = Path(str(cast("dict[str, Any]", note).get("path", ""))) if isinstance(note, Mapping) else None
    if path is None or not path.is_file():
        return None
    try:
        return path if plan_hash(Read.load(path, inputs=start.inputs.keys()).ir) == plan_hash(plan) else None
    except CallsheetError:
        return None


def _size(value: JSON) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))


class _Reader:
    """Takes the calls and questions of a run while its events are folded."""

    def __init__(self, made: RecordedCase, most_bytes: int) -> None:
        self._made, self._most = made, most_bytes
        self._agents: dict[str, str] = {}
        """The tool of each step that a model drove turn by turn."""
        self._loops = {step.id for step in made.plan.steps if step.foreach is not None}
        self.expected: list[dict[str, JSON]] = []
        self.has_overlap = False
        """Whether several calls or questions were open at once, so that their order was a matter of time."""
        self.replies: list[dict[str, JSON]] = []

    def row(self, row: Row, waiting: Mapping[str, Any], journal: Journal) -> None:
        """Take an event, before the machine does."""
        if row.key is None or not row.type.answers:
            return
        command = cast("Command | None", waiting.get(row.key))
        self.has_overlap = self.has_overlap or len(waiting) > 1
        event = recorded_event(row, journal.plan_of)
        match command, event:
            case AgentTurn(step=step, tool=tool), _:
                self._agents[step] = tool
            case Ask(), Answered():
                self._reply(command, event)
            case Compile(reason=reason), PlanCompiled(plan=plan):
                from callsheet.frontends.spelling import Syntax, format_as  # noqa: PLC0415 - only for new plans

                self._call(REPLAN, {"reason": reason}, answer=format_as(Syntax.LTP, plan))
            case CallTool(tool=tool), _ if tool in (CLOCK, COMPUTE) or tool in transforms():
                pass
            case CallTool() | CallModel() | RunAgent(), Succeeded() | Failed():
                if "/t" in row.key:
                    return  # a call of an agent: the answer of its step stands for it
                self._outcome(command, event)
            case _:
                pass

    def _outcome(self, command: CallTool | CallModel | RunAgent, event: Succeeded | Failed) -> None:
        if isinstance(event, Failed):
            self._call(command.tool, command.args, error=event.error, kind=event.kind)
            return
        size = _size(event.value)
        if size > self._most:
            what = f"the answer of {command.step} @{command.tool} ({size:,} bytes): write a fake for it"
            self._made.left_out.append(what)
            self._expect(command.tool, command.args)
            return
        self._call(command.tool, command.args, answer=event.value)

    def _call(
        self,
        tool: str,
        args: Mapping[str, JSON] | None,
        answer: JSON = None,
        error: str | None = None,
        kind: str = "",
    ) -> None:
        """Take a call with its outcome; no `args` if they do not matter, `kind` of a failure."""
        call: dict[str, JSON] = {"tool": tool}
        if args is not None and _size(dict(args)) > self._most:
            self._made.left_out.append(f"the arguments of a call of @{tool} ({_size(dict(args)):,} bytes)")
            args = None
        call |= {} if args is None else {"args": dict(args)}
        call |= {"answer": answer} if error is None else {"error": error}
        call |= {"kind": kind} if kind else {}
        self._made.calls.append(call)
        if tool != REPLAN:
            self._expect(tool, args)

    def _expect(self, tool: str, args: Mapping[str, JSON] | None) -> None:
        expected: dict[str, JSON] = {"tool": tool.lower()}
        if args is not None and _size(dict(args)) <= self._most:
            expected["args"] = dict(args)
        self.expected.append(expected)

    def _reply(self, ask: Ask, event: Answered) -> None:
        to = ask.asked.tool.lower() if isinstance(ask.asked, Approval) else headline(ask.asked)
        reply: dict[str, JSON] = {"to": to}
        match event.verdict:
            case Verdict.ANSWER:
                reply["answer"] = event.value
            case Verdict.APPROVE:
                reply["approve"] = True
            case Verdict.DENY:
                reply["approve"] = False
            case Verdict.EXPIRE:
                reply["nobody"] = True
        self.replies.append(reply | ({"by": event.by} if event.by else {}))

    def note(self, note: Note) -> None:
        """Take a note of the machine: the end of a step that a model drove."""
        step = own_id(note.step)
        tool = self._agents.get(step)
        if tool is None or note.kind not in (NoteKind.FINISHED, NoteKind.FAILED):
            return
        if step in self._loops:
            self._made.left_out.append(f"the answers of the agents of {step}, a loop: write fakes for them")
        elif note.kind is NoteKind.FINISHED:
            self._call(tool, None, answer=note.value)
            self._made.left_out.append(f"the calls that the agent of {step} made: its answer stands for them")
        else:
            self._call(tool, None, error=note.detail)
        del self._agents[step]


_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def toml(value: JSON) -> str:
    """A JSON value as an inline value of TOML; null, which TOML has not, as the table `{json = "null"}`.

    >>> toml({"a b": [1, True, None], "c": "x\\n"})
    '{ "a b" = [1, true, { json = "null" }], c = "x\\\\n" }'
    """
    match value:
        case None:
            return '{ json = "null" }'
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) < 1 << 63 else f'{{ json = "{value}" }}'
        case float():
            text = repr(value)
            return text if "." in text or "e" in text else f"{text}.0"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            if value.keys() == {"json"}:
                return f"{{ json = {toml(json.dumps(value, ensure_ascii=False))} }}"
            parts = [
                f"{name if _BARE.match(name) else toml(name)} = {toml(one)}" for name, one in value.items()
            ]
            return f"{{ {', '.join(parts)} }}" if parts else "{}"
