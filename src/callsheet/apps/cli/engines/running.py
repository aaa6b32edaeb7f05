"""Runs that are given to Temporal, and what is said to them later; their journal here is a copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import print_json, print_text, say
from callsheet.diagnostics import CallsheetError
from callsheet.store.elsewhere import ENGINE, engine_of

if TYPE_CHECKING:
    from callsheet.ir import Plan
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.engines.temporal.reaching import Reached
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.runs import Launch
    from callsheet.store.journal import Journal


def refuse(*, under_policy: bool, has_secrets: bool) -> None:
    """Refuse what a run on Temporal cannot be held to; raises CallsheetError (TMP008)."""
    if has_secrets:
        raise CallsheetError.single(
            "TMP008",
            "a run on Temporal takes no --secret: its history would hold it in the clear",
            help="run it on this machine, or let the worker's own environment hold what its tools need",
        )
    if under_policy:
        raise CallsheetError.single(
            "TMP008",
            "a run on Temporal is held to no policy yet: the labels of files are kept by one machine",
            help="prove the plan with `callsheet verify`; a run under a policy needs --engine local",
        )


async def run_there(
    plan: Plan,
    launch: Launch,
    journal: Journal,
    run_id: str,
    settings: TemporalSettings,
    *,
    detaches: bool,
    waits: bool,
) -> RunOutcome | None:
    """Give a run to Temporal and wait for it; None where nobody waits."""
    from callsheet.runtime.engines.temporal import client  # noqa: PLC0415 - brings Temporal
    from callsheet.runtime.engines.temporal.orders import Order  # noqa: PLC0415 - as above
    from callsheet.runtime.engines.temporal.reaching import reach  # noqa: PLC0415 - as above
    from callsheet.runtime.runs import start_of  # noqa: PLC0415 - as above

    reached = await reach(settings)
    start = start_of(plan, launch, journal)
    start = start._replace(launch={**start.launch, ENGINE: settings.to_note()})
    order = Order(run_id, plan, launch.source, start, settings.queue, settings.heartbeat)
    await client.start(reached, journal, order)
    if detaches:
        return None
    return await client.wait_for(reached, journal, run_id, waits=waits, on_idle=telling(reached, say))


def detached(run_id: str, hint: str, *, as_json: bool) -> Exit:
    """Say which run has been started, of which nobody waits for the end."""
    if as_json:
        print_json({"run_id": run_id, "status": "running"})
    else:
        print_text(run_id)
        say(f"the run is on its way; it is waited for by: callsheet resume {run_id}{hint}")
    return Exit.OK


def telling(reached: Reached, tell: Callable[[str], None]) -> Callable[[], Awaitable[None]]:
    """Tells, once, that no worker seems to be there."""
    told: list[bool] = []

    async def idle() -> None:
        if not told:
            told.append(True)
            queue = reached.settings.queue
            tell(f"no worker answers on the task queue {queue}; start one: callsheet worker --queue {queue}")

    return idle


def settings_of(journal: Journal, run_id: str) -> TemporalSettings | None:
    """Where Temporal carries a run; None for a run of this machine. Raises CallsheetError (TMP001)."""
    note = engine_of(journal, run_id)
    if note is None:
        return None
    from callsheet.apps.cli.engines.choice import require_extra  # noqa: PLC0415 - only for such runs
    from callsheet.runtime.engines.temporal.settings import TemporalSettings  # noqa: PLC0415 - as above

    require_extra()
    return TemporalSettings.from_note(note)
