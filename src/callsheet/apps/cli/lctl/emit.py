"""`callsheet lctl emit`: writes a recorded run as an LCTL document."""

from __future__ import annotations

from pathlib import Path

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.write_file import save
from callsheet.apps.cli.options import grouped
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.trace.lctl.write import to_data, write


def _parse_position(at: str | None, step: str | None) -> str | int | None:
    """The event or the step after which the run is described."""
    if at is not None and step is not None:
        raise click.UsageError("--at and --step cannot be combined")
    if at is None:
        return step
    return int(at) if at.isascii() and at.isdigit() else at


def _confidences(
    _context: click.Context, _option: click.Parameter, assignments: tuple[str, ...]
) -> dict[str, float]:
    """The confidences of `TOOL=NUMBER` by canonical tool name."""
    from callsheet.ir import canonical_tool_name  # noqa: PLC0415 - not for --help

    confidences: dict[str, float] = {}
    for text in assignments:
        tool, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not tool or not 0 <= value <= 1:
            raise click.BadParameter(f"{text}: write TOOL=NUMBER with a number from 0 to 1, as in price=0.9")
        confidences[canonical_tool_name(tool)] = value
    return confidences


_moment = grouped(
    "moment",
    _parse_position,
    at=click.option(
        "--at", metavar="SEQ", help="Describe the run after this event, or after a step: --at S3."
    ),
    step=click.option(
        "--step",
        metavar="STEP",
        help="Describe the run after the last visit of STEP, or after a visit: S3@2.",
    ),
)


def _kind_of(debug: bool, handoff: bool) -> bool | None:
    if debug and handoff:
        raise click.UsageError("--debug and --handoff cannot be combined")
    return True if debug else False if handoff else None


_kind = grouped(
    "is_debug",
    _kind_of,
    debug=click.option("--debug", is_flag=True, help="Write a post-mortem, even if the run did not fail."),
    handoff=click.option("--handoff", is_flag=True, help="Write a hand-off, even if the run failed."),
)


@click.command()
@click.argument("run", metavar="RUN")
@_moment
@_kind
@click.option("--items", is_flag=True, help="Add a fact for each result of a FOREACH: F5-0, F5-1, …")
@click.option(
    "--confidence",
    "confidences",
    metavar="TOOL=NUMBER",
    multiple=True,
    callback=_confidences,
    help="The confidence of results of a tool, from 0 to 1; may be repeated.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to FILE.", metavar="FILE"
)
@journals.journal_path
@options.as_json
def emit(
    run: str,
    moment: str | int | None,
    is_debug: bool | None,
    items: bool,
    confidences: dict[str, float],
    output: Path | None,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write RUN as an LCTL document.

    RUN is a run id, a unique prefix of one, or `last`. The document describes the current state of the run,
    or the state after a step or an event. It has a fact for each variable, with its confidence and the
    reason; facts that are still needed are critical. A failed run is written as a post-mortem.

    The exit status is 1, and nothing is written, if the hash chain of the events is broken.

    \b
    Example:
      callsheet lctl emit last -o handoff.yaml
    """
    from callsheet.runtime.lctl_export import lctl_of  # noqa: PLC0415 - imports the runtime

    if is_debug and moment is not None:
        raise click.UsageError("--debug describes the whole run: remove --at and --step")
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        bad_event = opened.verify(info.run_id)
        if bad_event is not None:
            to_stderr(f"run {info.run_id}: CHAIN BROKEN at event {bad_event.seq}: {bad_event.why}")
            return Exit.FAILED
        document = lctl_of(opened, info.run_id, moment, debug=is_debug, with_items=items, by_tool=confidences)
    text = write(document)
    with ignoring_broken_pipe():
        if output is not None:
            save(output, text)
        if as_json:
            print_json(to_data(document))
        elif output is None:
            print_text(text.removesuffix("\n"))
    return Exit.OK
