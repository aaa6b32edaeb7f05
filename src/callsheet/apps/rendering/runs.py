"""Events, failed steps, origins, questions and calls in doubt of a run as text, the same everywhere."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.values import (
    escape_terminal_text,
    exact_json,
    format_seconds,
    iso,
    preview,
    without_controls,
)
from callsheet.diagnostics import CODES
from callsheet.lazy import dataclass
from callsheet.machine import Outcome
from callsheet.sealing.sealer import shown

if TYPE_CHECKING:
    from callsheet.ir import JSON
    from callsheet.machine.forecasting import Foreseen
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.runtime.program_question import FurtherCall, ProgramQuestion
    from callsheet.store.events import Event
    from callsheet.views.call_site import CallSite
    from callsheet.views.describe import Wording


def event_line(event: Event) -> str:
    """An event on one line: number, time, type, key, the beginning of its body."""
    body = "" if event.body is None else preview(shown(event.body), 100)
    return f"{event.seq:>6}  {iso(event.ts)}  {event.type:<8} {event.key or '':<12} {body}".rstrip()


def now_line(doing: str) -> str:
    """What a run does at this moment, as a line between those of events."""
    return f"{'':>6}  {iso(time.time())}  {'now':<8} {doing}"


def count_events(count: int) -> str:
    """The number of events with the noun.

    >>> count_events(1), count_events(2)
    ('1 event', '2 events')
    """
    return f"{count} event{'' if count == 1 else 's'}"


_NAMED = 5
"""How many of the steps are named."""


def failures_line(steps: Sequence[str]) -> str:
    """A line on a run that is done with failures: it names the first of the steps; `steps` is not empty.

    >>> failures_line(["S1", "S4"])
    'done with failures: S1, S4 failed and the plan went on (ON_FAIL decides whether it does)'
    """
    return f"{Outcome.DONE_WITH_FAILURES.words}: {failed_steps_words(steps)}"


def failed_steps_words(steps: Sequence[str]) -> str:
    """As `failures_line`, without the outcome.

    >>> failed_steps_words(["S1"])
    'S1 failed and the plan went on (ON_FAIL decides whether it does)'
    """
    more = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    named = without_controls(", ".join(steps[:_NAMED]))
    return f"{named}{more} failed and the plan went on (ON_FAIL decides whether it does)"


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The run and event that a run was branched off at, the command (`verb`), its author and the edits."""

    run_id: str
    event: int
    verb: str
    place: str
    by: str
    edits: tuple[Mapping[str, Any], ...]
    keeps: bool = False
    """Whether it keeps the calls of that run by their content, under another plan or from a step on."""
    failed_items: bool = False
    """Whether it makes the failed items of loops of that run again."""

    def describe(self) -> str:
        """The origin as text."""
        what = f"rerun from {self.place}" if self.verb == "rerun" and self.place else "forked"
        if self.failed_items:
            what = "rerun of its failed items"
        elif self.keeps:
            what = f"{self.verb} with the calls that it keeps" + (
                f", from {self.place}" if self.place else ""
            )
        who = f" by {self.by}" if self.by else ""
        edits = "".join(f"; {_edit(edit)}" for edit in self.edits)
        return f"{self.run_id} after event {self.event}, {what}{who}{edits}"

    def to_json(self) -> dict[str, Any]:
        """The origin as JSON data."""
        return {
            "run_id": self.run_id,
            "event": self.event,
            "verb": self.verb,
            "step": self.place or None,
            "by": self.by,
            "edits": [dict(edit) for edit in self.edits],
        }


def origin_of(start: Mapping[str, Any] | None) -> ForkOrigin | None:
    """The origin in the body of a first event; None for a run that was not branched off."""
    fork = (start or {}).get("fork")
    if fork is None:
        return None
    return ForkOrigin(
        str(fork["run"]),
        int(fork["event"]),
        str(fork["verb"]),
        str(fork.get("from", "")),
        str(fork.get("by", "")),
        tuple(fork.get("edits", ())),
        bool(fork.get("keeps")),
        bool(fork.get("failed_items")),
    )


def _edit(edit: Mapping[str, Any]) -> str:
    if "set" in edit:
        return f"${edit['set']} set"
    if "args" in edit:
        return f"{edit['args']} = {preview(edit['value'], 60)}"
    return f"{edit['replace']} replaced: {preview(edit['line'], 60)}"


_DECISIONS = (
    ("retry", "make the call again"),
    ("skip", "continue as if it had returned null"),
    ("fail", "treat it as failed"),
    ("'value=…'", "it took place and returned this (JSON)"),
)


def pending_call_lines(calls: Sequence[DoubtfulCall]) -> list[str]:
    """The calls that were sent without an answer, each with its arguments and start time."""
    if not calls:
        return []
    subject = "1 call was sent" if len(calls) == 1 else f"{len(calls)} calls were sent"
    it = "it" if len(calls) == 1 else "each"
    lines = [f"{subject} without an answer; whether {it} took place is unknown:"]
    now = time.time()
    for call in calls:
        args = ", ".join(f"{name}={preview(value, 80)}" for name, value in call.args.items())
        attempt = f", attempt {call.attempt}" if call.attempt > 1 else ""
        ago = format_seconds(max(0.0, now - call.since))
        lines.append(
            f"  {call.key}  {_tool_name(call.tool)} ({args})  started {iso(call.since)} ({ago} ago{attempt})"
        )
        lines.append(f"    {_shorten_middle(call.why)}")
    return lines


def _tool_name(tool: str) -> str:
    return tool if tool == "RE-PLAN" else f"@{tool}"


def _shorten_middle(why: str) -> str:
    """A reason on one line; the middle of a long one is cut, since its end has a server's last output.

    >>> _shorten_middle("it ended; it last wrote:\\n" + "noise " * 100 + "fatal: no disk")[-25:]
    'oise noise fatal: no disk'
    """
    text = preview(why, len(why))
    return text if len(text) <= 200 else f"{text[:90]} … {text[-107:]}"


def doubt_lines(calls: Sequence[DoubtfulCall], run_id: str, hint: str) -> list[str]:
    """The calls in doubt, and the commands that resolve them."""
    lines = pending_call_lines(calls)
    which = shlex.quote(calls[0].key) if len(calls) == 1 else "KEY"
    commands = [
        (f"callsheet decide {run_id} {which} {decision}{hint}", means) for decision, means in _DECISIONS
    ]
    width = max(len(command) for command, _ in commands)
    return [
        *lines,
        "check whether it did, then decide:",
        *(f"  {command:<{width}}  {means}" for command, means in commands),
        f"then resume: callsheet resume {run_id}{hint}",
        f"all at once: callsheet resume {run_id}{hint} --in-doubt retry (or skip, fail, 'value=…')",
    ]


def unanswered_lines(calls: Sequence[DoubtfulCall], run_id: str, hint: str) -> list[str]:
    """The calls without an answer of their model, the reasons, and the commands to continue."""
    lines = [f"{call.key}  {_tool_name(call.tool)} has no answer: {preview(call.why, 400)}" for call in calls]
    codes = dict.fromkeys(code for call in calls if (code := call.why.partition(":")[0]) in CODES)
    key = shlex.quote(calls[0].key) if len(calls) == 1 else "KEY"
    return [
        *lines,
        *(f"what to do about it: callsheet explain {code}" for code in codes),
        f"nothing is lost; ask again with: callsheet resume {run_id}{hint} (--model asks another one)",
        f"or continue without: callsheet decide {run_id} {key} skip{hint} (or fail, 'value=…'), then resume",
    ]


def question_lines(
    ask: PendingAsk,
    hint: str = "",
    precedent: str | None = None,
    program: ProgramQuestion | None = None,
) -> Iterator[str]:
    """The question, and last the command that answers it.

    `hint` is that command's option for the journal, `precedent` what an earlier run was approved for,
    `program` what the plan will ask besides.
    """
    from callsheet.runtime.answers import misleading_letters, origins  # noqa: PLC0415 - brings the machine

    until = "" if ask.until is None else f", until {iso(ask.until)}"
    yield f"{ask.run_id}  {ask.key}  since {iso(ask.since)}{until}"
    if ask.kind == "approval":
        if ask.answer:
            yield f"  may the answer of {ask.tool_as_written} be used?"
            yield f"    {exact_json(ask.answer[0])}"
            yield "  it was called with"
        else:
            yield f"  may {ask.tool_as_written} be called with exactly this?"
        for number, value in enumerate(ask.inputs, start=1):
            yield f"    ({number}) {exact_json(value)}"
        for name, value in (ask.args or {}).items():
            yield from _argument_lines(name, value)
        for line in misleading_letters(ask):
            yield f"  {_without_lines(line)}"
        if not ask.args and not ask.inputs:
            yield "    (no arguments)"
        yield from site_lines(ask.site)
        for why in ask.reasons:
            yield f"  because {_without_lines(why)}"
        for line in origins(ask):
            yield f"  {_without_lines(line)}"
        if precedent is not None:
            yield from _note_lines(precedent)
    else:
        for line in without_controls(ask.prompt).splitlines() or [""]:
            yield f"  {line}"
        if ask.options:
            yield "    one of " + ", ".join(map(exact_json, ask.options))
        if ask.schema is not None:
            yield f"    JSON of the schema {exact_json(dict(ask.schema))}"
    yield from () if program is None else _program_lines(ask, program, hint)
    yield f"  {_command(ask, hint)}"


def questions_lines(
    asks: Sequence[PendingAsk],
    hint: str = "",
    precedents: Mapping[str, str] | None = None,
    programs: Mapping[str, ProgramQuestion] | None = None,
) -> Iterator[tuple[PendingAsk, list[str]]]:
    """Each question with its lines; what is common to several of a run is shown with its first one only.

    `precedents` and `programs` are by digest of a question, as in `question_lines`. A question about a call
    that stands in the list of an earlier one, marked +, has two lines: that list shows all of the call.
    """
    shown: dict[str, frozenset[str]] = {}
    for ask in asks:
        program = None if programs is None else programs.get(ask.digest)
        precedent = None if precedents is None else precedents.get(ask.digest)
        covered = shown.get(ask.run_id)
        if covered is None and program is not None:
            shown[ask.run_id] = frozenset(call.key for call in program.covered)
        elif covered is not None:
            program = None
        if covered is not None and ask.kind == "approval" and ask.key in covered and not ask.is_answered:
            head = f"{ask.run_id}  {ask.key}  since {iso(ask.since)}, shown above with +"
            notes = () if precedent is None else _note_lines(precedent)
            yield ask, [head, *notes, f"  {_command(ask, hint)}"]
        else:
            yield ask, [*question_lines(ask, hint, precedent, program)]


def site_lines(site: CallSite | None, margin: str = "  ") -> Iterator[str]:
    """The lines of the plan in which a call stands, below the conditions around it."""
    if site is None:
        return
    yield f"{margin}by these lines of the plan:"
    for number, text in site.lines:
        yield f"{margin}  {number or '':>4}| {escape_terminal_text(text)}"


_SEVERAL = 4
"""From as many lines on a text is shown line by line."""


def _argument_lines(name: str, value: JSON) -> Iterator[str]:
    """An argument as JSON; a text of several lines by its numbered lines, since nobody reads it otherwise."""
    lines = value.split("\n") if isinstance(value, str) else []
    if len(lines) < _SEVERAL:
        yield f"    {_argument_name(name)} = {exact_json(value)}"
        return
    yield f"    {_argument_name(name)} ="
    for number, line in enumerate(lines, 1):
        yield f"    {number:>4}| {escape_terminal_text(line)}".rstrip()


def _note_lines(precedent: str) -> Iterator[str]:
    first, *rest = precedent.split("\n")
    yield f"  note: {without_controls(first)}"
    yield from (f"    {escape_terminal_text(line)}" for line in rest)


def _argument_name(name: str) -> str:
    """A name as it is, or as JSON: who chooses it may not write lines or other arguments of the question."""
    return name if name.isascii() and name.replace("-", "_").isidentifier() else exact_json(name)


def _without_lines(text: str) -> str:
    return " ".join(without_controls(text).splitlines())


def _program_lines(ask: PendingAsk, program: ProgramQuestion, hint: str) -> Iterator[str]:
    yield from program_lines(program, ask.site)
    yield f"  callsheet approve {ask.run_id} '{ask.key}'{hint} --program {program.digest}"
    yield "    approves this call and those marked + as they are shown, each once"


def program_lines(program: ProgramQuestion, beside: CallSite | None = None) -> Iterator[str]:
    """The further calls of a plan that will ask: marked with + if a yes covers them, else why it does not.

    A value is JSON, so what a text contains is always between quotes; what is not known yet is in ‹ ›,
    outside of them. Where several stand at one place, its lines are with the first; those of `beside` are
    shown already.
    """
    shown = {beside, None}
    from callsheet.runtime.answers import named_as_written  # noqa: PLC0415 - brings the machine

    count = len(program.calls) + program.more
    calls = "1 further call that asks" if count == 1 else f"{count} further calls that ask"
    yield f"  after it, this plan makes {calls}:"
    for call in program.calls:
        where = call.key.removesuffix(".1") or call.step
        sure = "" if call.is_sure else ", if it comes to that"
        mark = "+" if call.alone is None else "?"
        yield f"  {mark} {without_controls(where)} {call.words.tool(call.tool)}{sure}"
        for name, value in call.arguments:
            yield f"      {_argument_name(name)} = {partial_json(value, call.words)}"
        for line in misleading_in(call):
            yield f"      {line}"
        if call.site not in shown:
            shown.add(call.site)
            yield from site_lines(call.site, "      ")
        for why in call.why:
            yield f"      because {_on_one_line(named_as_written(call.site, call.tool, why))}"
        if call.alone is not None:
            yield f"      asks by itself: {_on_one_line(call.alone)}"
    if program.more:
        yield f"  and {program.more} more, which ask by themselves"


def misleading_in(call: FurtherCall) -> Iterator[str]:
    """A line for each argument of a further call with words that read as others than they are."""
    from callsheet.frontends.unseen import lookalikes  # noqa: PLC0415 - only where a plan asks

    for name, value in call.arguments:
        if words := lookalikes(_known_parts(value)):
            yield _without_lines(f"{name} has letters that look like Latin ones: {', '.join(words)}")


def _known_parts(value: Foreseen) -> JSON:
    """What is known of a value."""
    from callsheet.machine.forecasting import Fields, Items, Text, Unknown  # noqa: PLC0415 - as above

    match value:
        case Unknown():
            return None
        case Text(parts=parts) | Items(items=parts):
            return [_known_parts(each) for each in parts]
        case Fields(pairs=pairs):
            return {key: _known_parts(each) for key, each in pairs}
        case _:
            return value


def _on_one_line(text: str) -> str:
    return exact_json(text)[1:-1].replace('\\"', '"')


def partial_json(value: Foreseen, words: Wording) -> str:
    """A value as `exact_json` shows it, with ‹ › around what is not known yet.

    >>> from callsheet.machine.forecasting import Items, Text, Unknown
    >>> from callsheet.views.describe import LTP
    >>> partial_json(Items(("‹x›", Text(("Hello ", Unknown("READ result", "S1"))))), LTP)
    '["‹x›", "Hello " + ‹READ result›]'
    """
    from callsheet.machine.forecasting import Fields, Items, Text, Unknown  # noqa: PLC0415 - as above
    from callsheet.views.dry_run import unknown_text  # noqa: PLC0415 - as above

    match value:
        case Unknown():
            return f"‹{exact_json(unknown_text(value, words)[1:-1])[1:-1].replace('‹', '').replace('›', '')}›"
        case Text(parts=parts):
            return " + ".join(partial_json(part, words) for part in parts)
        case Items(items=items):
            return f"[{', '.join(partial_json(item, words) for item in items)}]"
        case Fields(pairs=pairs):
            shown = (f"{exact_json(key)}: {partial_json(each, words)}" for key, each in pairs)
            return f"{{{', '.join(shown)}}}"
        case _:
            return exact_json(value)


def _command(ask: PendingAsk, hint: str) -> str:
    if ask.is_answered:
        return f"answered; continue with: callsheet resume {ask.run_id}{hint}"
    if ask.until is not None and time.time() >= ask.until:
        return f"its time has run out; continue without an answer: callsheet resume {ask.run_id}{hint}"
    if ask.role:
        return f"only somebody with the role {ask.role} may answer: at `callsheet serve --people FILE`"
    needs_more = bool(ask.options) or ask.schema is not None
    answer = " --answer …" if needs_more else "" if ask.kind == "approval" else " [--answer …]"
    more = "" if ask.kind == "question" or ask.answer else ", or --for-plan for calls like it"
    return f"callsheet approve {ask.run_id} {shlex.quote(ask.key)}{hint}{answer}   or with --deny{more}"
