"""`callsheet distil`: makes a plan from what a client's model, or an agent, did in a recorded run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_text, to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.api.distillation import Distillation


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file of the plan, which must not exist; default: standard output.",
)
@journals.journal_path
def distil(run_id: str, output: Path | None, journal: Path | None) -> int:
    """Make a Python plan from RUN, a session of a gate or an agent: the calls that led to its end.

    What was copied or computed from earlier results becomes an expression, what repeats a loop, what the user
    said an input; what nothing explains is an input too. The plan is run on the recorded answers before it is
    written, and has to make the recorded calls again. RUN is a run id, a unique prefix of one, or `last`; or
    a file of another program: a transcript of Claude Code, messages of the Anthropic or OpenAI API, or an
    OpenTelemetry export in JSON with tool calls.
    """
    from callsheet.api.distillation import distil as distil_run  # noqa: PLC0415 - imports asyncio
    from callsheet.api.distillation import distil_transcript  # noqa: PLC0415 - as above
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415

    if output is not None and output.exists():
        raise CallsheetError.single("CFG012", f"{output} exists already", help="name another file")
    transcript = Path(run_id)
    if transcript.is_file():
        text = transcript.read_text("utf-8", errors="replace")
        made = run_async(distil_transcript(text, transcript.name))
    else:
        with journals.open_to_read(journal) as opened:
            made = run_async(distil_run(opened, run_id))
    if output is None:
        print_text(made.plan.text)
    else:
        output.write_text(made.plan.text, "utf-8")
    for line in _told(made, output):
        to_stderr(line)
    return Exit.OK


def _told(made: Distillation, output: Path | None) -> list[str]:
    """What is in the plan and what is not, and how it is run with the inputs of the recorded run."""
    count = len(made.calls)
    lines = [f"verified: on the recorded answers it makes the same {count} call{'' if count == 1 else 's'}"]
    if made.left_out:
        lines.append(f"left out, since nothing came of them: {', '.join(made.left_out)}")
    if made.work.failed:
        lines.append(f"left out, since they gave no result: {', '.join(made.work.failed)}")
    for name, reason in made.plan.reasons.items():
        lines.append(
            f"input {name} = {json.dumps(made.plan.inputs[name], ensure_ascii=False)[:80]}: {reason}"
        )
    lines += [f"to read: {reading}" for reading in made.plan.readings]
    if output is not None:
        given = " ".join(
            f"--var {shlex.quote(f'{name}={_written(value)}')}" for name, value in made.plan.inputs.items()
        )
        lines.append(f"again: callsheet run {shlex.quote(str(output))} {given}".rstrip())
    return lines


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
