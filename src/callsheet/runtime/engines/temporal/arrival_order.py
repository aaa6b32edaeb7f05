"""Determines whose answer or decision a run took when people acted at the same moment: the first to arrive.

In: the journal of a run, brought up to date. Out: the id of the answer, or the decision, that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.runtime.answers import PendingAsk
from callsheet.sealing.sealer import is_sealed
from callsheet.store import EventType, Journal


def first_answer(journal: Journal, ask: PendingAsk) -> str | None:
    """The message id of the answer that a question got; "" if its time ran out, None if it is open."""
    for event in journal.events(ask.run_id):
        body = event.body or {}
        if event.type is EventType.SIGNAL and event.key == ask.key and body.get("digest") == ask.digest:
            return str(body.get("msg_id", ""))
    return None


def first_decision(journal: Journal, run_id: str, key: str, doubt: int) -> Mapping[str, Any] | None:
    """The body of the decision about a call's doubt with this number, from 1; None if there is none."""
    count = 0
    for event in journal.events(run_id):
        if event.key == key:
            count += event.type is EventType.IN_DOUBT
            if event.type is EventType.DECIDED and count == doubt:
                return event.body
    return None


def is_same_decision(taken: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether two decisions say the same; a value that the journal has sealed is not compared."""
    return taken["decision"] == sent["decision"] and (
        is_sealed(taken) or taken.get("value") == sent.get("value")
    )
