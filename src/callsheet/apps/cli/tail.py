"""`callsheet tail`: the events of a run as they come, also from another process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.eventlines import event_json, event_line
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import may_stay_unread, print_text, say
from callsheet.apps.cli.runs import INTERRUPTED, shown_status

if TYPE_CHECKING:
    from callsheet.store.journal import Journal

_PAUSE = 0.1
_SAID = {
    INTERRUPTED: "its process is gone: interrupted; callsheet resume {run}{hint} carries it on",
    "waiting": "it waits for people: callsheet inbox{hint}",
    "in_doubt": "it waits for a decision: callsheet decide {run} CALL …{hint}",
}
_EXITS = {
    "done": Exit.OK,
    "refused": Exit.REFUSED,
    "waiting": Exit.UNDECIDED,
    "in_doubt": Exit.UNDECIDED,
}


@click.command()
@click.argument("run", metavar="RUN")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the run ends or stands still.")
@click.option("--from", "start", type=click.IntRange(1), default=1, metavar="SEQ", help="Begin at an event.")
@options.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line, with whole bodies.")
def tail(run: str, follows: bool, start: int, journal: Path | None, as_json: bool) -> int:
    """Print the events of RUN, an id, the beginning of one, or `last`.

    With --follow those that come as well, also where another process carries the run on, until it ends or
    stands still; the exit status is then that of the run: 0 done, 3 refused, 4 waiting or in doubt, 1 failed,
    cancelled or interrupted.
    """
    with options.open_to_read(journal) as opened:
        run_id = opened.find_run(run).run_id
        with may_stay_unread():
            if not follows:
                _print(opened, run_id, start - 1, as_json=as_json)
                return Exit.OK
            status = _follow(opened, run_id, start - 1, as_json=as_json)
    if not as_json:
        said = _SAID.get(status, f"it has ended: {status}")
        say(f"run {run_id}: {said.format(run=run_id, hint=options.journal_hint(journal))}")
    return _EXITS.get(status, Exit.FAILED)


def _follow(journal: Journal, run_id: str, after: int, *, as_json: bool) -> str:
    """Print events until nothing more comes; gives how the run stands then."""
    from callsheet.store.owned import is_owned  # noqa: PLC0415 - brings the store
    from callsheet.store.place import place_of  # noqa: PLC0415 - as above

    place = place_of(journal.path)
    while True:
        was_owned = is_owned(place, run_id)  # asked first: what its process wrote before its end is there
        last = _print(journal, run_id, after, as_json=as_json)
        info = journal.find_run(run_id)
        if last >= info.events and (info.status.is_final or not was_owned):
            return shown_status(journal, info)
        after = last
        time.sleep(_PAUSE)


def _print(journal: Journal, run_id: str, after: int, *, as_json: bool) -> int:
    """Print the events after a number; gives the number of the last one."""
    for event in journal.events(run_id, after, lenient=True):
        print_text(json.dumps(event_json(event)) if as_json else event_line(event))
        after = event.seq
    return after
