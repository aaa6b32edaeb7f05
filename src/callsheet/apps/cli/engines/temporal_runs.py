"""Starts and controls runs on Temporal; the local journal is a copy."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.assignments import parse_name
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_json, print_text, to_stderr
from callsheet.diagnostics import CallsheetError
from callsheet.ir import plan_to_json
from callsheet.store.external_runs import ENGINE, engine_of
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.ir import Plan
    from callsheet.machine import Limits
    from callsheet.machine.machine import Observer
    from callsheet.runtime.answers import Answer, PendingAsk
    from callsheet.runtime.doubt import Resolution, RunOutcome
    from callsheet.runtime.engines.temporal.connecting import TemporalConnection
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.launch import Launch
    from callsheet.store.journal import Journal

_T = TypeVar("_T")


class SecretReference(NamedTuple):
    """A secret by its name: the text that stands in its place, and the variable that workers read."""

    text: str
    variable: str


_LOOKS = ("if", "foreach")
"""What of a step decides whether and how often it is done."""
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.IN_DOUBT)


def secret_references(secrets: Iterable[str]) -> dict[str, SecretReference]:
    """The secrets of `--secret` as workers are told of them, by input.

    Raises CallsheetError: TMP008 for one that no worker could read, SEC005 for one given twice.
    """
    references: dict[str, SecretReference] = {}
    for text in secrets:
        name, _, source = text.partition("=")
        name = parse_name("--secret", name)
        kind, _, variable = source.partition(":")
        if kind != "env" or not variable:
            raise CallsheetError.single(
                "TMP008",
                f"--secret {name}: a run on Temporal takes secrets from the environment of its workers alone",
                help=f"write --secret {name}=env:VARIABLE, and start workers with --secret VARIABLE",
            )
        if name in references:
            raise CallsheetError.single("SEC005", f"{name} is given twice", help="give each variable once")
        references[name] = SecretReference(f"[secret {name} {token_hex(8)}]", variable)
    return references


def check_secret_conditions(plan: Plan, secrets: Collection[str]) -> None:
    """Refuse a plan whose way depends on what a secret says, which no driver of it knows (TMP008)."""
    for step in plan_to_json(plan)["steps"]:
        conditions = json.dumps([step.get(part) for part in _LOOKS])
        for name in secrets:
            if f'{{"ref": {json.dumps(name)}' in conditions:
                raise CallsheetError.single(
                    "TMP008",
                    f"step {step['id']} decides by what ${name} says: on Temporal a secret is known to the"
                    " workers that call tools, and not to who drives the plan",
                    help="let a tool decide, or run the plan on this machine",
                )


async def run_on_temporal(
    plan: Plan,
    launch: Launch,
    journal: Journal,
    run_id: str,
    settings: TemporalSettings,
    *,
    waits: bool,
    secrets: Mapping[str, str],
    observer: Observer | None,
) -> RunOutcome | None:
    """Give a run to Temporal and wait for it; None where nobody waits.

    `observer` hears of what happens; without one nobody waits. `secrets` are variables of the workers'
    environment by the text that stands in their place.
    """
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - brings Temporal
    from callsheet.runtime.engines.temporal.connecting import reach  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal.run_order import SECRETS, RunOrder  # noqa: PLC0415 - as above
    from callsheet.runtime.launch import start_of  # noqa: PLC0415 - as above

    reached = await reach(settings)
    start = start_of(plan, launch, journal)
    secret_variables: dict[str, Any] = {SECRETS: dict(secrets)} if secrets else {}
    start = start._replace(launch={**start.launch, ENGINE: settings.to_note(), **secret_variables})
    order = RunOrder(run_id, plan, launch.source, start, settings.queue, settings.heartbeat)
    await client.start(reached, journal, order)
    if observer is None:
        return None
    idle = no_worker_warning(reached, to_stderr)
    return await client.wait_for(reached, journal, run_id, waits=waits, on_idle=idle, observer=observer)


def report_detached(run_id: str, hint: str, *, as_json: bool) -> Exit:
    """Say which run has been started, of which nobody waits for the end."""
    if as_json:
        print_json({"run_id": run_id, "status": "running"})
    else:
        print_text(run_id)
        to_stderr(f"the run is on its way; it is waited for by: callsheet resume {run_id}{hint}")
    return Exit.OK


def no_worker_warning(
    reached: TemporalConnection, tell: Callable[[str], None]
) -> Callable[[], Awaitable[None]]:
    """Tells, once, that no worker seems to be there."""
    printed: list[bool] = []

    async def idle() -> None:
        if not printed:
            printed.append(True)
            queue = reached.settings.queue
            tell(f"no worker answers on the task queue {queue}; start one: callsheet worker --queue {queue}")

    return idle


def temporal_settings_of(journal: Journal, run_id: str) -> TemporalSettings | None:
    """Where Temporal carries a run; None for a run of this machine. Raises CallsheetError (TMP001)."""
    note = engine_of(journal, run_id)
    if note is None:
        return None
    from callsheet.apps.cli.engines.engine_options import require_extra  # noqa: PLC0415 - only for such runs
    from callsheet.runtime.engines.temporal.settings import TemporalSettings  # noqa: PLC0415 - as above

    require_extra()
    return TemporalSettings.from_note(note)


def runs_on_temporal(journal: Path | None, run: str) -> bool:
    """Whether Temporal carries a run of the journal; raises JournalError where there is no such run."""
    with journals.open_to_read(journal) as opened:
        return engine_of(opened, opened.find_run(run).run_id) is not None


def with_connection(
    journal: Path | None,
    run: str,
    work: Callable[[TemporalConnection, Journal, str], Coroutine[Any, Any, _T]],
) -> _T:
    """What comes of work on a run that Temporal carries, with its server and its journal."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - brings asyncio
    from callsheet.runtime.engines.temporal.connecting import reach  # noqa: PLC0415 - brings Temporal

    with journals.open_journal(journal) as opened:
        run_id = opened.find_run(run).run_id
        settings = temporal_settings_of(opened, run_id)
        assert settings is not None

        async def whole() -> _T:
            return await work(await reach(settings), opened, run_id)

        return run_async(whole())


def refresh_copies(journal: Path | None, run: str | None = None) -> None:
    """Bring the copy of a run up to date that Temporal carries and that goes on; without a name, of all.

    Where that cannot be done, a warning says so, and the journal tells what it has.
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
            to_stderr(f"warning {error}; this is what the journal has")
            return


async def _bring_up_to_date(reached: TemporalConnection, journal: Journal, run_id: str) -> None:
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    await client.bring_up_to_date(reached, journal, run_id)


def approve_on_temporal(
    journal: Path | None,
    run: str,
    answer_of: Callable[[PendingAsk], Answer],
    which: str | None,
    digest: str | None,
) -> PendingAsk:
    """Answer what a run on Temporal asks."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(reached: TemporalConnection, opened: Journal, run_id: str) -> PendingAsk:
        return await client.answer(reached, opened, run_id, answer_of, which, digest)

    return with_connection(journal, run, work)


def decide_on_temporal(
    journal: Path | None, run: str, calls: Sequence[str], verdict: Resolution, *, all_calls: bool
) -> RunOutcome:
    """Decide about calls in doubt of a run on Temporal; gives how the run stands then."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(reached: TemporalConnection, opened: Journal, run_id: str) -> RunOutcome:
        await client.decide(reached, opened, run_id, calls, verdict, every=all_calls)
        return await client.settled(reached, opened, run_id)

    return with_connection(journal, run, work)


def cancel_on_temporal(
    journal: Path | None, run: str, reason: str, patience: float
) -> tuple[RunOutcome | None, str]:
    """End a run on Temporal; gives how it ended, None where it has not in time, and the run's id."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above

    async def work(
        reached: TemporalConnection, opened: Journal, run_id: str
    ) -> tuple[RunOutcome | None, str]:
        await client.cancel(reached, opened, run_id, reason)
        return await client.ended(reached, opened, run_id, patience), run_id

    return with_connection(journal, run, work)


def check_resume_options(*, has_others: bool) -> None:
    """Refuse to go on with other tools, models or rules than a run on Temporal has; raises UsageError."""
    if has_others:
        raise click.UsageError(
            "a run on Temporal goes on as it began: leave --model, --policy, --otlp and"
            " --accept-changed-tools out"
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
) -> RunOutcome:
    """Wait for a run on Temporal, with these limits from now on; a graph that has failed goes on."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal.connecting import reach  # noqa: PLC0415 - as above

    reached = await reach(settings)
    idle = no_worker_warning(reached, to_stderr)
    return await client.go_on(
        reached, journal, run_id, verdict, waits=waits, on_idle=idle, limits=limits, observer=observer
    )
