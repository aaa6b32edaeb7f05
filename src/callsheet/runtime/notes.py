"""Restores the working-memory notes of a run that branched off, by repeating its parent's `@SET_WM` calls.

In: the events of the run, and its gateway. Out: nothing; `@GET_WM` then returns these notes, and their labels
are known. Notes that the parent wrote later are not included.
"""

from __future__ import annotations

from callsheet.ir import Plan
from callsheet.runtime.gateway import Gateway
from callsheet.runtime.offloading import Offload
from callsheet.store import Journal
from callsheet.store.branch import calls_done

_KEEPS = "SET_WM"


async def keep_notes(journal: Journal, run_id: str, plan: Plan, gateway: Gateway, offload: Offload) -> None:
    """Restore the notes of a run that branched off; does nothing for other runs."""
    if journal.find_run(run_id).parent_run is None or not gateway.is_builtin(_KEEPS):
        return
    events = journal.opener(run_id).events(journal.events(run_id))
    for call in await offload(lambda: calls_done(plan, events, journal.plan_of, _KEEPS)):
        await gateway.keep_again(call)
