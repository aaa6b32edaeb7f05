"""`--state FILE`: reads the completed steps of a plan from a state file of another program."""

from __future__ import annotations

from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.planning.checkpoints import Checkpoint, read_checkpoint

_MAX_BYTES = 100_000_000


def read_state(path: Path, plan: Plan) -> Checkpoint:
    """The state of the plan. Raises CallsheetError (PLN028) if the file cannot be read or does not fit."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise _unreadable(path, f"it is larger than {_MAX_BYTES // 1_000_000} MB")
        return read_checkpoint(data.decode("utf-8"), plan)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8 text") from error


def _unreadable(path: Path, reason: str) -> CallsheetError:
    return CallsheetError.single(
        "PLN028",
        f"the run cannot be taken over: {path} cannot be read: {reason}",
        help="--state takes the ID_state.json that another program has written",
    )
