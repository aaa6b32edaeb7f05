"""`callsheet distil`: a Python plan from what a model did in sessions, agents' runs and transcripts."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import is_terminal, print_json, print_text, to_stderr
from callsheet.apps.rendering.values import preview
from callsheet.diagnostics import CallsheetError
from callsheet.machine.values import to_json_text

if TYPE_CHECKING:
    from callsheet.api.distillation import Distillation, Question
    from callsheet.apps.operations.printed_rows import DistilledRuns, OpenReading
    from callsheet.authoring.distillation.recorded_calls import RecordedWork
    from callsheet.ir import Effect


class _Open(Exception):
    """A question that nobody here answers."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.place)
        self.question = question


@click.command()
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@options.output("The file of the plan, which must not exist; default: standard output.")
@click.option("--ask", is_flag=True, help="Ask which reading is meant of what the runs leave open.")
@click.option(
    "--answer", "given", multiple=True, metavar="PLACE=NUMBER",
    help="The answer to a question of --ask, which it implies; may be repeated.",
)  # fmt: skip
@journals.journal_path
@options.as_json
def distil(
    run_ids: tuple[str, ...],
    output: Path | None,
    ask: bool,
    given: tuple[str, ...],
    journal: Path | None,
    as_json: bool,
) -> int:
    """Make a Python plan from RUN, a session of a gate or an agent: the calls that led to its end.

    What was copied or computed from earlier results becomes an expression, what repeats a loop, what the user
    said an input; what nothing explains is an input too. The plan is run on the recorded answers before it is
    written, and has to make the recorded calls again. RUN is a run id, a unique prefix of one, or `last`; or
    a file of another program: a transcript of Claude Code, messages of the Anthropic or OpenAI API, or an
    OpenTelemetry export in JSON with tool calls. Of several runs of one job the plan repeats each, which
    decides what a single one leaves open: name two or three.

    Without a terminal, or with --json, --ask prints the first question that no --answer is for, and the exit
    status is 4.
    """
    from callsheet.api.distillation import distil_all, recorded  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.cli.compile import write_plan_text  # noqa: PLC0415 - not for --help
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415
    from callsheet.authoring.distillation.recorded_calls import work_in_transcript  # noqa: PLC0415
    from callsheet.store.errors import JournalError  # noqa: PLC0415
    from callsheet.store.journal_paths import may_begin_run_id  # noqa: PLC0415

    if output is not None and output.exists():
        raise CallsheetError.single("CFG012", f"{output} exists already", help="name another file")
    answers = _answers(given)
    is_asked_here = is_terminal(sys.stdin) and not as_json

    def answer(question: Question) -> int:
        number = answers.pop(question.place, None)
        if number is None and not is_asked_here:
            raise _Open(question)
        return _asked(question) if number is None else _within(number, question)

    files = {one: _transcript(one) for one in run_ids if Path(one).is_file() or not may_begin_run_id(one)}
    works: list[RecordedWork] = []
    effects: dict[str, Effect] = {}
    names: list[str] = []
    for one in run_ids:
        if one in files:
            works.append(work_in_transcript(files[one], Path(one).name))
            names.append(f"the agent in {Path(one).name}")
            continue
        try:
            with journals.open_to_read(journal) as opened:
                work, known, name = recorded(opened, one)
        except JournalError as error:
            if "." in one and error.diagnostics[0].code in ("JRN002", "JRN010"):
                _transcript(one)  # which is not there, and more likely meant than a run
            raise
        works.append(work)
        effects |= known
        names.append(name)
    try:
        made = run_async(distil_all(works, effects, names, answer if ask or given else None, _searched))
    except _Open as unanswered:
        _print_open(unanswered.question, as_json=as_json)
        return Exit.UNDECIDED
    if answers:
        raise CallsheetError.single(
            "CFG010", f"no question is about {next(iter(answers))}", help="leave out its --answer"
        )
    if output is not None:
        write_plan_text(output, made.plan.text)
    if as_json:
        print_json(_row(made))
        return Exit.OK
    if output is None:
        print_text(made.plan.text)
    for line in _told(made, output):
        to_stderr(line)
    return Exit.OK


def _answers(given: tuple[str, ...]) -> dict[str, int]:
    """The numbers of the readings that are meant, by place; raises CallsheetError (CFG010) for others."""
    found: dict[str, int] = {}
    for one in given:
        parts = re.fullmatch(r"(.+)=0*([1-9][0-9]{0,8})", one)
        if parts is None:
            help_ = "write it as the question says, such as --answer SEND_MAIL.to#1=2"
            raise CallsheetError.single("CFG010", f"{one!r} is no answer to a question", help=help_)
        found[parts[1]] = int(parts[2])
    return found


def _within(number: int, question: Question) -> int:
    if number > len(question.options):
        what = f"{question.place} has {len(question.options)} readings, and none with the number {number}"
        raise CallsheetError.single("CFG010", what, help="leave out the --answer: the question shows them")
    return number - 1


def _print_open(question: Question, *, as_json: bool) -> None:
    if as_json:
        row: OpenReading = {
            "place": question.place,
            "value": question.value,
            "readings": [*question.options],
        }
        print_json({"ok": False, "question": row})
        return
    for line in _question(question):
        to_stderr(line)
    to_stderr(f"answer it: --answer {shlex.quote(f'{question.place}=NUMBER')}")


def _row(made: Distillation) -> DistilledRuns:
    plan = made.plan
    return {
        "ok": True,
        "plan": plan.text,
        "inputs": plan.inputs,
        "reasons": plan.reasons,
        "readings": [*plan.readings],
        "stops": [*plan.stops],
        "calls": len(made.calls),
        "left_out": made.left_out,
        "failed": [*made.work.failed],
        "runs": made.runs,
    }


def _transcript(name: str) -> str:
    try:
        return Path(name).read_text("utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or str(error)
        help_ = "name a run of the journal (`callsheet runs`), or a file of messages with tool calls"
        raise CallsheetError.single("CFG012", f"{name} cannot be read: {reason}", help=help_) from error


def _searched(what: str) -> None:
    to_stderr(f"looks for {what}")


def _question(question: Question) -> list[str]:
    """A question with its readings."""
    tool, _, argument = question.place.partition("#")[0].rpartition(".")
    what = f"{argument} of {tool.lower()}" if tool else f"the {argument}"
    value = "" if question.value is None else f" = {preview(question.value)}"
    readings = (f"  {number}  {option}" for number, option in enumerate(question.options, 1))
    return [f"{what}{value}: which is meant?", *readings]


def _asked(question: Question) -> int:
    """Ask in the terminal which reading is meant."""
    for line in _question(question):
        to_stderr(line)
    return click.prompt("number", type=click.IntRange(1, len(question.options)), default=1, err=True) - 1


def _told(made: Distillation, output: Path | None) -> list[str]:
    """What is in the plan and what is not, and how it is run with the inputs of the recorded run."""
    count = len(made.calls)
    lines = [f"verified: on the recorded answers it makes the same {count} call{'' if count == 1 else 's'}"]
    if made.runs > 1:
        lines.append(f"confirmed by {made.runs} runs")
    if made.left_out:
        lines.append(f"left out, since nothing came of them: {', '.join(made.left_out)}")
    if made.work.failed:
        lines.append(f"left out, since they gave no result: {', '.join(made.work.failed)}")
    for name, reason in made.plan.reasons.items():
        given = json.dumps(made.plan.inputs[name], ensure_ascii=False)
        lines.append(f"input {name} = {preview(given, 80)}: {reason}")
    lines += [f"to read: {reading}" for reading in made.plan.readings]
    lines += [f"stops unless {condition}" for condition in made.plan.stops]
    if output is not None:
        given = " ".join(
            f"--var {shlex.quote(f'{name}={to_json_text(value)}')}"
            for name, value in made.plan.inputs.items()
        )
        lines.append(f"again: callsheet run {shlex.quote(str(output))} {given}".rstrip())
    return lines
