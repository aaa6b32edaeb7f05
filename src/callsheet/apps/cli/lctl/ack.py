"""`callsheet lctl ack`: writes the acknowledgement of a received hand-off."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.documents import STDIN, read_block
from callsheet.apps.cli.output import print_json, print_text, to_stderr
from callsheet.trace.lctl.findings import LctlError
from callsheet.trace.lctl.ids import shown_ids
from callsheet.trace.lctl.receive import receive
from callsheet.trace.lctl.write import to_data, write


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--after", multiple=True, metavar="FILE", help="An earlier document of the chain; may be repeated."
)
@click.option(
    "--agent", metavar="NAME", help="The agent that acknowledges; it must be the target of the hand-off."
)
@options.as_json
def ack(file: str, after: tuple[str, ...], agent: str | None, as_json: bool) -> int:
    """Write the acknowledgement of the hand-off FILE (- is standard input): loaded facts, and concerns.

    The exit status is 4 if a fact is so uncertain that a person has to decide, and 2 if the hand-off cannot
    be received.
    """
    if (file, *after).count(STDIN) > 1:
        raise click.UsageError("only one document can come from standard input")
    readings = [read_block(name) for name in (*after, file)]
    for reading in readings:
        if reading.document is None:
            raise LctlError.of(reading.findings, reading.source)
    *before, last = readings
    received = receive(last, agent=agent, after=before)
    acknowledgement = received.ack()
    if as_json:
        print_json(
            {
                "ack": to_data(acknowledgement),
                "human_review": list(received.human_review),
                "blocked": list(received.blocked),
            }
        )
    else:
        print_text(write(acknowledgement).rstrip("\n"))
    if received.blocked:
        to_stderr(f"a person has to decide about {shown_ids(received.blocked)}, which must not be handed on")
    return Exit.UNDECIDED if received.blocked else Exit.OK
