"""`callsheet blobs prune`: deletes large values that no run on Temporal references any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.engines.engine_options import EngineAddress, places, require_extra
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.maintenance import parse_age
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, to_stderr
from callsheet.apps.rendering.values import format_bytes
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.store.shared.garbage import Swept

_DAY = 86_400.0


class _PruneOutcome(NamedTuple):
    place: str
    histories: dict[str, int]
    swept: Swept


@click.group("blobs")
def blobs() -> None:
    """Manage the large values of runs on Temporal."""


def _parse_age(ctx: click.Context, param: click.Parameter, text: str) -> float:
    age = parse_age(ctx, param, text)
    if age is None or age < _DAY:
        raise click.BadParameter(
            "must be at least 1d: younger values may belong to a run that is starting", ctx, param
        )
    return age


def _make_address(address: str, namespace: str, blobs: str) -> EngineAddress:
    return EngineAddress(address, namespace, "", blobs)


@blobs.command()
@options.grouped("whereabouts", _make_address, **places)
@click.option(
    "--older-than",
    callback=_parse_age,
    metavar="AGE",
    default="30d",
    show_default=True,
    help="The minimum age of values that are deleted: 30d, 8w, 1y.",
)
@click.option(
    "--gone",
    multiple=True,
    metavar="NAME",
    help="A former user of the same storage, by its name in error TMP031; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@options.as_json
def prune(
    whereabouts: EngineAddress, older_than: float, gone: tuple[str, ...], dry_run: bool, as_json: bool
) -> int:
    """Delete large values that no run on Temporal references any more.

    A value is referenced as long as the server keeps the history of its run, whether the run is open or
    closed. All namespaces whose workers use the same storage are queried.
    """
    require_extra()
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

    settings = whereabouts.apply_to(load_settings().temporal)
    done = run_async(_prune(settings, older_than, gone, dry_run=dry_run))
    with ignoring_broken_pipe():
        if as_json:
            swept = done.swept._asdict()
            print_json({"dry_run": dry_run, "place": done.place, "histories": done.histories, **swept})
        else:
            _report(done, dry_run=dry_run)
    return Exit.OK


async def _prune(
    settings: TemporalSettings, age: float, gone: tuple[str, ...], *, dry_run: bool
) -> _PruneOutcome:
    import asyncio  # noqa: PLC0415 - as above

    from callsheet.runtime.engines.temporal.blob_references import needs  # noqa: PLC0415 - imports Temporal
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415 - as above
    from callsheet.store.shared.address import shown  # noqa: PLC0415 - as above
    from callsheet.store.shared.garbage import sweep  # noqa: PLC0415 - as above

    connection = await reach(settings)
    blobs_store = connection.claims.blobs
    try:
        references = await needs(connection, gone)
        swept = await asyncio.to_thread(sweep, blobs_store, references.digests, age, dry_run=dry_run)
        for name in () if dry_run else gone:
            await asyncio.to_thread(blobs_store.unsign, name)
    except OSError as error:
        why = error.strerror or str(error)
        raise CallsheetError.single("TMP032", f"the large values cannot be read: {why}") from error
    return _PruneOutcome(shown(settings.place), dict(references.histories), swept)


def _report(done: _PruneOutcome, *, dry_run: bool) -> None:
    swept, would = done.swept, "would be deleted" if dry_run else "deleted"
    count = len(swept.removed)
    histories = ", ".join(f"{count} of namespace {name}" for name, count in done.histories.items())
    to_stderr(f"histories read: {histories}")
    to_stderr(
        f"{count} large value{'s' * (count != 1)} ({format_bytes(swept.bytes)}) of {done.place} {would};"
        f" {swept.needed} are referenced, {swept.young} are too young"
    )
