"""Reads from the journal how long the steps of a plan took in its last run.

In: the hash of a plan. Out: seconds by step. No bodies are read, so that ten thousand steps take
milliseconds.
"""

from __future__ import annotations

from callsheet.machine.keys import step_of
from callsheet.store.events import EventType, decode_intents
from callsheet.store.reader import Reader
from callsheet.store.schema import SEQ_BITS

_NEWEST = 1_000
"""How many of the newest runs are searched for one of the plan."""
_LEAST = 1e-6

_LAST_DONE = f"""
SELECT number FROM (SELECT number, plan_hash, status, created FROM runs ORDER BY created DESC LIMIT {_NEWEST})
WHERE plan_hash = ? AND status IN ('done', 'done_with_failures') ORDER BY created DESC, number DESC LIMIT 1
"""
_TIMES = "SELECT type, key, epoch, ts, intents FROM events WHERE id > ? AND id < ? ORDER BY id"
_ENDS = frozenset({EventType.OK, EventType.ERR})


def step_seconds(reader: Reader, plan_hash: str) -> dict[str, float]:
    """Seconds from each step's first call to its last outcome, in the plan's last run that is done.

    Steps that made no call, and those that continued in another process, are omitted; empty if there is no
    such run. Raises JournalError (JRN012).
    """
    rows = reader.select(_LAST_DONE, (plan_hash,))
    if not rows:
        return {}
    base = rows[0][0] << SEQ_BITS
    began: dict[str, tuple[int, float]] = {}
    took: dict[str, float] = {}
    for kind, key, epoch, ts, intents in reader.select(_TIMES, (base, base + (1 << SEQ_BITS))):
        if kind in _ENDS and key is not None:
            step = step_of(key)
            start = began.get(step)
            if start is not None and start[0] == epoch:
                took[step] = round(max(ts - start[1], _LEAST), 6)
        elif kind == EventType.INTENT and key is not None:
            began.setdefault(step_of(key), (epoch, ts))
        for intent_key, _ in [] if intents is None else decode_intents(intents):
            began.setdefault(step_of(intent_key), (epoch, ts))
    return took
