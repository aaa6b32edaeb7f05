"""Starts the runs of schedules at their times, resumes those that a crash has interrupted, and tells people.

In: the schedules of a project and its journal. Out: a process `callsheet run` for each time that has come,
and a line for each thing that happens, also for each time that passes without a run. What has run is known
from the journal alone, so a scheduler that starts again goes on where the last one ended. Two schedulers of
one journal start each time once, since the journal takes each run id once: the other one waits for its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from callsheet.apps.operations.printed_service_rows import LastRun, ScheduleRow
from callsheet.apps.projects import ProjectSettings
from callsheet.apps.rendering.values import without_controls
from callsheet.apps.scheduling.notices import Audience, MailServer, Notice, Notify, link_key, send
from callsheet.apps.scheduling.webhooks import Webhook
from callsheet.runtime.inbox import asks_of
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_absent, is_owned, place_of
from callsheet.store.listing import RunQuery, listed_runs, shown_status
from callsheet.store.runs import RunFilter

MOST_TIMES = 1000
"""At most so many times that have passed are looked at, the newest ones."""
IN_TIME = timedelta(minutes=1)
"""A time that is reached within this is not missed."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_STAMP = "%Y%m%dt%H%M%Sz"
_STAMPED = re.compile(r"(.+)-(\d{8}t\d{6}z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a plan runs, as a project says it: the table `[schedules.NAME]`.

    `plan` is the path of a plan or the name of a saved one. `cron` has five fields (minute, hour, day of the
    month, month, day of the week), in `timezone`. `missed` says what becomes of times at which no scheduler
    was there: the latest runs, all run, or none. `overlap` says what becomes of a time at which the run of an
    earlier time has not ended: it is skipped, or waits for that end.
    """

    plan: str
    cron: str
    timezone: str = "UTC"
    inputs: Mapping[str, object] = field(default_factory=dict[str, object])
    policy: str | None = None
    missed: Literal["latest", "all", "skip"] = "latest"
    overlap: Literal["skip", "wait"] = "skip"

    def __post_init__(self) -> None:
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - only for projects with schedules

        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - as above

        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"timezone: there is no time zone {self.timezone}, such as Europe/Oslo"
            ) from None
        try:
            CronSim(self.cron, datetime.now(zone))
        except CronSimError as error:
            reason = str(error).lower()
            raise ValueError(f'cron: {reason}; "0 3 * * 1-5" is at three on weekdays') from None
        try:
            json.dumps(dict(self.inputs), allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                "inputs: each must be a text, a number, true or false, a list or a table"
            ) from None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times after a moment, oldest first, in UTC."""
        return self._times(moment, reverse=False)

    def before(self, moment: datetime) -> Iterator[datetime]:
        """The times at and before a moment, newest first, in UTC."""
        near = self._times(moment + timedelta(seconds=1), reverse=True)
        return (time for time in near if time <= moment)

    def _times(self, moment: datetime, *, reverse: bool) -> Iterator[datetime]:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - as above

        from cronsim import CronSim  # noqa: PLC0415 - as above

        for time in CronSim(self.cron, moment.astimezone(ZoneInfo(self.timezone)), reverse=reverse):
            yield time.astimezone(UTC)


class Due(NamedTuple):
    """The times that have come: those at which a run starts, oldest first, and those that pass without one.

    `has_more` says that there were times before these, which were not looked at.
    """

    starts: tuple[datetime, ...]
    passed: tuple[datetime, ...]
    has_more: bool


def due(schedule: Schedule, since: datetime, now: datetime) -> Due:
    """The times of a schedule after `since` and until `now`, by its rule for missed ones."""
    newest: list[datetime] = []
    for time in islice(schedule.before(now), MOST_TIMES + 1):
        if time <= since:
            break
        newest.append(time)
    has_more = len(newest) > MOST_TIMES
    times = tuple(reversed(newest[:MOST_TIMES]))
    if not times or schedule.missed == "all":
        return Due(times, (), has_more)
    is_started = schedule.missed == "latest" or now - times[-1] <= IN_TIME
    return Due(times[-1:], times[:-1], has_more) if is_started else Due((), times, has_more)


def is_name(text: str) -> bool:
    """Whether a schedule may have this name, which its runs' ids begin with."""
    return _NAME.fullmatch(text) is not None


def run_id(name: str, time: datetime) -> str:
    """The id of the run of a schedule for a time."""
    return f"{name}-{time.astimezone(UTC).strftime(_STAMP)}"


def schedule_of(run: str) -> tuple[str, datetime] | None:
    """The schedule of a run and the time that it is for, from its id; None for a run of no schedule."""
    found = _STAMPED.fullmatch(run)
    if found is None or not is_name(found[1]):
        return None
    try:
        return found[1], datetime.strptime(found[2], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


TAG = "schedule"
"""The tag of the runs of schedules; its value is the name."""


def schedule_rows(schedules: Mapping[str, Schedule], journal: Journal | None) -> list[ScheduleRow]:
    """Each schedule with its next time and its newest run in a journal, if there is one."""
    now = datetime.now(UTC)

    def last(name: str) -> LastRun | None:
        query = RunQuery(wanted=RunFilter(tags=(f"{TAG}={name}",)), limit=1)
        for info, status in () if journal is None else listed_runs(journal, query):
            return {"run_id": info.run_id, "status": status}
        return None

    return [
        {
            "schedule": name,
            "plan": each.plan,
            "cron": each.cron,
            "timezone": each.timezone,
            "next": next(each.after(now)).astimezone(ZoneInfo(each.timezone)).isoformat(),
            "last": last(name),
        }
        for name, each in schedules.items()
    ]


LOOK = 1.0
"""Seconds between looks at what the runs under way have come to."""
LONGEST_SLEEP = 30.0
"""Seconds after which the clock is looked at again: it may have been set, or the machine was asleep."""
_LONGEST_LINE = 4_000
_LAST_LINES = 1.0
"""Seconds that the last lines of a process are waited for."""
_OPEN = ("running", "interrupted", "waiting", "in_doubt")
"""The runs that a scheduler takes up; not those that a person has paused."""
_RESUME = ("resume", "--leave-paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledProject(ProjectSettings):
    """The settings of a project with its schedules and webhooks, and who is told of their runs, read."""

    schedules: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    notify: Mapping[str, Notify] = field(default_factory=dict[str, Notify])
    webhooks: Mapping[str, Webhook] = field(default_factory=dict[str, Webhook])
    mail: MailServer | None = None

    def __post_init__(self) -> None:
        for table, named in (("schedules", self.schedules), ("webhooks", self.webhooks)):
            for name in named:
                if not is_name(name):
                    raise ValueError(f"{table}: {name!r} is no name for one: use a-z, 0-9, dots and dashes")
        for name, place in self.notify.items():
            if place.mail and self.mail is None:
                raise ValueError(f"notify: {name} wants mail, and there is no table [mail] with a server")

    def audience(self, token: str | None = None, journal: Path | None = None) -> Audience:
        """Who is told of runs; `token` is that of the server whose links mails have, if there is one."""
        key = None if token is None else link_key(token, journal)
        return Audience(notify=self.notify, mail=self.mail, key=key)


@dataclass(slots=True)
class _Course:
    """A schedule in the course of time: the last time that was looked at, and the runs under way."""

    name: str
    schedule: Schedule
    since: datetime
    under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    queued: list[datetime] = field(default_factory=list[datetime])
    """Times that wait for the end of an earlier run, oldest first."""


class Scheduler:
    """Runs the schedules of a project until it is cancelled; then the runs under way are interrupted.

    `folder` is the project's; `journal` the file in which all is recorded, and `hint` the option that
    commands in messages need to use it. `tell` gets each line for people, and `now` gives the time, with its
    zone.
    """

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        audience: Audience,
        *,
        folder: Path,
        journal: Path,
        tell: Callable[[str], None],
        hint: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._audience = audience
        self._folder = folder
        self._journal = journal
        self._hint = hint
        self._tell = tell
        self._now = now
        self._informing: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        started = now()
        self._courses = [_Course(name, each, started) for name, each in schedules.items()]

    async def run(self) -> None:
        """Start what is due, again and again; never returns."""
        self._take_up()
        try:
            while True:
                for course in self._courses:
                    self._start_due(course)
                await asyncio.sleep(self._until_next())
                if self._failures:
                    raise self._failures[0]
        finally:
            tasks = [task for course in self._courses for task in course.under_way.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._informing, return_exceptions=True)

    def _take_up(self) -> None:
        """Go on where the journal ends: resume what has not ended, look at the times since the last run."""
        courses = {course.name: course for course in self._courses}
        for name, runs in recorded(self._journal, list(courses)).items():
            course = courses.get(name)
            opened = [run for run in reversed(runs) if run.status in _OPEN]
            if course is None:
                for run in opened:
                    told = f"{run.id} is {run.status.replace('_', ' ')}, and there is no schedule {name}"
                    self._tell(f"{told}: callsheet resume {run.id}{self._hint}")
                continue
            past = [run.time for run in runs if run.time <= course.since]  # the clock may have been ahead
            if past and course.schedule.missed != "skip":
                course.since = past[0]
            for run in runs:
                if run.status == "paused":
                    self._tell(f"{run.id} is paused: callsheet resume {run.id}{self._hint} lets it go on")
            for run in opened:
                self._tell(f"{run.id} is {run.status.replace('_', ' ')}: it is resumed")
                self._drive(course, run.id, [*_RESUME, run.id])

    def _start_due(self, course: _Course) -> None:
        """Start, queue or pass the times of a schedule that have come."""
        found = due(course.schedule, course.since, now := self._now())
        course.since = now
        for time in found.passed:
            self._pass(course, time, "no scheduler was there")
        if found.has_more:
            self._tell(f"{course.name}: earlier times have passed without a run, too")
        for time in (*course.queued, *found.starts):
            if run_id(course.name, time) in course.under_way:  # the clock was set back
                continue
            is_missed = course.schedule.missed == "all" and now - time > IN_TIME
            if not course.under_way:
                course.queued = [each for each in course.queued if each != time]
                self._start(course, time)
            elif course.schedule.overlap == "skip" and not is_missed:
                self._pass(course, time, f"{next(iter(course.under_way))} has not ended")
            elif time not in course.queued:
                course.queued.append(time)
                self._tell(f"{run_id(course.name, time)} waits for {next(iter(course.under_way))}")

    def _start(self, course: _Course, time: datetime) -> None:
        run, schedule = run_id(course.name, time), course.schedule
        state = _state(self._journal, run)
        if state is not None:  # the clock was set back, or there is another scheduler
            self._tell(f"{run} is there already: it is {state.replace('_', ' ')}")
            if state in _OPEN:
                self._drive(course, run, [*_RESUME, run])
            return
        policy = () if schedule.policy is None else ("--policy", schedule.policy)
        given = [f"--var={name}={_typed(value)}" for name, value in schedule.inputs.items()]
        self._tell(f"{run} starts: {schedule.plan}")
        tag = f"--tag={TAG}={course.name}"
        self._drive(course, run, ["run", schedule.plan, "--run-id", run, tag, *policy, *given])

    def _pass(self, course: _Course, time: datetime, reason: str) -> None:
        run = run_id(course.name, time)
        self._tell(f"{run} is skipped: {reason}")
        self._inform(Notice("skipped", course.name, run, f"{run} was skipped: {reason}"))

    def _drive(self, course: _Course, run: str, arguments: list[str]) -> None:
        task = asyncio.get_running_loop().create_task(self._driven(course, run, arguments))
        task.add_done_callback(self._note_failure)
        course.under_way[run] = task

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        """Keep the error of a task, which ends the scheduler: nobody would see it otherwise."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)

    async def _driven(self, course: _Course, run: str, arguments: list[str]) -> None:
        """Execute a command of a run, tell what it says and what the run asks, until it has ended."""
        watching = asyncio.create_task(self._watch(course, run))
        watching.add_done_callback(self._note_failure)
        try:
            status = await self._execute(run, arguments)
            while await self._has_to_go_on(run):
                status = await self._execute(run, [*_RESUME, run])
            self._report_end(course, run, status)
        finally:
            watching.cancel()
            course.under_way.pop(run, None)

    async def _execute(self, run: str, arguments: list[str]) -> int:
        """Execute a command of a run in a process, and tell what it says; returns its exit status."""
        options = ["--journal", str(self._journal), "--wait", "--progress", "none"]
        read, write = os.pipe()  # not one of the process: a process that it leaves behind may hold it open
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read, "rb", 0)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "callsheet", *arguments, *options),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,  # the answer: it is in the journal
                stderr=write,
            )
        except BaseException:
            transport.close()
            raise
        finally:
            os.close(write)
        telling = asyncio.create_task(self._tell_lines(run, stream))
        try:
            status = await process.wait()
            await asyncio.wait([telling], timeout=_LAST_LINES)
            return status
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
            telling.cancel()
            transport.close()

    async def _tell_lines(self, run: str, stream: asyncio.StreamReader) -> None:
        """Tell each line of a stream, without control characters and cut where it is too long for people."""

        def tell(data: bytes) -> None:
            line = without_controls(data.decode(errors="replace")).rstrip()
            self._tell(f"{run}: {line[:_LONGEST_LINE]}{'…' if len(line) > _LONGEST_LINE else ''}")

        left = b""
        while data := await stream.read(1 << 16):
            *lines, rest = data.split(b"\n")
            for line in lines:
                tell(left + line)
                left = b""
            left = (left + rest)[: 8 * _LONGEST_LINE]
        if left:
            tell(left)

    async def _has_to_go_on(self, run: str) -> bool:
        """Wait while another process has a run; whether it has then left the run before its end."""
        place = place_of(self._journal)
        if not is_owned(place, run):
            return False
        self._tell(f"{run} is run by another process")
        while is_owned(place, run):  # noqa: ASYNC110 - a lock of another process has no event
            await asyncio.sleep(LOOK)
        return _state(self._journal, run) in _OPEN

    async def _watch(self, course: _Course, run: str) -> None:
        """Tell people of each question of a run, once."""
        told: set[str] = set()
        while True:
            await asyncio.sleep(LOOK)
            asked = _asked(self._journal, run)
            if asked - told:
                text = f"{run} ({course.schedule.plan}) asks: callsheet inbox{self._hint}"
                self._inform(Notice("asks", course.name, run, text))
            told |= asked

    def _report_end(self, course: _Course, run: str, status: int) -> None:
        """Tell how the process of a run has ended, from what the journal says."""
        outcome = _state(self._journal, run)
        plan, show = course.schedule.plan, f"callsheet show {run}{self._hint}"
        if outcome == "done":
            event, text = "done", f"{run} ({plan}) is done: {show}"
        elif outcome == "in_doubt":
            event, text = (
                "in_doubt",
                f"{run} ({plan}) does not know whether a call was made: {show}",
            )
        elif outcome == "paused":
            self._tell(f"{run} ({plan}) was paused by a person: callsheet resume {run}{self._hint}")
            return
        elif outcome == "running":
            self._tell(f"{run} goes on at its engine")
            return
        elif outcome is None:
            event, text = "failed", f"{run} ({plan}) could not start (exit status {status})"
        else:
            word = outcome.replace("_", " ")
            event, text = "failed", f"{run} ({plan}) is {word}: callsheet blame {run}{self._hint}"
        self._tell(text)
        self._inform(Notice(event, course.name, run, text))

    def _inform(self, notice: Notice) -> None:
        """Tell people, without waiting until they are told."""
        if self._audience.notify:
            task = asyncio.get_running_loop().create_task(self._informed(notice))
            self._informing.add(task)
            task.add_done_callback(self._informing.discard)
            task.add_done_callback(self._note_failure)

    async def _informed(self, notice: Notice) -> None:
        for failed in await asyncio.to_thread(send, self._audience, notice):
            self._tell(f"warning {failed}")

    def _until_next(self) -> float:
        """Seconds until the next time of any schedule, and not longer than until the next look."""
        now = self._now()
        times = [next(course.schedule.after(now), None) for course in self._courses]
        waits = [(time - now).total_seconds() for time in times if time is not None]
        if any(course.under_way for course in self._courses):
            waits.append(LOOK)
        return max(0.0, min([*waits, LONGEST_SLEEP]))


def _typed(value: object) -> str:
    """A value as it is typed for `--var`: an input that takes texts takes one as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class RecordedRun(NamedTuple):
    """A run of a schedule in the journal: its id, the time that it is for, and its status."""

    id: str
    time: datetime
    status: str


def recorded(journal: Path, names: Sequence[str]) -> dict[str, list[RecordedRun]]:
    """The runs of these schedules in a journal, newest time first, and of others that it has runs of.

    There are none if there is no journal.
    """
    found: dict[str, list[RecordedRun]] = {name: [] for name in names}
    if not is_absent(journal):
        with closing(Journal.open_to_read(journal)) as opened:
            for info in opened.runs_older():
                if its := schedule_of(info.run_id):
                    run = RecordedRun(info.run_id, its[1], shown_status(opened, info))
                    found.setdefault(its[0], []).append(run)
    return {name: sorted(runs, key=lambda run: run.time, reverse=True) for name, runs in found.items()}


def _state(journal: Path, run: str) -> str | None:
    """The status of a run; None if it is not in the journal."""
    if is_absent(journal):
        return None
    with closing(Journal.open_to_read(journal)) as opened:
        found = opened.infos([run])
        return shown_status(opened, found[0]) if found else None


def _asked(journal: Path, run: str) -> set[str]:
    """The digests of the open questions of a run; none if it is not in the journal yet."""
    if is_absent(journal):
        return set()
    with closing(Journal.open_to_read(journal)) as opened:
        return {ask.digest for ask in asks_of(opened, run)} if opened.infos([run]) else set()
