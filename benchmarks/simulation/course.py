"""The course of a run on the simulated machine: who starts and resumes it, who answers, how it ended."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random

from benchmarks.simulation.case import INPUTS, Case, End, Report
from benchmarks.simulation.kernel import Kernel
from benchmarks.simulation.process import Killed, Process
from benchmarks.simulation.world import AGENT, FACTS, INVERSE, World

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import text_of
from callsheet.ir import Plan, plan_hash
from callsheet.ir.inverse import Inverse
from callsheet.machine import Decision
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.runtime.answers import Answer
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import cancel_now
from callsheet.runtime.doubt import RunOutcome, decide_calls
from callsheet.runtime.gateway import Ports
from callsheet.runtime.inbox import answer_run, asks_of
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import resume_run, start_run
from callsheet.runtime.undo import prepare_undo
from callsheet.sealing.credentials import Shapes
from callsheet.sealing.masking import Finder
from callsheet.store import Durability, Journal
from callsheet.store.seal_keys import KeyStore
from callsheet.store.start import Start
from callsheet.store.undoings import UNDOES

RUN = "r"
_MOST_ROUNDS = 3_000
_LONGEST = 50_000.0
_FINDER = Finder(shapes=Shapes())
_KEYS = KeyStore(Path("/nowhere/keys"), {})
_EXPECTED = {"JRN004", "JRN003", "JRN005", "JRN006", "JRN013", "JRN010", "JRN017"}
"""Errors of a process that another owner, a bad disk or a lost race explain."""


@contextmanager
def memory_folder() -> Generator[Path]:
    """A folder in memory if there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


_template: list[bytes] = []


def _empty_journal() -> bytes:
    """The bytes of a journal without runs."""
    if not _template:
        with memory_folder() as folder:
            with Journal.open(folder / "journal.db"):
                pass
            _template.append((folder / "journal.db").read_bytes())
    return _template[0]


class Course:
    """One run of a case, from its start to its end, with the processes and people that carry it there."""

    def __init__(self, case: Case, report: Report) -> None:
        self.report = report
        self.seed, self.plan, self.text, settings = case
        self.settings = settings
        self.end: End | None = None
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.chance = Random(f"{self.seed} schedule")
        self.kernel = Kernel(self.folder, self.chance, self.say)
        self.world = World(self.seed, self.kernel, settings.pace)
        self.world.has_server = settings.on_server
        self.kernel.disk.commits_are_synced = settings.durability is Durability.FULL
        (self.kernel.disk.root / "journal.db").write_bytes(_empty_journal())
        self.owners: list[Process] = []
        self.person: Process | None = None
        self.person_journal: Journal | None = None
        self.answered: set[str] = set()
        self.has_faults = False
        self.has_lost = False
        """Whether the power has taken what had been durable, as `durability=normal` allows."""
        self.asks = "@ASK_HUMAN" in self.text or bool(settings.approve or settings.policy)
        self.irreversible: list[str] = []
        """What calls have written that were named as not to be undone."""
        self.is_cancelled = False
        """Whether a person has begun to cancel it, or to ask its owner to."""
        self.told_end = ""
        """The status with which it had ended, as that person was told."""
        self.on_spawn: Callable[[Process], None] = lambda _: None
        """Is told of each new process."""

    def say(self, line: str) -> None:
        self.report.trace.append(f"{self.kernel.now:11.6f}  {line}")

    @property
    def path(self) -> Path:
        return self.kernel.disk.root / "journal.db"

    def journal(self, durability: Durability) -> Journal:
        kernel = self.kernel
        return Journal.open(
            self.path,
            durability,
            clock=kernel.wall,
            monotonic=kernel.monotonic,
            keys=_KEYS,
            finder=_FINDER,
        )

    # ------------------------------------------------------------ processes of the run

    def start_owner(self) -> Process:
        """A new process that starts the run, or goes on with it."""
        process = self.kernel.spawn(f"owner{len(self.owners) + 1}")
        self.on_spawn(process)
        self.owners.append(process)
        process.start(self._own())
        self.say(f"{process.name} starts")
        return process

    async def _own(self) -> RunOutcome:
        with self.journal(self.settings.durability) as journal:
            present = Respondents(waits=self.settings.waits or not self.has_faults, poll=0.5)
            if not journal.runs():
                s = self.settings
                launch = Launch(
                    {**FACTS, **AGENT, **OWN_FACTS},
                    inputs=INPUTS,
                    limits=s.limits,
                    source=self.text,
                    approve=s.approve,
                    policy=s.policy,
                    verified=plan_hash(self.plan),
                )
                return await start_run(self.plan, self._ports(), launch, journal, RUN, present=present)
            return await resume_run(journal, RUN, self._opened, present=present)

    def _ports(self) -> Ports:
        return Ports(self.world.route, turn=self.world.turn)

    @asynccontextmanager
    async def _opened(self, start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield self._ports()

    # ------------------------------------------------------------ people

    def as_person(self, work: Callable[[Journal], None]) -> None:
        """Do something as a person's process does, which may be killed within."""
        if self.person is None or self.person.is_dead:
            self.person = self.kernel.spawn("person")
            self.on_spawn(self.person)
            self.person_journal = None
        with self.kernel.running(self.person):
            try:
                if self.person_journal is None:
                    self.person_journal = self.journal(Durability.FULL)  # as commands for people do
                work(self.person_journal)
                self.kernel.disk.synced_commits()
            except Killed:
                self.say("person: killed")
            except CallsheetError as error:
                self.say(f"person: {error.diagnostics[0].code} {error.diagnostics[0].message[:90]}")

    def answer(self, journal: Journal) -> None:
        """Answer what is open, most of it."""
        if not journal.runs():
            return
        for ask in asks_of(journal, RUN):
            if ask.is_answered or self.chance.random() < 0.3:
                continue
            dice = self.world.dice("answer", ask.key)
            denied = dice.random() < 0.2
            if ask.kind == "approval":
                answer = Answer.deny() if denied else Answer.approve()
            else:
                answer = Answer.of(dice.choice(("yes", "no")))
            answer_run(journal, RUN, answer, ask.key, digest=ask.digest)
            self.say(f"person: answers {ask.key}")
            if self.chance.random() < 0.2:
                with suppress(CallsheetError):
                    answer_run(journal, RUN, answer, ask.key, digest=ask.digest)

    def cancel(self, journal: Journal) -> None:
        """End the run for good, or ask its owner to."""
        if not journal.runs():
            return
        self.is_cancelled = True  # also if the process dies when that is durable
        outcome = cancel_now(journal, RUN, "enough")
        if outcome is not None and outcome.result is not None:
            self.told_end = str(outcome.result.status)
        self.say(f"person: cancels the run: {self.told_end or 'its owner is asked'}")

    def decide(self, outcome: RunOutcome) -> Callable[[Journal], None]:
        """Decide calls in doubt as they have happened."""

        def work(journal: Journal) -> None:
            for call in outcome.in_doubt:
                found = self.world.took_place(call.key)
                self.say(f"person: decides {call.key}: {'it took place' if found else 'retry'}")
                decide_calls(journal, RUN, [call.key], found or Decision.RETRY)

        return work

    # ------------------------------------------------------------ the course of a run

    def play(self) -> None:
        """Carry the run to its end."""
        kernel, chance = self.kernel, self.chance
        owner = self.start_owner()
        for _ in range(_MOST_ROUNDS):
            moved = kernel.run_until(kernel.now + chance.choice((0.01, 0.5, 3.0)))
            self.bury()
            if self.world.problems or kernel.now > _LONGEST:
                break
            if self.asks:
                self.as_person(self.answer)
            if self.settings.cancels and self.has_faults and chance.random() < 0.15:
                self.as_person(self.cancel)
            live = [one for one in self.owners if not one.is_dead and not one.is_done]
            if owner.is_done:
                outcome = self.outcome_of(owner)
                owner.end()
                if outcome is not None and outcome.result is not None:
                    self._ended(outcome)
                    return
                if outcome is not None and outcome.in_doubt:
                    for other in live:  # the person makes sure that nothing of the run is under way
                        other.end()
                    self.as_person(self.decide(outcome))
            if owner.is_dead:
                kernel.now += chance.choice((0.0, 0.1, 5.0))
                owner = self.start_owner()
            elif not moved and not any(one.due() is not None for one in live):
                self.world.wrong(f"nothing of the run goes on: {owner.name} waits for nothing")
                return
        if self.end is None and not self.world.problems:
            self.world.wrong("the run does not end")

    def bury(self) -> None:
        """Let go of what dead processes have left in memory."""
        for process in self.kernel.processes:
            if process.is_dead:
                process.bury()

    def outcome_of(self, owner: Process) -> RunOutcome | None:
        assert owner.main is not None
        error = owner.main.exception()
        if error is None:
            outcome: RunOutcome = owner.main.result()
            what = "ends" if outcome.result else f"waits: {len(outcome.in_doubt)} in doubt"
            self.say(f"{owner.name}: the run {what}, {len(outcome.waiting)} questions")
            named = outcome.result or outcome.in_doubt or outcome.waiting or outcome.unanswered
            if not named:
                self.world.wrong(f"{owner.name} stops without an end and names nothing that it waits for")
            return outcome
        if isinstance(error, CallsheetError):
            self.say(f"{owner.name}: {error.diagnostics[0].code} {error.diagnostics[0].message[:100]}")
            if error.diagnostics[0].code not in _EXPECTED:
                self.world.wrong(f"{owner.name} fails: {error.diagnostics[0].code} {error}")
        elif not isinstance(error, Killed):
            self.world.wrong(f"{owner.name} fails: {type(error).__name__}: {error}")
        return None

    def _ended(self, outcome: RunOutcome) -> None:
        result = outcome.result
        assert result is not None
        once = {
            name: dict(sorted(counts.items()))
            for name, counts in sorted(self.world.done.items())
            if name in ("WRITE", "PROBED", "KEYED", "KEEP")
        }
        if self.told_end and str(result.status) != self.told_end:
            self.world.wrong(
                f"the run has ended as {result.status}, though a person was told {self.told_end}"
            )
        self.world.has_given_up |= bool(outcome.in_doubt)
        self.end = End(str(result.status), result.answer, result.error, str(result.outcome), once)

    # ------------------------------------------------------------ at the end

    def check_journal(self) -> None:
        """Everything that was durable is in the journal, and its chain is intact."""
        wrong = self.world.wrong
        with Journal.open_to_read(self.path) as journal:
            if not journal.runs():
                if self.world.recorded.durable:
                    wrong("the run is not in the journal, though its events were durable")
                return
            if (bad := journal.verify(RUN)) is not None:
                wrong(f"the journal is damaged at event {bad.seq}: {bad.why}")
                return
            unread = {letter.msg_id for letter in journal.mailbox.unread(RUN)}
            found = {
                event.seq: (str(event.type), event.key, event.ts, event.epoch)
                for event in journal.events(RUN)
            }
        epochs = [found[seq][3] for seq in sorted(found)]
        if epochs != sorted(epochs):
            wrong("an earlier owner has written after a later one")
        recorded = self.world.recorded
        cancelled = min((seq for seq, event in found.items() if event[0] == "cancel"), default=None)
        late = [s for s, event in found.items() if cancelled and s > cancelled and event[0] == "intent"]
        if late:
            wrong(f"event {late[0]} is a call after event {cancelled}, which has cancelled the run")
        for seq, msg_id in recorded.taken:
            if msg_id in unread:
                wrong(f"the message {msg_id[:40]} is in the inbox, though event {seq} has taken it")
        for seq, event in recorded.durable.items():
            if seq not in found:
                wrong(f"event {seq}, {event[0]} {event[1]}, was durable and is lost")
                return
            kind, key, *_ = found[seq]
            if (kind, key) != event[:2] or (kind != "intent" and found[seq] != event):
                wrong(f"event {seq} was {event[0]} {event[1]} and is {kind} {key}")
                return

    def check_resumed(self) -> None:
        """A run that has ended gives its result again, without a call."""
        for owner in self.owners:
            owner.end()
        made = self.world.made.total()
        process = self.start_owner()
        process.faults.clear()
        process.traps.clear()
        self.kernel.fails_until = 0.0
        self.kernel.run_until(self.kernel.now + 100)
        assert process.main is not None
        if not process.main.done() or process.main.exception() is not None:
            self.world.wrong("a run that has ended cannot be resumed")
            return
        result = process.main.result().result
        if result is None or (self.end and (str(result.status), result.answer) != self.end[:2]):
            self.world.wrong("a run that has ended gives another result when it is resumed")
        if self.world.made.total() != made:
            self.world.wrong("a run that has ended makes calls when it is resumed")
        process.end()

    def check_undone(self) -> None:
        """Undo the run, in processes that are killed: nothing that it wrote is left, but what is named."""
        left = "it is not undone after 20 attempts"
        for attempt in range(20):
            process = self.kernel.spawn(f"undoer{attempt + 1}")
            if attempt < 3 and self.chance.random() < 0.7:
                process.faults[self.chance.randint(1, 60)] = process.end
            process.start(self._undo())
            self.kernel.run_until(self.kernel.now + 1_000)
            assert process.main is not None
            error = process.main.exception() if process.is_done else None
            if error is not None and not isinstance(error, Killed):
                left = f"it cannot be undone: {type(error).__name__}: {error}"
                break
            if process.is_done and process.main.result() is None:
                left = self._not_undone()
                break
            process.end()
            self.bury()
        if left:
            self.world.wrong(left)

    async def _undo(self) -> RunOutcome | None:
        """Undo the run, or go on with that; None if nothing is left to undo."""
        with self.journal(self.settings.durability) as journal:
            undoing = prepare_undo(journal, RUN, self._inverse_of)
            if undoing.unfinished is not None and any(
                info.run_id == undoing.unfinished for info in journal.runs()
            ):
                return await resume_run(journal, undoing.unfinished, self._opened)
            self.irreversible = [repr(each.call.args["x"]) for each in undoing.irreversible]
            if not undoing.reversals:
                return None
            plan = undoing.plan
            launch = Launch(
                {**FACTS, **OWN_FACTS}, inputs=undoing.inputs, source=text_of(plan), note={UNDOES: RUN}
            )
            return await start_run(plan, self._ports(), launch, journal, undoing.run_id)

    @staticmethod
    def _inverse_of(tool: str) -> tuple[str, Inverse] | None:
        return ("ERASE", INVERSE) if tool == "WRITE" else None

    def _not_undone(self) -> str:
        for value, count in self.world.written.items():
            if not 0 <= count <= self.irreversible.count(value):
                return f"{value} is written {count} times, and was to be undone"
        return ""

    def close(self) -> None:
        for process in self.kernel.processes:
            process.end()
        self.bury()
        shutil.rmtree(self.folder, ignore_errors=True)
