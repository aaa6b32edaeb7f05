"""The notes of a run that branched off: what its calls of `@SET_WM` kept for its parent is kept for it too.

In: the events of the run, and its gateway. Out: nothing; from then on `@GET_WM` gives what the events tell
of, and its label is known. What the parent has noted since is not the run's.
"""

from __future__ import annotations

from callsheet.ir import Plan
from callsheet.runtime.beside import Beside
from callsheet.runtime.gateway import Gateway
from callsheet.store import Journal
from callsheet.store.branch import calls_done

_KEEPS = "SET_WM"


async def keep_notes(journal: Journal, run_id: str, plan: Plan, gateway: Gateway, beside: Beside) -> None:
    """Keep the notes of a run that branched off; of any other nothing is done."""
    if journal.find_run(run_id).parent_run is None or not gateway.is_builtin(_KEEPS):
        return
    events = journal.opener(run_id).events(journal.events(run_id))
    for call in await beside(lambda: calls_done(plan, events, journal.plan_of, _KEEPS)):
        await gateway.keep_again(call)
