"""`callsheet runs diff`: where two runs part, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.asking.noise import Noise
from callsheet.apps.cli.asking.resting import collector_rests
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.origin import Origin, origin_of
from callsheet.apps.cli.output import may_stay_unread, preview, print_json, print_text

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.reader import RunInfo
    from callsheet.trace.apart import Apart, Slower
    from callsheet.trace.compared import Compared, Found
    from callsheet.trace.lineage.lineage import Lineage, Visit

_MOST = 20
_MOST_PLACES = 3


@click.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option(
    "--all", "to_the_end", is_flag=True, help="Compare to the ends, however many differences there are."
)
@click.option("--times", "with_times", is_flag=True, help="Also say which steps became slower or faster.")
@click.option(
    "--noise",
    type=Noise(),
    default="20%",
    show_default=True,
    help="What a time may differ by without being told, a part of the longer one.",
)
@click.option("--exit-code", is_flag=True, help="Exit 1 if the runs differ.")
@options.journal_path
@options.as_json
@collector_rests
def diff_of_runs(
    old: str,
    new: str,
    to_the_end: bool,
    with_times: bool,
    noise: float,
    exit_code: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Say where the runs A and B first part, and what follows from that.

    Steps are paired by their ids and visits, what is left over by tool and arguments. Times do not count;
    --times tells of them apart from that.
    """
    from callsheet.trace.compared import compare_runs  # noqa: PLC0415 - brings the store

    with options.open_to_read(journal) as opened:
        a, b = opened.find_run(old), opened.find_run(new)
        compared = compare_runs(opened, a, b, None if to_the_end or as_json else _MOST)
        origins = _origins(opened, a, b)
        apart = _times(opened, a, b, noise) if with_times else None
    is_same_plan = a.plan_hash == b.plan_hash
    differs = bool(compared.inputs or compared.found)
    with may_stay_unread():
        if as_json:
            times = {} if apart is None else {"times": [one._asdict() for one in apart]}
            print_json({**_head_json(a, b, origins, differs=differs), **times, **_json(compared)})
        else:
            print_text(
                f"A {a.run_id}, B {b.run_id}, {'the same plan' if is_same_plan else 'different plans'}"
            )
            for name, origin in zip("AB", origins, strict=True):
                if origin is not None:
                    print_text(f"{name} is    {origin.describe()}")
            for line in diff_lines(compared):
                print_text(line)
            if apart is not None:
                _print_times(apart, noise)
    return Exit.FAILED if exit_code and differs else Exit.OK


def diff_json(journal: Journal, a: RunInfo, b: RunInfo) -> dict[str, Any]:
    """Where two runs part, to their ends, as a JSON object; raises JournalError for unreadable events."""
    from callsheet.trace.compared import compare_runs  # noqa: PLC0415 - brings the store

    compared = compare_runs(journal, a, b, None)
    differs = bool(compared.inputs or compared.found)
    return {**_head_json(a, b, _origins(journal, a, b), differs=differs), **_json(compared)}


def _origins(journal: Journal, a: RunInfo, b: RunInfo) -> list[Origin | None]:
    return [origin_of(next(iter(journal.events(info.run_id))).body) for info in (a, b)]


def _head_json(a: RunInfo, b: RunInfo, origins: list[Origin | None], *, differs: bool) -> dict[str, Any]:
    froms = [None if origin is None else origin.to_json() for origin in origins]
    return {
        "a": a.run_id,
        "b": b.run_id,
        "same_plan": a.plan_hash == b.plan_hash,
        "equal": not differs,
        "from": {"a": froms[0], "b": froms[1]},
    }


def _times(journal: Journal, a: RunInfo, b: RunInfo, noise: float) -> list[Slower]:
    from callsheet.apps.cli.asking.times import times_apart  # noqa: PLC0415 - brings the store

    return times_apart(journal, a, b, noise)


def _print_times(apart: list[Slower], noise: float) -> None:
    from callsheet.apps.cli.asking.times import print_times  # noqa: PLC0415 - as above

    print_times(apart, noise)


def diff_lines(compared: Compared) -> Iterator[str]:
    """What differs between two runs, as lines of text."""
    for name, (mine, theirs) in compared.inputs.items():
        yield f"given   ${name}: A {preview(mine)}, B {preview(theirs)}"
    if not compared.found:
        yield f"alike   {compared.alike} visits of steps did the same"
        return
    first, *rest = compared.found
    yield from _pair_lines(first, "first")
    for one in rest[:_MOST]:
        yield from _pair_lines(one, "follows" if one.pair.follows else "apart")
    if compared.upto is not None:
        a, b = compared.upto
        yield f"alike   {compared.alike} visits of steps up to event {a} of A, {b} of B"
        yield "and more differs up to there or behind it; --all compares to the ends"
        return
    if len(rest) > _MOST:
        yield f"and {len(rest) - _MOST} more (--json has them all)"
    yield f"alike   {compared.alike} visits of steps"


def _pair_lines(found: Found, head: str) -> Iterator[str]:
    from callsheet.views.lineage import visit_line  # noqa: PLC0415 - brings the views

    pair, old, new = found
    line = visit_line(new, pair.new) if pair.old is None and pair.new is not None else ""
    line = visit_line(old, pair.old) if pair.old is not None else line
    yield f"{head:7} {line}: {', '.join(pair.what)}"
    if pair.old is not None and pair.new is not None:
        yield f"        A {_said(old, pair.old)}"
        yield f"        B {_said(new, pair.new)}"
        for line in _places(old, pair.old, new, pair.new):
            yield f"        {line}"


def _said(lineage: Lineage, visit: Visit) -> str:
    """What came of a visit."""
    if visit.skipped:
        return visit.skipped
    written = lineage.write_of.get(visit.id)
    if written is not None:
        return f"${lineage.writes[written].name} = {preview(lineage.writes[written].value)}"
    failure = next((f.error for f in lineage.failures if f.visit == visit.id), None)
    return f"failed: {preview(failure)}" if failure is not None else "done"


def _apart(old: Lineage, one: Visit, new: Lineage, other: Visit) -> list[tuple[str, Apart]]:
    """The places at which the values part that two visits have put into one variable; the first ones."""
    from callsheet.trace.apart import parts  # noqa: PLC0415 - not for --help

    mine, theirs = old.write_of.get(one.id), new.write_of.get(other.id)
    if mine is None or theirs is None or old.writes[mine].name != new.writes[theirs].name:
        return []
    found = islice(parts(old.writes[mine].value, new.writes[theirs].value), _MOST)
    name = old.writes[mine].name
    return [(".".join([f"${name}", *map(str, part.path)]), part) for part in found if part.path]


def _places(old: Lineage, one: Visit, new: Lineage, other: Visit) -> Iterator[str]:
    found = _apart(old, one, new, other)
    for name, part in found[:_MOST_PLACES]:
        mine = "nothing" if part.missing == "a" else preview(part.old)
        theirs = "nothing" if part.missing == "b" else preview(part.new)
        yield f"{name}: A {mine}, B {theirs}"
    if len(found) > _MOST_PLACES:
        yield "and more places"


def _json(compared: Compared) -> dict[str, Any]:
    pairs = [_pair_json(one) for one in compared.found]
    return {
        "inputs": {name: {"a": mine, "b": theirs} for name, (mine, theirs) in compared.inputs.items()},
        "alike": compared.alike,
        "first": pairs[0] if pairs else None,
        "differing": pairs,
    }


def _pair_json(found: Found) -> dict[str, Any]:
    pair, old, new = found
    return {
        "what": list(pair.what),
        "follows": pair.follows,
        "a": _visit_json(old, pair.old),
        "b": _visit_json(new, pair.new),
        "places": []
        if pair.old is None or pair.new is None
        else [
            {"place": name, "a": part.old, "b": part.new, "missing": part.missing or None}
            for name, part in _apart(old, pair.old, new, pair.new)
        ],
    }


def _visit_json(lineage: Lineage, visit: Visit | None) -> dict[str, Any] | None:
    if visit is None:
        return None
    return {
        "step": lineage.code(visit).id,
        "visit": visit.visit,
        "event": visit.seq,
        "tool": lineage.code(visit).tool or None,
        "came": _said(lineage, visit),
    }
