"""Kills the runs of a subject at random moments, resumes them, and checks the results.

A trial is one run with its resumptions, until it ends. Its first process is killed, and so is each later one
with some probability. After each kill the journal is read: every event seen before is there, the hash chain
is intact, no rule of the oracle is broken, and exactly the writes without an outcome are in doubt. A `resume`
then reports these and nothing else, with exit status 4, and does nothing; the state of the world determines
the decision. At the end the answer is the expected one, and a further `resume` returns it again without a new
event.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from callsheet.store import Journal
from crashes.forked import fork_command
from crashes.oracle import History, read_history
from crashes.processes import Ended, Kill, Killed, Moment, Process, Start, carry_out, still_alive
from crashes.subject import RUN_ID, Answer, Subject, answer_of

_LIMIT = 120.0
_GRACE = 20.0
_KILL_AGAIN = 0.35
_KINDS = {"startup": 2, "time": 8, "event": 6, "write": 4, "end": 1}
"""How often a moment is chosen in which way: while the process starts; uniform over the time of
the plan; after an event, uniform over those there are; after a write has begun; after the end."""
_SOON = 0.01


@dataclass(slots=True)
class Figures:
    """What a sweep has counted."""

    kills: int = 0
    before_the_run: int = 0
    """Kills before the run was in the journal: it is started again."""
    during_a_resume: int = 0
    missed: int = 0
    """Moments at which the process had ended already."""
    trials: int = 0
    resumed: int = 0
    in_doubt: int = 0
    """Times that calls were reported as in doubt."""
    retried: int = 0
    skipped: int = 0
    mixed: int = 0
    """Decisions about several calls, of which some had taken place: these were all skipped."""
    repeated: int = 0
    """Open calls that were made again: reads, or writes after a decision."""
    finished_again: int = 0
    """Calls that were made again, or had a second outcome, after they had finished."""
    lost: int = 0
    """Events that were seen in the journal before a crash and were gone after it."""
    twice: int = 0
    """Effects in the world beyond the first of each call."""
    twice_not_in_flight: int = 0
    """Those of calls that no crash had left without an outcome."""
    writes_twice: int = 0
    """Those of writes of which nobody had decided that they be made again."""
    orphans: int = 0
    equal: int = 0
    """Trials whose answer and variables were the expected ones."""
    problems: list[str] = field(default_factory=list[str])

    def decide(self, subject: Subject, history: History) -> str:
        """What a person decides about the calls in doubt, having looked at the world.

        One decision holds for all of them: where one took place none is repeated.
        """
        happened = {subject.happened(call) for call in history.in_doubt.values()}
        self.mixed += len(happened) > 1
        if True in happened:
            self.skipped += 1
            return "skip"
        self.retried += 1
        return "retry"

    def take_end(self, subject: Subject, history: History) -> list[str]:
        """Count what a run that has ended did more than once; the problems that are in it."""
        self.repeated += history.repeated
        self.finished_again += history.finished_again
        again = {key: times - 1 for key, times in subject.times().items() if times > 1}
        stray = {key: times for key, times in again.items() if key not in history.in_flight}
        writes = {k: n for k, n in again.items() if history.is_write(k) and k not in history.retried}
        self.twice += sum(again.values())
        self.twice_not_in_flight += sum(stray.values())
        self.writes_twice += sum(writes.values())
        return [f"{key} took place again and was not in flight" for key in stray] + [
            f"the write {key} took place again without a decision" for key in writes
        ]

    def add(self, other: Figures) -> None:
        """Count in what another sweep has counted."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """The uninterrupted run: its answer, its events, and when they were in the journal."""

    answer: Answer
    events: int
    writes: tuple[int, ...]
    """Where among the events the intents of writes stand."""
    startup: float
    body: float
    shutdown: float
    stamp: str


class Sweep:
    """A subject that is run and killed; `folder` is for the output of the commands."""

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        seed: int,
        say: Callable[[str], None],
        start: Start = fork_command,
    ) -> None:
        self._subject = subject
        self._start: Start = start
        self._folder = folder
        self._random = random.Random(seed)
        self._say = say
        self._reference: Reference | None = None
        self.figures = Figures()

    def run(self, kills: int) -> Figures:
        """Trials until the given number of kills met a living process."""
        while self.figures.kills < kills:
            reference = self._take_reference()
            trial = Trial(
                self._subject, self._folder, self._random, reference, kills, self.figures, self._start
            )
            equal = self.figures.equal
            try:
                problems = trial.run()
            except (AssertionError, TimeoutError, ValueError) as error:
                problems = [f"{type(error).__name__}: {error}"]
            if self._subject.stamp() != reference.stamp:
                self._say("the day has changed meanwhile: this trial is not counted")
                self.figures.equal = equal
                continue
            self.figures.trials += 1
            told = ", ".join(trial.story)
            self._say(f"trial {self.figures.trials}: {told}: {'; '.join(problems) or 'as expected'}")
            self.figures.problems += (f"trial {self.figures.trials} ({told}): {p}" for p in problems)
        return self.figures

    def _take_reference(self) -> Reference:
        if self._reference is None or self._reference.stamp != self._subject.stamp():
            self._reference = take_reference(self._subject, self._folder, self._start)
            r = self._reference
            self._say(
                f"the uninterrupted run: {r.events} events, {r.startup:.2f} s before the first,"
                f" {r.body:.2f} s to the last, {r.shutdown:.2f} s after it"
            )
        return self._reference


def take_reference(subject: Subject, folder: Path, start: Start) -> Reference:
    """Run the subject without a crash; raises ValueError if it does not end well."""
    stamp = subject.stamp()
    subject.prepare()
    ended = carry_out((*subject.run_arguments(), "--json"), folder, subject.env, _LIMIT, None, start)
    assert isinstance(ended, Ended)
    if ended.status:
        raise ValueError(f"the uninterrupted run ended with {ended.status}: {ended.stderr.strip()}")
    with Journal.open(subject.journal) as journal:
        history = read_history(journal, RUN_ID)
    problems = history.problems + subject.world_problems(history)
    if problems:
        raise ValueError(f"the uninterrupted run: {'; '.join(problems)}")
    body = history.events[-1].mono - history.events[0].mono
    rest = max(0.0, ended.seconds - body)
    shutdown = min(1.0, rest / 3)
    startup = rest - shutdown
    return Reference(
        answer_of(json.loads(ended.stdout)),
        len(history.events),
        history.writes,
        startup,
        body,
        shutdown,
        stamp,
    )


class Trial:
    """One run, killed and resumed until it has ended."""

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        chance: random.Random,
        reference: Reference,
        kills: int,
        figures: Figures,
        start: Start,
    ) -> None:
        self._start: Start = start
        self._subject = subject
        self._folder = folder
        self._random = chance
        self._reference = reference
        self._most = kills
        self._figures = figures
        self._history = History(())
        self._left: frozenset[Process] = frozenset()
        self._problems: list[str] = []
        self.story: list[str] = []
        """What was done, in a few words."""

    def run(self) -> list[str]:
        """What was wrong."""
        self._subject.prepare()
        command = [*self._subject.run_arguments(), "--json"]
        wants_kill = True
        ended: Ended | None = None
        while ended is None:
            kill = self._choose() if wants_kill and self._figures.kills < self._most else None
            result = self._carry_out(command, kill)
            if isinstance(result, Ended):
                self._figures.missed += kill is not None
                command, ended = self._after_end(command, result)
            else:
                assert kill is not None
                self._left |= result.started
                self._note_kill(kill.moment, result.seen, is_resume=command[0] == "resume")
                command = self._resume() if self._history.events else command
            wants_kill = self._random.random() < _KILL_AGAIN
        self._finish(ended)
        return self._problems

    def _choose(self) -> Kill:
        """A moment in the rest of the run, by time or by events."""
        reference, chance = self._reference, self._random
        done = len(self._history.events)
        rest = max(1, reference.events - done)
        writes = [seq - done for seq in reference.writes if seq > done]
        soon = chance.choice((0.0, chance.uniform(0, _SOON)))
        kind = chance.choices(list(_KINDS), list(_KINDS.values()))[0]
        match kind:
            case "startup":
                moment = Moment(kind, 0, chance.uniform(0, reference.startup))
            case "time":
                share = rest / reference.events
                moment = Moment(kind, 1, chance.uniform(0, reference.body * share))
            case "event":
                moment = Moment(kind, chance.randint(1, rest), soon)
            case "write" if writes:
                moment = Moment(kind, chance.choice(writes), soon)
            case _:
                moment = Moment(kind, rest, chance.uniform(0, reference.shutdown))
        return Kill(moment, self._subject.journal)

    def _carry_out(self, command: Sequence[str], kill: Kill | None = None) -> Ended | Killed:
        return carry_out(command, self._folder, self._subject.env, _LIMIT, kill, self._start)

    def _resume(self, *more: str) -> list[str]:
        return ["resume", RUN_ID, "--journal", str(self._subject.journal), "--json", *more]

    def _note_kill(self, moment: Moment, seen: int, *, is_resume: bool) -> None:
        figures = self._figures
        figures.kills += 1
        figures.during_a_resume += is_resume
        history = self._read()
        if not self._left:
            self._problems += self._subject.world_problems(history)
        if len(history.events) < seen:
            figures.lost += seen - len(history.events)
            self._problems.append(f"{seen} events were seen and {len(history.events)} are left")
        self.story.append(
            f"{'resume ' if is_resume else ''}killed ({moment.kind}) at {len(history.events)} events"
        )
        if not history.events:
            figures.before_the_run += 1
            answer = self._carry_out(self._resume())
            assert isinstance(answer, Ended)
            if answer.status != 2 or "JRN002" not in answer.stdout + answer.stderr:
                self._problems.append(f"resume of a run that is not there: {answer}")

    def _read(self) -> History:
        """The journal's events, checked, and compared with those before."""
        with Journal.open(self._subject.journal) as journal:
            history = read_history(journal, RUN_ID)
        self._problems += history.continues(self._history)
        self._history = history
        return history

    def _after_end(self, command: list[str], ended: Ended) -> tuple[list[str], Ended | None]:
        """The next command after one that has ended, or the end of the trial."""
        must_ask = command[0] == "resume" and "--in-doubt" not in command and bool(self._history.in_doubt)
        if command[0] == "resume":
            self._figures.resumed += 1
        if must_ask != (ended.status == 4):
            self._problems.append(
                f"{' '.join(command[:2])} ended with {ended.status}, in doubt were"
                f" {sorted(self._history.in_doubt)}: {ended.stderr.strip()[-300:]}"
            )
        if ended.status != 4:
            return command, ended
        return self._answer_doubts(json.loads(ended.stdout)), None

    def _answer_doubts(self, told: dict[str, Any]) -> list[str]:
        """Compare the reported doubts with the journal, inspect the world, and decide."""
        doubts = self._history.in_doubt
        reported = {(d["key"], d["step"], d["tool"]) for d in told["in_doubt"]}
        if reported != {(c.key, c.step, c.tool) for c in doubts.values()} or told["status"] != "in_doubt":
            self._problems.append(f"{sorted(reported)} are told to be in doubt instead of {sorted(doubts)}")
        self._figures.in_doubt += 1
        self._let_all_end()
        history = self._read()
        self._problems += self._subject.world_problems(history)
        decision = self._figures.decide(self._subject, history)
        self.story.append(f"{' '.join(sorted(doubts))} in doubt: {decision}")
        return self._resume("--in-doubt", decision)

    def _let_all_end(self) -> None:
        """Wait for the child processes of the killed ones; those that do not end are orphans."""
        alive = still_alive(self._left, _GRACE)
        self._left = frozenset()
        self._figures.orphans += len(alive)
        if alive:
            self._problems.append(f"processes {[p.pid for p in alive]} are left")

    def _finish(self, ended: Ended) -> None:
        """Check the end of the run, and that it can be asked for again."""
        self._let_all_end()
        history = self._read()
        self._problems += history.problems + self._subject.world_problems(history)
        self._problems += self._figures.take_end(self._subject, history)
        if not history.has_ended:
            self._problems.append(f"the journal has no end; status {ended.status}: {ended.stderr[-300:]}")
            return
        again = self._carry_out(self._resume())
        assert isinstance(again, Ended)
        if len(self._read().events) != len(history.events):
            self._problems.append("asking for the result again has added events")
        expected = self._subject.expected(self._reference.answer, history)
        answers = [answer_of(json.loads(e.stdout)) for e in (ended, again) if e.status == 0]
        wrong = [answer for answer in answers if answer != expected]
        if len(answers) == 2 and not wrong:
            self._figures.equal += 1
        else:
            statuses = (ended.status, again.status)
            self._problems.append(f"statuses {statuses}, answers {wrong} instead of {expected}")
