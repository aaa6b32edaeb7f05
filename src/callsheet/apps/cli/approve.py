"""`callsheet approve`: answers a question of a run, or approves or denies a call.

The answer is stored in the inbox of the journal. The process that executes the run reads it there, otherwise
the next `callsheet resume`.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.output import print_json, print_text, to_stderr

if TYPE_CHECKING:
    from callsheet.runtime.answers import Answer, PendingAsk


@dataclass(frozen=True, slots=True)
class ApproveArguments:
    """The options that make up an answer."""

    deny: bool
    text: str | None
    by: str | None
    note: str

    def answer_to(self, ask: PendingAsk) -> Answer:
        """The answer to a request. Raises CallsheetError for a text that does not answer it."""
        from callsheet.runtime.answers import Answer, read_answer  # noqa: PLC0415 - imports the runtime

        by = _user() if self.by is None else self.by
        if self.deny:
            return Answer.deny(by=by, note=self.note)
        if self.text is None:
            return Answer.approve(by=by, note=self.note)
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
    from callsheet.apps.operations.runs import ask_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering import runs  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.inbox import answer_run  # noqa: PLC0415 - as above

    if arguments.deny and arguments.text is not None:
        raise click.UsageError("--deny and --answer cannot be combined")
    is_elsewhere = temporal_runs.runs_on_temporal(journal, run)
    if is_elsewhere:
        ask, owned = temporal_runs.approve_on_temporal(journal, run, arguments.answer_to, which, digest), True
    else:
        with journals.open_journal(journal) as opened:
            run_id = opened.find_run(run).run_id
            ask = answer_run(opened, run_id, arguments.answer_to, which, digest=digest)
            owned = _is_owned(opened.path, run_id)
    if as_json:
        print_json({**ask_json(ask), "run_goes_on": owned})
        return
    *lines, _ = runs.question_lines(ask)
    for line in lines:
        print_text(line)
    word = "denied" if arguments.deny else "approved" if arguments.text is None else "answered"
    next_step = (
        "it continues there"
        if is_elsewhere
        else "its process continues"
        if owned
        else f"continue the run: callsheet resume {ask.run_id}"
    )
    to_stderr(f"{word}; {next_step}{'' if owned else journals.journal_hint(journal)}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _is_owned(journal: Path, run_id: str) -> bool:
    from callsheet.store.journal_paths import (  # noqa: PLC0415 - as above
        is_owned,
        place_of,
    )

    return is_owned(place_of(journal), run_id)
