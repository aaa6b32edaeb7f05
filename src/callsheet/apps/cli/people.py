"""`callsheet inbox`, `approve` and `decide`: what runs need people for, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.arguments import actor_name
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import DECISIONS
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.cli.resume import ResolutionType
from callsheet.apps.cli.runs import shown_status
from callsheet.apps.operations.outcomes import doubts_json, status_of
from callsheet.apps.rendering.runs import doubt_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.runtime.answers import Answer, PendingAsk
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.inbox import Doubts
    from callsheet.runtime.program_question import ProgramQuestion
    from callsheet.store import Journal


@dataclass(frozen=True, slots=True)
class ApproveArguments:
    """The options that make up an answer."""

    deny: bool
    text: str | None
    by: str | None
    note: str
    for_plan: bool
    always: bool
    every: bool
    program: str | None

    def check(self) -> None:
        """Raise click.UsageError for options that cannot be combined."""
        if self.deny and self.text is not None:
            raise click.UsageError("--deny and --answer cannot be combined")
        scopes = [name for name, given in self._scopes().items() if given]
        if len(scopes) > 1:
            raise click.UsageError(f"{' and '.join(scopes)} cannot be combined")
        if scopes and self.text is not None:
            raise click.UsageError(f"{scopes[0]} is for calls, not for questions (--answer)")
        if self.deny and (self.for_plan or self.always or self.program):
            raise click.UsageError(f"--deny and {scopes[0]} cannot be combined: a no counts once")

    def _scopes(self) -> dict[str, bool]:
        scopes = {"--for-plan": self.for_plan, "--always": self.always, "--all": self.every}
        return {**scopes, "--program": self.program is not None}

    def answer_to(self, ask: PendingAsk) -> Answer:
        """The answer to a request. Raises CallsheetError for a text that does not answer it."""
        from callsheet.runtime.answers import Answer, read_answer  # noqa: PLC0415 - imports the runtime

        by = actor_name(self.by)
        if self.deny:
            return Answer.deny(by=by, note=self.note)
        if self.text is None:
            return Answer.approve(by=by, note=self.note, for_program=self.program or "")
        return Answer.of(read_answer(ask, self.text), by=by, note=self.note)


_answer_options = options.grouped(
    "arguments",
    ApproveArguments,
    deny=click.option("--deny", is_flag=True, help="Deny the call: it is not made, and the step fails."),
    text=click.option("--answer", "text", metavar="JSON|TEXT", help="The answer to a question."),
    by=click.option(
        "--by", metavar="NAME", help="The name of the person who answers; default: the current user."
    ),
    note=click.option("--note", default="", metavar="TEXT", help="A note that is recorded with the answer."),
    for_plan=click.option(
        "--for-plan",
        is_flag=True,
        help="Approve further calls of this step in this run too, if all is equal that decides what they do.",
    ),
    always=click.option(
        "--always",
        is_flag=True,
        help="Approve this call, and propose the line of the policy under which its recipients are trusted.",
    ),
    program=click.option(
        "--program",
        metavar="HASH",
        help="Approve this call and those of the plan that `callsheet inbox` shows with this hash.",
    ),
    every=click.option("--all", "every", is_flag=True, help="Answer all calls of STEP or RUN that wait."),
)


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("which", metavar="[STEP|KEY]", required=False)
@_answer_options
@click.option("--digest", metavar="HASH", help="Answer only if the pending request has this digest.")
@journals.journal_path
@options.as_json
def approve(
    run: str,
    which: str | None,
    arguments: ApproveArguments,
    digest: str | None,
    journal: Path | None,
    as_json: bool,
) -> None:
    """Approve a call that RUN waits for, or answer a question with --answer; --deny refuses.

    RUN is a run id, a unique prefix of one, or `last`. STEP or KEY (see `callsheet inbox`) selects the
    request; it is optional if only one is pending. An answer is used once, and only for the request that was
    shown.

    \b
    Examples:
      callsheet approve last
      callsheet approve last S3 --answer yes --note "checked with Ada"
      callsheet approve last --deny
    """
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - as above
    from callsheet.apps.operations.asks import ask_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering import runs  # noqa: PLC0415 - imports the runtime

    arguments.check()
    is_elsewhere = temporal_runs.runs_on_temporal(journal, run)
    if is_elsewhere and (arguments.for_plan or arguments.every or arguments.program):
        raise click.UsageError(
            "--for-plan, --program and --all are not for runs on Temporal: answer each call"
        )
    remarks: list[str] = []
    asks: list[PendingAsk]
    if is_elsewhere:
        asks = [temporal_runs.approve_on_temporal(journal, run, arguments.answer_to, which, digest)]
        owned = True
    else:
        with journals.open_recorded(journal) as opened:
            run_id = opened.find_run(run).run_id
            asks, remarks = _answer(opened, run_id, arguments, which, digest)
            owned = _is_owned(opened.path, run_id)
    ask = asks[0]
    if as_json:
        rows = [{**ask_json(each), "run_goes_on": owned} for each in asks]
        print_json(rows if arguments.every else {**rows[0], **({"remarks": remarks} if remarks else {})})
        return
    for each in asks:
        *lines, _ = runs.question_lines(each)
        for line in lines:
            print_text(line)
    for remark in remarks:
        print_text(remark)
    word = "denied" if arguments.deny else "approved" if arguments.text is None else "answered"
    next_step = (
        "it continues there"
        if is_elsewhere
        else "its process continues"
        if owned
        else f"continue the run: callsheet resume {ask.run_id}"
    )
    to_stderr(f"{word}; {next_step}{'' if owned else journals.journal_hint(journal)}")


def _answer(
    journal: Journal, run_id: str, arguments: ApproveArguments, which: str | None, digest: str | None
) -> tuple[list[PendingAsk], list[str]]:
    """Leave the answer; gives the questions that it answers, and what else there is to say."""
    from callsheet.runtime import inbox as requests  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.answers import Answer  # noqa: PLC0415 - as above
    from callsheet.runtime.precedents import policy_line  # noqa: PLC0415 - as above

    by = actor_name(arguments.by)
    approval = Answer.approve(by=by, note=arguments.note)
    if arguments.every:
        answer = Answer.deny(by=by, note=arguments.note) if arguments.deny else approval
        return requests.approve_all(journal, run_id, answer, which, digest=digest), []
    if arguments.for_plan:
        answer = replace(approval, for_plan=True)
        ask = requests.answer_run(journal, run_id, answer, which, digest=digest)
        return [ask], [f"approved for this plan: {requests.covered_by(journal, ask)[1]}"]
    ask = requests.answer_run(journal, run_id, arguments.answer_to, which, digest=digest)
    if not arguments.always:
        return [ask], []
    policy = requests.policy_of_run(journal, run_id)
    line = None if policy is None else policy_line(policy, ask.tool, ask.args or {})
    if line is None:
        return [ask], ["no line of a policy can say this of its recipients: only this call is approved"]
    said = "with these lines in the policy, later runs do not ask about these recipients"
    return [ask], [f"{said} (this run keeps its policy):", *line.splitlines()]


def _is_owned(journal: Path, run_id: str) -> bool:
    from callsheet.store.journal_paths import (  # noqa: PLC0415 - as above
        is_owned,
        place_of,
    )

    return is_owned(place_of(journal), run_id)


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("calls", nargs=-1, metavar=f"[CALL... {DECISIONS}]")
@click.option("--all", "all_calls", is_flag=True, help="Apply the decision to all calls in doubt of a step.")
@journals.journal_path
@options.as_json
def decide(run: str, calls: tuple[str, ...], all_calls: bool, journal: Path | None, as_json: bool) -> int:
    """Decide about calls of RUN that are in doubt: sent, but without a recorded answer.

    RUN is a run id, a unique prefix of one, or `last`. CALL is a key as `callsheet show` prints it, or a step
    with one call in doubt. Without CALL the calls in doubt are listed.

    \b
    retry       make the call again
    skip        continue as if the call had returned null
    fail        treat the call as failed
    value=JSON  continue with this result of the call

    No tool is called and no server is started: `callsheet resume RUN` continues the run. The exit status is 4
    as long as calls are undecided.

    \b
    Examples:
      callsheet decide last
      callsheet decide last S3 retry
      callsheet decide last S3.0.1 'value={"id": 7}'
    """
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - not for --help

    if not calls:
        temporal_runs.refresh_copies(journal, run)
        return _list(run, journal, as_json=as_json)
    if len(calls) == 1:
        raise click.UsageError(f"give a call and a decision: decide RUN CALL {DECISIONS}")
    verdict = ResolutionType().convert(calls[-1], None, None)
    if temporal_runs.runs_on_temporal(journal, run):
        outcome = temporal_runs.decide_on_temporal(journal, run, calls[:-1], verdict, all_calls=all_calls)
    else:
        from callsheet.api import run_service  # noqa: PLC0415 - not for --help
        from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above

        with journals.open_recorded(journal) as opened:
            run_id = opened.find_run(run).run_id
            outcome = run_async(run_service.decide(opened, run_id, calls[:-1], verdict, every=all_calls))
    return _report(outcome, journals.journal_hint(journal), as_json=as_json)


def _list(run: str, path: Path | None, *, as_json: bool) -> Exit:
    from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run  # noqa: PLC0415 - as above
    from callsheet.store.pauses import pause_of  # noqa: PLC0415 - as above

    with journals.open_to_read(path) as opened:
        info = opened.find_run(run)
        status = shown_status(opened, info)
        folded = fold_run(opened, info.run_id, opened.plan_of(info.plan_hash))
        waits = folded.machine.result is None and status != "running"
        in_doubt = doubtful_calls(folded) if waits else ()
        outcome = RunOutcome(info.run_id, folded.machine.result, in_doubt, pause=pause_of(opened, info))
    if status == "running" and not as_json:
        to_stderr(
            "a process executes the run; calls that it leaves in doubt can be decided after it has stopped"
        )
        return Exit.OK
    return _report(outcome, journals.journal_hint(path), as_json=as_json)


def _report(outcome: RunOutcome, hint: str, *, as_json: bool) -> Exit:
    """Print the status of the run and return the exit status."""
    result, undecided = outcome.result, outcome.in_doubt
    with ignoring_broken_pipe():
        if as_json:
            print_json(doubts_json(outcome.run_id, status_of(outcome), undecided))
        elif undecided:
            for line in doubt_lines(undecided, outcome.run_id, hint):
                print_text(line)
        elif result is None:
            to_stderr(f"no call is in doubt; continue the run: callsheet resume {outcome.run_id}{hint}")
        else:
            to_stderr(f"the run has ended: {result.status}; callsheet show {outcome.run_id}{hint}")
    return Exit.UNDECIDED if undecided else Exit.OK


@click.command()
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def inbox(journal: Path | None, as_json: bool) -> None:
    """List what runs need people for, oldest first: questions, calls that need approval, calls in doubt.

    `callsheet approve` answers a question, `callsheet decide` decides about a call in doubt.
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - as above
    from callsheet.apps.operations.asks import ask_json  # noqa: PLC0415 - as above
    from callsheet.apps.operations.runs import run_doubt_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering import runs  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.rendering.runs import doubt_lines  # noqa: PLC0415 - as above

    refresh_copies(journal)
    pending, doubts, precedents, programs = _pending(journal)
    with ignoring_broken_pipe():
        if as_json:
            in_doubt = [run_doubt_json(run_id, call) for run_id, calls in doubts.items() for call in calls]
            print_json([*(ask_json(ask, programs.get(ask.digest)) for ask in pending), *in_doubt])
            return
        hint = journals.journal_hint(journal)
        blocks: list[Iterable[str]] = [
            [*lines, *_together(ask, pending, hint)]
            for ask, lines in runs.questions_lines(pending, hint, precedents, programs)
        ]
        blocks += [[f"run {run_id}", *doubt_lines(calls, run_id, hint)] for run_id, calls in doubts.items()]
        if not blocks:
            click.echo("no pending requests")
        for number, block in enumerate(blocks):
            if number:
                click.echo()
            for line in block:
                print_text(line)


def _together(ask: PendingAsk, pending: list[PendingAsk], hint: str) -> list[str]:
    """After the last of several calls of a step: the command that approves exactly these."""
    from callsheet.runtime.inbox import digest_of_all  # noqa: PLC0415 - imports the runtime

    place = ask.run_id, ask.step, "approval", False
    alike = [each for each in pending if (each.run_id, each.step, each.kind, each.is_answered) == place]
    if len(alike) < 2 or alike[-1] is not ask:
        return []
    digest = digest_of_all(alike)
    return [f"  all {len(alike)}: callsheet approve {ask.run_id} {ask.step} --all --digest {digest}{hint}"]


def _pending(
    path: Path | None,
) -> tuple[list[PendingAsk], Doubts, dict[str, str], dict[str, ProgramQuestion]]:
    """All pending questions, calls in doubt, and by digest what was approved before and what will be asked.

    None of them if the default journal does not exist yet.
    """
    from callsheet.runtime import inbox  # noqa: PLC0415 - as above
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    if path is None and is_absent(default_journal_path()):
        return [], {}, {}, {}
    with journals.open_to_read(path) as opened:
        asks = inbox.inbox(opened)
        programs = inbox.programs_of(opened, asks)
        return asks, inbox.calls_in_doubt(opened), inbox.precedents_of(opened, asks), programs
