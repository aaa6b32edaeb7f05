"""One action on many runs, those that a filter finds or that were picked: cancel, pause, delete …"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field

from callsheet.apps.hosting import RerunRequest, ResumeOptions
from callsheet.apps.hosting.recorded import delete_run
from callsheet.apps.operations.bulk import (
    STILL_UNDER_WAY,
    BulkAction,
    BulkRow,
    Selection,
    Skipped,
    Target,
    bulk_row,
    reason_in,
    selected_for,
)
from callsheet.apps.table.arguments import (
    Line,
    RunId,
)
from callsheet.apps.table.operation import (
    Arguments,
    Context,
    HttpFace,
    Operation,
    operation,
)
from callsheet.apps.table.runs import FilterArguments
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.cancelling import PATIENCE


class BulkArguments(Arguments):
    """An action, and the runs that it is for."""

    action: Literal["cancel", "pause", "resume", "rerun", "delete"] = Field(
        description="rerun: as new runs, from the step that they failed at, else from the beginning."
    )
    run_ids: Annotated[list[RunId], Field(max_length=1_000)] | None = Field(
        None, description="The ids of the runs; this or where."
    )
    where: FilterArguments | None = Field(None, description="The conditions, as for listing runs; {} is all.")
    expected: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="The number of `runs` in the preview, which is the response without it. With their "
        "run_ids, it is done to exactly these: where may find others by now.",
    )
    effects: bool = Field(
        False, description="For rerun: whether calls that change something outside are allowed."
    )
    reason: Line = Field(
        "", description="For cancel and pause: the reason that is recorded, else `cancelled`."
    )


class BulkResult(BulkRow):
    """What was done, or without `expected`, what would be done."""

    is_preview: bool


async def in_bulk(context: Context, args: BulkArguments) -> BulkResult:
    """Do one thing to many runs; without `expected`, only say to which.

    If the runs are no longer as many as `expected`, nothing is done.
    """
    host, action = context.host, BulkAction(args.action)
    if (args.run_ids is None) == (args.where is None):
        raise context.wrong("the runs are either run_ids or where")
    which = args.where.wanted(context) if args.where is not None else list(args.run_ids or ())
    chosen = await host.beside(lambda: selected_for(host.journal, action, which, host.status))
    if args.expected is None:
        return _result(action, chosen, [], is_preview=True)
    if args.expected != len(chosen.targets):
        raise CallsheetError.single(
            "API030",
            f"{len(chosen.targets)} runs fit now, but {args.expected} were expected: nothing was done",
            help="look at the preview again: the same request without `expected`",
        )
    done, new, failed = list[Target](), list[str](), list[Skipped]()
    if action is BulkAction.PAUSE:  # none makes another call while others are waited for
        for target in chosen.targets:
            with suppress(CallsheetError):
                await host.pause(target.run_id, context.by, args.reason, patience=0)
    deadline = time.monotonic() + PATIENCE
    for target in chosen.targets:
        try:
            made = await _do(context, action, args, target, deadline)
        except CallsheetError as error:
            failed.append(Skipped(target.run_id, reason_in(error)))
            continue
        done.append(target)
        new += [made] if made else []
    left = chosen._replace(targets=tuple(done), skipped=(*chosen.skipped, *failed))
    return _result(action, left, new, is_preview=False)


async def _do(
    context: Context, action: BulkAction, args: BulkArguments, target: Target, deadline: float
) -> str:
    """Do it to one run; returns the id of a new run, else "". Calls are awaited until the deadline."""
    host, run_id = context.host, target.run_id
    match action:
        case BulkAction.CANCEL:
            await host.cancel(run_id, args.reason or "cancelled")
        case BulkAction.PAUSE:
            left = max(0.0, deadline - time.monotonic())
            if await host.pause(run_id, context.by, args.reason, left) is None:
                raise CallsheetError.single("JRN004", STILL_UNDER_WAY)
        case BulkAction.RESUME:
            await host.resume(run_id, ResumeOptions(unpaused_by=context.by))
        case BulkAction.DELETE:
            await host.beside(partial(_delete, context, run_id))
        case BulkAction.RERUN:
            request = RerunRequest(place=target.step, effects=args.effects, by=context.by)
            return (await host.rerun(run_id, request)).run_id
        case _:
            assert_never(action)
    return ""


def _delete(context: Context, run_id: str) -> None:
    delete_run(context.host.journal, context.host.info(run_id))


def _result(action: BulkAction, chosen: Selection, new: list[str], *, is_preview: bool) -> BulkResult:
    done = 0 if is_preview else len(chosen.targets)
    return {**bulk_row(action, chosen, done, new), "is_preview": is_preview}


BULK_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        in_bulk,
        http=HttpFace(
            method="POST",
            path="/v1/bulk",
            summary="Cancel, pause, resume, rerun or delete many runs",
            tag="runs",
            responses={200: "What was done, or would be."},
            problems=(404, 409),
        ),
    ),
)
"""The operation on many runs."""
