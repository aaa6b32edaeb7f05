"""Evaluates large expressions of plans beside their workflows, in local activities that record the values.

In: an expression with what it reads, which never leaves the process: a local activity is executed by the
worker that drives the workflow. Out: the value as a marker of the history, so a workflow task stays short
however large an expression is, and a replay has the value without evaluating anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from callsheet.machine.tree.apart import UNSTORABLE, Evaluation
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, OrderedJson
from callsheet.runtime.engines.temporal.run_order import EVALUATE
from callsheet.runtime.gateway import describe

HAND_OVER = "callsheet: hand over an evaluation"
"""The name among a worker's extern functions with which a run gives it an evaluation, or takes that back."""
_THREADS = 2
_LONGEST = timedelta(hours=1)


class Evaluations:
    """The evaluations of all runs that one worker drives."""

    def __init__(self, claims: ClaimCheck) -> None:
        self._claims = claims
        self.handed: dict[str, Evaluation] = {}
        """Those that runs wait for, by token."""
        self._threads = ThreadPoolExecutor(_THREADS, "callsheet-evaluation")

    def close(self) -> None:
        """Forget what was handed over; what is under way ends in the background."""
        self.handed.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def hand_over(self, token: str, evaluation: Evaluation | None) -> None:
        """Take an evaluation whose activity, with this token, is about to start; None if it is over."""
        if evaluation is None:
            self.handed.pop(token, None)
        else:
            self.handed[token] = evaluation

    @activity.defn(name=EVALUATE)
    async def evaluate(self, token: str) -> RawValue:
        """Evaluate what was handed over and return what it gives, as data."""
        evaluation = self.handed.get(token)
        if evaluation is None:
            raise ApplicationError(f"this worker has no evaluation {token}")
        payload = await asyncio.get_running_loop().run_in_executor(self._threads, _payload_of, evaluation)
        (encoded,) = await self._claims.of(activity.info().workflow_id or "").encode([payload])
        return RawValue(encoded)


def _payload_of(evaluation: Evaluation) -> Payload:
    """What an evaluation gives. Raises ApplicationError for a fault, which ends the run at once."""
    try:
        return OrderedJson().to_payload(evaluation.made())
    except ValueError:  # JSON text has no integer of thousands of digits
        return OrderedJson().to_payload(UNSTORABLE)
    except Exception as error:
        said = f"an expression could not be evaluated: {describe(error)}"
        raise ApplicationError(said, type=type(error).__name__, non_retryable=True) from error


async def evaluated(evaluation: Evaluation, number: int) -> dict[str, Any]:
    """In a workflow: what an expression gives, as data; `number` is that of the evaluation in its run."""
    functions = cast("dict[str, Callable[[str, Evaluation | None], None]]", workflow.extern_functions())  # pyright: ignore[reportUnknownMemberType]
    token = f"{workflow.info().run_id}/{number}"
    hand_over = functions.get(HAND_OVER)
    if hand_over is not None:  # a replay by a client executes no activity
        hand_over(token, evaluation)
    try:
        return await workflow.execute_local_activity(
            EVALUATE, token, start_to_close_timeout=_LONGEST, result_type=dict[str, Any]
        )
    finally:
        if hand_over is not None:  # also in a replay, in which no activity takes it
            hand_over(token, None)
