"""`callsheet lctl emit`: a run of the journal as an LCTL document."""

from __future__ import annotations

from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.lctl.saving import save
from callsheet.apps.cli.options import folded
from callsheet.apps.cli.output import may_stay_unread, print_json, print_text, say
from callsheet.trace.lctl.write import to_data, write


def _moment_of(at: str | None, step: str | None) -> str | int | None:
    """The event, or the step, after which a run is told."""
    if at is not None and step is not None:
        raise click.UsageError("--at and --step name two moments: leave one out")
    if at is None:
        return step
    return int(at) if at.isascii() and at.isdigit() else at


_moment = folded(
    "moment",
    _moment_of,
    at=click.option("--at", metavar="SEQ", help="After the event of this number; or after a step: --at S3."),
    step=click.option("--step", metavar="STEP", help="After the last visit of STEP, or the visit S3@2."),
)


@click.command()
@click.argument("run", metavar="RUN")
@_moment
@click.option("--debug", is_flag=True, help="The post-mortem, also of a run that did not fail.")
@click.option("--handoff", is_flag=True, help="The hand-off, also of a run that failed.")
@click.option("--items", is_flag=True, help="A fact for each result of a FOREACH too: F5-0, F5-1, …")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to FILE.", metavar="FILE"
)
@options.journal_path
@options.as_json
def emit(
    run: str,
    moment: str | int | None,
    debug: bool,
    handoff: bool,
    items: bool,
    output: Path | None,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write RUN, an id, the beginning of one, or `last`, as an LCTL document.

    Where the run stands, or after a step or an event: facts for the values of variables, with what each is
    worth and why, and those that are still needed as critical ones. Of a run that failed it is the
    post-mortem. The exit status is 1 where the chain of the run's events is broken: nothing is written then.
    """
    from callsheet.runtime.telling import lctl_of  # noqa: PLC0415 - brings the runtime

    if debug and (moment is not None or handoff):
        raise click.UsageError("--debug tells the whole run: leave out --at, --step and --handoff")
    with options.open_to_read(journal) as opened:
        info = opened.find_run(run)
        bad = opened.verify(info.run_id)
        if bad is not None:
            say(f"run {info.run_id}: CHAIN BROKEN at event {bad.seq}: {bad.why}")
            return Exit.FAILED
        is_debug = True if debug else False if handoff else None
        document = lctl_of(opened, info.run_id, moment, debug=is_debug, with_items=items)
    text = write(document)
    with may_stay_unread():
        if output is not None:
            save(output, text)
        if as_json:
            print_json(to_data(document))
        elif output is None:
            print_text(text.removesuffix("\n"))
    return Exit.OK
