"""Kills a run of Python tools at every single write of its journal.

Each execution of the run is a forked process that counts the points around its journal's writes: before a
write, at the start of each SQL statement in it (so also inside a transaction, before its COMMIT), around
operations on a tail, and after the write is durable but before anybody is told. It kills itself at the n-th
point; n goes from 1 until there is no such point any more. The process that resumes the run is killed too, at
each of its points in turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.api.requirements import facts_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import open_toolbox
from callsheet.ir import Plan
from callsheet.machine import Decision, Limits
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import Durability, Journal, connections, ledger, tail
from callsheet.store.start import Start
from crashes.oracle import History, read_history
from crashes.subject import RUN_ID, Answer, answer_of
from crashes.sweep import Figures
from crashes.world import TOOLS, World

_LIMITS = Limits(retry_delay=0.001, schedule="sequential")


class Life(NamedTuple):
    """The result of one process: whether it was killed, otherwise its output."""

    is_killed: bool
    points: int = 0
    doubts: frozenset[str] = frozenset()
    answer: Answer | None = None


class _Points:
    """Counts the points and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.count = 0

    def pass_one(self, *_: object) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Insert the points around the writes of this process's journal."""
        connect = connections.connect_writing

        def connect_watched(path: Path, durability: Durability) -> Any:
            made = connect(path, durability)
            made.set_trace_callback(self.pass_one)
            return made

        connections.connect_writing = connect_watched
        for name in ("write", "write_own", "claim"):
            setattr(ledger.Ledger, name, self._around(getattr(ledger.Ledger, name)))
        for name in ("append", "clear", "close"):
            setattr(tail.Tail, name, self._around(getattr(tail.Tail, name)))
        for module, name in ((tail, "_write"), (os, "fdatasync")):
            setattr(module, name, self._around(getattr(module, name)))

    def _around(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            self.pass_one()
            result = write(*arguments)
            self.pass_one()
            return result

        return watched


class Runner:
    """Executes the processes of one run after another."""

    def __init__(self, folder: Path, file: Path, durability: Durability, *, tails_at_once: bool) -> None:
        self.world = World(folder, file, pause=0.0)
        self._tails_at_once = tails_at_once
        self._told = folder / "told.json"
        self._durability = durability
        self._plan = self.world.plan

    def live(self, last: int = 0, decision: str | None = None, *, resumes: bool = False) -> Life:
        """Start or resume the run in a process that kills itself at its moment number `last`."""
        self._told.unlink(missing_ok=True)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._be_born(last, decision, resumes=resumes)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return Life(True)
        if status or not self._told.exists():
            raise ValueError(f"a life ended with wait status {status}")
        told = json.loads(self._told.read_text())
        return Life(False, told["points"], frozenset(told["doubts"]), told["answer"])

    def read(self) -> History:
        """The content of the journal."""
        with Journal.open(self.world.journal, self._durability) as journal:
            return read_history(journal, RUN_ID)

    def _be_born(self, last: int, decision: str | None, *, resumes: bool) -> None:
        """The whole life of the forked process; never returns."""
        status = 1
        try:
            os.environ.update(self.world.env)
            points = _Points(last)
            points.watch()
            if self._tails_at_once:
                ledger.ENOUGH = 0
            with Journal.open(self.world.journal, self._durability) as journal:
                outcome = asyncio.run(self._resume(journal, decision) if resumes else self._start(journal))
            result = outcome.result
            answer = None
            if result is not None:
                answer = answer_of(
                    {
                        "status": str(result.status),
                        "response": result.response,
                        "variables": result.variables,
                    }
                )
            told = {
                "points": points.count,
                "doubts": [call.key for call in outcome.in_doubt],
                "answer": answer,
            }
            self._told.write_text(json.dumps(told))
            status = 0
        except BaseException as error:  # a forked process must not go on as its parent
            print(f"a life failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    async def _start(self, journal: Journal) -> RunOutcome:
        async with open_toolbox(self._setup(), self._plan) as toolbox:
            launch = Launch(facts=facts_of(self._plan, toolbox.registry), limits=_LIMITS)
            return await start_run(self._plan, toolbox.ports(), launch, journal, RUN_ID)

    async def _resume(self, journal: Journal, decision: str | None) -> RunOutcome:
        @asynccontextmanager
        async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
            async with open_toolbox(self._setup(), plan) as toolbox:
                yield toolbox.ports()

        decided = Amendments(in_doubt=None if decision is None else Decision(decision))
        return await resume_run(journal, RUN_ID, ports_for, decided)

    def _setup(self) -> Setup:
        folder = self.world.journal.parent
        return Setup(workspace=folder, data=folder / "data", tools_files=(TOOLS,), discovers=False)


def sweep_points(
    folder: Path,
    file: Path,
    durability: Durability,
    every: int,
    seed: int,
    say: Callable[[str], None],
    *,
    tails_at_once: bool = False,
) -> Figures:
    """Kill runs of the plan in `file`, each at a later moment, and their resumptions at some moment.

    Of the moments around the writes of the journal each `every`-th is taken. With `tails_at_once` synced
    commits wait in a tail from the first one on that may, and not only in long bursts.
    """
    runner = Runner(folder, file, durability, tails_at_once=tails_at_once)
    runner.world.prepare()
    whole = runner.live()
    assert whole.answer is not None
    say(f"the uninterrupted run has {whole.points} moments around its writes")
    figures = Figures()
    first = random.Random(seed).randrange(every) + 1
    again = first
    for last in range(first, whole.points * 2, every):
        trial = _Trial(runner, whole.answer, figures)
        before = len(figures.problems)
        if not trial.run(last, again):
            figures.missed += 1
            break
        again = again + 1 if trial.was_killed_again else 1
        say(f"moment {last}: {', '.join(figures.problems[before:]) or 'as expected'}")
    return figures


class _Trial:
    """One run that is killed at one moment, and its resumption at another."""

    def __init__(self, runner: Runner, reference: Answer, figures: Figures) -> None:
        self._runner = runner
        self._reference = reference
        self._figures = figures
        self._history = History(())
        self._where = ""
        self.was_killed_again = False

    def run(self, last: int, again: int) -> bool:
        """Whether the first process reached such a point."""
        figures, runner = self._figures, self._runner
        runner.world.prepare()
        if not runner.live(last).is_killed:
            return False
        figures.trials += 1
        self._where = f"killed at {last}, then at {again}"
        self._note_kill()
        life = self._next_life(again)
        if life.is_killed:
            self.was_killed_again = True
            figures.during_a_resume += bool(self._history.events)
            self._note_kill()
        while life.answer is None:
            life = self._next_life(0)
        self._finish(life)
        return True

    def _next_life(self, last: int) -> Life:
        """Start the run again if the journal has nothing of it; otherwise decide if needed, and resume it."""
        figures, runner, doubts = self._figures, self._runner, self._history.in_doubt
        if not self._history.events:
            return runner.live(last)
        decision: str | None = None
        if doubts:
            asked = runner.live(resumes=True)
            if asked.doubts != doubts.keys() or asked.answer is not None:
                self._wrong(f"{sorted(asked.doubts)} are told to be in doubt instead of {sorted(doubts)}")
            figures.in_doubt += 1
            decision = figures.decide(runner.world, self._history)
        figures.resumed += 1
        life = runner.live(last, decision, resumes=True)
        if life.doubts:
            self._wrong(f"{sorted(life.doubts)} are in doubt although it was decided")
        return life

    def _note_kill(self) -> None:
        history = self._runner.read()
        self._figures.kills += 1
        self._figures.before_the_run += not history.events
        self._check(history)

    def _finish(self, life: Life) -> None:
        figures, history = self._figures, self._runner.read()
        self._check(history)
        for problem in figures.take_end(self._runner.world, history):
            self._wrong(problem)
        if not history.has_ended:
            self._wrong("the journal has no end")
        expected = self._runner.world.expected(self._reference, history)
        if life.answer == expected:
            figures.equal += 1
        else:
            self._wrong(f"the answer is {life.answer} instead of {expected}")

    def _check(self, history: History) -> None:
        found = (
            history.problems + history.continues(self._history) + self._runner.world.world_problems(history)
        )
        self._history = history
        for problem in found:
            self._wrong(problem)

    def _wrong(self, what: str) -> None:
        self._figures.problems.append(f"{self._where}: {what}")
