"""Starts and controls runs on Temporal; the local journal has a copy of their events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from callsheet.apps.cli import journals
from callsheet.apps.cli.arguments import parse_name
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError
from callsheet.store.listing import ENGINE, engine_of
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.api.admission import Prepared
    from callsheet.apps.operations.printed_service_rows import DetachedRun
    from callsheet.machine import Limits
    from callsheet.machine.machine import Observer
    from callsheet.runtime.answers import Answer, PendingAsk
    from callsheet.runtime.doubt import Resolution, RunOutcome
    from callsheet.runtime.engines.temporal.client import TemporalRun
    from callsheet.runtime.engines.temporal.connection import TemporalConnection
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.forking import Forking
    from callsheet.store.journal import Journal
    from callsheet.store.pauses import RunPause

_T = TypeVar("_T")


class SecretReference(NamedTuple):
    """A secret by name: its placeholder, and the environment variable that workers read."""

    text: str
    variable: str


_PATIENCE = 30.0
"""Seconds to wait until a run that another one replaces has ended."""
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.IN_DOUBT, RunStatus.PAUSED)


def secret_references(secrets: Iterable[str]) -> dict[str, SecretReference]:
    """The secrets of `--secret` as references for workers, by input.

    Raises CallsheetError: TMP008 for a secret that workers cannot read, SEC005 for a duplicate.
    """
    from secrets import token_hex  # noqa: PLC0415 - only for a run that starts

    references: dict[str, SecretReference] = {}
    for text in secrets:
        name, _, source = text.partition("=")
        name = parse_name("--secret", name)
        kind, _, variable = source.partition(":")
        if kind != "env" or not variable:
            raise CallsheetError.single(
                "TMP008",
                f"--secret {name}: a run on Temporal reads secrets only from the environment of its workers",
                help=f"write --secret {name}=env:VARIABLE, and start workers with --secret VARIABLE",
            )
        if name in references:
            raise CallsheetError.single("SEC005", f"{name} is given twice", help="give each variable once")
        references[name] = SecretReference(f"[secret {name} {token_hex(8)}]", variable)
    return references


async def run_on_temporal(
    prepared: Prepared,
    journal: Journal,
    run_id: str,
    settings: TemporalSettings,
    *,
    waits: bool,
    secrets: Mapping[str, str],
    observer: Observer | None,
) -> RunOutcome | None:
    """Start a prepared run on Temporal and wait for its end; None if it is not waited for.

    `observer` receives the notes of the run; without one it is not waited for. `secrets` maps placeholders to
    environment variables of the workers. Raises CallsheetError (TMP008) as `check_secrets` does.
    """
    from callsheet.api.run_service import first_event  # noqa: PLC0415 - imports the runtime
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - imports Temporal
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415 - as above
    from callsheet.store.start import SECRETS  # noqa: PLC0415 - as above

    start = first_event(prepared, journal)
    secret_variables: dict[str, Any] = {SECRETS: dict(secrets)} if secrets else {}
    start = start._replace(launch={**start.launch, ENGINE: settings.to_note(), **secret_variables})
    order = client.order_of(run_id, prepared.plan, prepared.launch.source, start, settings)
    connection = await reach(settings)
    await client.start(connection, journal, order)
    if observer is None:
        return None
    idle = no_worker_warning(connection, to_stderr)
    run = client.TemporalRun(connection, journal, run_id)
    return await client.wait_for(run, waits=waits, on_idle=idle, observer=observer)


def report_detached(run_id: str, hint: str, *, as_json: bool) -> Exit:
    """Print the id of a run that was started without waiting for its end."""
    if as_json:
        detached: DetachedRun = {"run_id": run_id, "status": "running"}
        print_json(detached)
    else:
        print_text(run_id)
        to_stderr(f"the run has been started; wait for its end with: callsheet resume {run_id}{hint}")
    return Exit.OK


def no_worker_warning(
    connection: TemporalConnection, tell: Callable[[str], None]
) -> Callable[[], Awaitable[None]]:
    """A callback that warns once that no worker polls the task queue."""
    printed: list[bool] = []

    async def idle() -> None:
        if not printed:
            printed.append(True)
            queue = connection.settings.queue
            tell(f"no worker polls the task queue {queue}; start one: callsheet worker --queue {queue}")

    return idle


def temporal_settings_of(journal: Journal, run_id: str) -> TemporalSettings | None:
    """The settings of a run on Temporal; None for a local run. Raises CallsheetError (TMP001)."""
    note = engine_of(journal, run_id)
    if note is None:
        return None
    from callsheet.apps.cli.run_options import require_extra  # noqa: PLC0415 - only for such runs
    from callsheet.runtime.engines.temporal.settings import TemporalSettings  # noqa: PLC0415 - as above

    require_extra()
    return TemporalSettings.from_note(note)


def runs_on_temporal(journal: Path | None, run: str) -> bool:
    """Whether a run of the journal executes on Temporal. Raises JournalError if there is no such run."""
    with journals.open_to_read(journal) as opened:
        return engine_of(opened, opened.find_run(run).run_id) is not None


def with_connection(
    journal: Path | None,
    run: str,
    work: Callable[[TemporalRun], Coroutine[Any, Any, _T]],
) -> _T:
    """The result of `work` on a run on Temporal."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.runtime.engines.temporal.client import TemporalRun  # noqa: PLC0415 - imports Temporal
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415 - as above

    with journals.open_recorded(journal) as opened:
        run_id = opened.find_run(run).run_id
        settings = temporal_settings_of(opened, run_id)
        assert settings is not None

        async def whole() -> _T:
            return await work(TemporalRun(await reach(settings), opened, run_id))

        return run_async(whole())


def refresh_copies(journal: Path | None, run: str | None = None) -> None:
    """Update the local copies of open runs on Temporal: of one run, or of all.

    If that fails, a warning is printed and the journal stays as it is.
    """
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - as above

    if journal is None and is_absent(default_journal_path()):
        return
    with journals.open_to_read(journal) as opened:
        open_runs = [info for status in _OPEN for info in opened.runs(None, status)]
        wanted_id = None if run is None else opened.find_run(run).run_id
        ids = [info.run_id for info in open_runs if wanted_id in (None, info.run_id)]
        behind = [run_id for run_id in ids if engine_of(opened, run_id) is not None]
    for run_id in behind:
        try:
            with_connection(journal, run_id, _bring_up_to_date)
        except CallsheetError as error:
            to_stderr(f"warning {error}; the output may be out of date")
            return


async def _bring_up_to_date(run: TemporalRun) -> None:
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    await client.bring_up_to_date(run)


def approve_on_temporal(
    journal: Path | None,
    run: str,
    answer_of: Callable[[PendingAsk], Answer],
    which: str | None,
    digest: str | None,
) -> PendingAsk:
    """Answer a request of a run on Temporal."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(on_server: TemporalRun) -> PendingAsk:
        return await client.answer(on_server, answer_of, which, digest)

    return with_connection(journal, run, work)


def decide_on_temporal(
    journal: Path | None, run: str, calls: Sequence[str], verdict: Resolution, *, all_calls: bool
) -> RunOutcome:
    """Decide about calls in doubt of a run on Temporal; returns the outcome of the run so far."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(on_server: TemporalRun) -> RunOutcome:
        await client.decide(on_server, calls, verdict, every=all_calls)
        return await client.settled(on_server)

    return with_connection(journal, run, work)


def cancel_on_temporal(
    journal: Path | None, run: str, reason: str, patience: float
) -> tuple[RunOutcome | None, str]:
    """Cancel a run on Temporal; returns its outcome, None if it has not ended in time, and the run id."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(on_server: TemporalRun) -> tuple[RunOutcome | None, str]:
        await client.cancel(on_server, reason)
        return await client.ended(on_server, patience), on_server.run_id

    return with_connection(journal, run, work)


def pause_on_temporal(
    journal: Path | None, run: str, by: str, reason: str, patience: float
) -> tuple[RunPause | None, str]:
    """Pause a run on Temporal; returns the pause, None if it has not begun in time, and the run id."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(on_server: TemporalRun) -> tuple[RunPause | None, str]:
        return await client.pause(on_server, by, reason, patience), on_server.run_id

    return with_connection(journal, run, work)


def check_branch(made: Forking, settings: TemporalSettings) -> None:
    """Raise CallsheetError (TMP008), before anything is changed, for a branch that could not be started."""
    from callsheet.runtime.engines.temporal.call_rules import check_secrets  # noqa: PLC0415 - as above

    check_secrets(made.branch.plan, made.folded.start, encrypts=settings.encrypt)


async def supersede_on_temporal(
    journal: Journal, run_id: str, new_id: str, settings: TemporalSettings
) -> None:
    """End a run on Temporal that another one with an edited plan goes on for; one that has ended stays.

    Raises CallsheetError (JRN004) if no worker ends it.
    """
    if journal.find_run(run_id).status.is_final:
        return
    from callsheet.api.run_branches import why_superseded  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415 - as above

    run = client.TemporalRun(await reach(settings), journal, run_id)
    await client.cancel(run, why_superseded(new_id))
    if await client.ended(run, _PATIENCE) is None:
        raise CallsheetError.single(
            "JRN004",
            f"run {run_id} was cancelled, and has not ended within {_PATIENCE:g} s",
            help=f"start a worker: callsheet worker --engine temporal --queue {settings.queue}",
        )


async def resume_on_temporal(
    journal: Journal,
    run_id: str,
    settings: TemporalSettings,
    verdict: Resolution | None,
    limits: Callable[[Limits], Limits],
    *,
    waits: bool,
    observer: Observer,
    unpaused_by: str | None,
) -> RunOutcome:
    """Wait for the end of a run on Temporal with changed limits; a failed graph continues, and so does a run
    that is paused, if somebody lets it.
    """
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415 - as above

    connection = await reach(settings)
    idle = no_worker_warning(connection, to_stderr)
    run = client.TemporalRun(connection, journal, run_id)
    return await client.resume_and_wait(
        run, verdict, waits=waits, on_idle=idle, limits=limits, observer=observer, unpaused_by=unpaused_by
    )
