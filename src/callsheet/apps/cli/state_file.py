"""`--state FILE`: what is done of a plan elsewhere, by the state file that another program has written."""

from __future__ import annotations

from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.planning.checkpoints import Checkpoint, read_checkpoint


def read_state(path: Path, plan: Plan) -> Checkpoint:
    """What the file says of the plan; raises CallsheetError (PLN028) if it cannot be read or does not fit."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise CallsheetError.single(
            "PLN028",
            f"the run cannot be taken over: {path} cannot be read: {why}",
            help="--state takes the ID_state.json that another program has written",
        ) from error
    return read_checkpoint(text, plan)
