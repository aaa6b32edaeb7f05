"""A plan of built-in and Python tools as a subject: without a server, so that a trial takes a second.

Its tools log every call. Its oracle: a line for every call that has an outcome; no line for a call whose
intent is not in the journal; no more lines of a call than intents; at most one line of a write in any case,
since it is repeated only if it was not made.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from crashes.oracle import Call, History
from crashes.subject import RUN_ID, Answer

PLAN = Path(__file__).with_name("world.ltp")
SMALL = Path(__file__).with_name("small.ltp")
LONG = Path(__file__).with_name("long.ltp")
LONG_INPUTS = {"many": list(range(1_300)), "texts": [f"t{n}" for n in range(60)]}
"""With these the plan in LONG makes more than 5,200 calls: its journal has over 10,000 events."""
TOOLS = Path(__file__).with_name("world_tools.py")
RETRY_DELAY = 0.02
_WRITES = frozenset({"APPEND", "FLAKY_APPEND"})
_UNLOGGED = frozenset({"TOTAL"})


class World:
    """A plan and its log in a folder; a tool waits for `pause` seconds before and after its effect."""

    def __init__(
        self,
        folder: Path,
        file: Path = PLAN,
        pause: float = 0.004,
        inputs: Mapping[str, object] | None = None,
    ) -> None:
        self._file = file
        self._inputs = [f"--var={name}={json.dumps(value)}" for name, value in (inputs or {}).items()]
        self.plan: Plan = parse(file.read_text(encoding="utf-8")).require()
        self._folder = folder / "world"
        self.journal = self._folder / "journal.db"
        self.env: Mapping[str, str] = {
            "CALLSHEET_CRASH_WORLD": str(self._folder),
            "CALLSHEET_CRASH_PAUSE": str(pause),
            "XDG_DATA_HOME": str(self._folder / "data"),
        }
        self._outputs = {
            step.id: (step.output.var, step.foreach is not None)
            for step in self.plan.steps
            if step.output is not None
        }

    def prepare(self) -> None:
        """Recreate the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def run_arguments(self) -> Sequence[str]:
        """The command that starts the plan."""
        return (
            *("run", str(self._file), "--tools", str(TOOLS), "--workspace", str(self._folder)),
            *("--journal", str(self.journal), "--run-id", RUN_ID, "--retry-delay", str(RETRY_DELAY)),
            *self._inputs,
        )

    def stamp(self) -> str:
        """The answer depends on nothing else."""
        return ""

    def happened(self, call: Call) -> bool:
        """Whether the call is in the log."""
        return self._log()[call.key, call.tool] > 0

    def times(self) -> Mapping[str, int]:
        """The lines of the log, by key."""
        return Counter({key: times for (key, _), times in self._log().items()})

    def expected(self, reference: Answer, history: History) -> Answer:
        """As in the reference, with null for what was skipped."""
        answer = deepcopy(reference)
        for call in history.skipped.values():
            name, is_list = self._outputs[call.step]
            if is_list:
                answer["variables"][name][call.item] = None
            else:
                answer["variables"][name] = None
        return answer

    def world_problems(self, history: History) -> list[str]:
        """Contradictions between the log and the journal."""
        log = self._log()
        found = [
            f"{key} {tool} was called {times} times, of which the journal knows {history.intents.get(key, 0)}"
            for (key, tool), times in log.items()
            if times > history.intents.get(key, 0)
        ]
        found += [
            f"the write {key} took place {times} times"
            for (key, tool), times in log.items()
            if times > 1 and tool in _WRITES
        ]
        logged = {key for key, _ in log}
        found += [
            f"{key} has an outcome and was not called"
            for key in sorted(history.finished - set(history.skipped) - logged)
            if history.tool_of(key) not in _UNLOGGED
        ]
        return found

    def _log(self) -> Counter[tuple[str, str]]:
        path = self._folder / "calls.log"
        if not path.exists():
            return Counter()
        lines = path.read_text(encoding="utf-8").splitlines()
        return Counter((key, tool) for key, _, tool in (line.partition(" ") for line in lines))
