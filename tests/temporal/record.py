#!/usr/bin/env python3
"""Records histories of runs on a Temporal server, for the test that replays earlier versions.

    python -m tests.temporal.record FOLDER

Existing files are kept: a version of the workflow that replays them differently is a bug.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.plans import FACTS, INPUTS, LIMITS, plan_of
from tests.runtime.test_drivers_agree import ports_of
from tests.temporal.fleet import Fleet, fleet

from callsheet.machine import Limits
from callsheet.runtime.answers import Answer
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.launch import Launch

WORLD = 7
PLANS = {
    "loop": 'S1: ?FOREACH ($i IN [1, 2, 3, 4]) THEN @READ ($i) > $a ON_FAIL @RETRY(1)\nS2: @RESPOND ("$a")',
    "group": '@PARALLEL {\nS1: @READ ($a) > $x\nS2: @WRITE ($b) > $y\n}\nS3: @RESPOND ("$x $y")',
    "model": 'S1: @LLM_EXTRACT ($b) > $z\nS2: @RESPOND ("$z")',
    "retry": 'S1: @FAULTY ($a) > $x ON_FAIL @RETRY(2)\nS2: @RESPOND ("$x")',
    "jumps": 'S1: @READ ($a) > $c ON_FAIL GOTO S3\nS2: ?IF ($c == 1) THEN GOTO S1\nS3: @RESPOND ("$c")',
    "replan": 'S1: @READ ($a) > $c\nS2: RE-PLAN ("more")\nS3: @RESPOND ("$c")',
    "asks": 'S1: @ASK_HUMAN ("which?", options=["a", "b"]) > $y\nS2: @WRITE ($y) > $z\nS3: @RESPOND ("$y")',
}


async def _recorded(fleet: Fleet, text: str, limits: Limits) -> dict[str, Any]:
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=limits)
    run_id = await fleet.start(plan_of(text), ports_of(WORLD), launch)
    outcome = await client.wait_for(fleet.temporal_run(run_id))
    while outcome.result is None:
        await client.answer(fleet.temporal_run(run_id), Answer.of("b", by="Ada"), None)
        outcome = await client.wait_for(fleet.temporal_run(run_id))
    history = await fleet.temporal_run(run_id).handle.fetch_history()
    rows = [[event.type, event.key] for event in fleet.journal.events(run_id)][1:]
    return {
        "id": history.workflow_id,
        "status": outcome.result.status,
        "response": outcome.result.response,
        "happened": rows,
        "history": _nameless(json.loads(re.sub(r"\d+@[\w-]+", "somebody", history.to_json()))),
    }


def _nameless(told: Any) -> Any:
    """A history without the names of its participants."""
    if isinstance(told, list):
        return [_nameless(item) for item in told]
    if isinstance(told, dict):
        return {name: _nameless(item) for name, item in told.items() if name != "identity"}
    return told


def main(folder: Path) -> None:
    """Record missing histories."""
    folder.mkdir(exist_ok=True)
    with fleet() as carried:
        for name, text in PLANS.items():
            place = folder / f"{name}.json.gz"
            if not place.exists():
                told = carried.there(_recorded(carried, text, LIMITS))
                place.write_bytes(gzip.compress(json.dumps(told, sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
