"""Plans that run by the clock: which times are due, what becomes of the others, and who is told.

The scheduler is the real one, with real processes of `callsheet run`; only its clock is set, so that a time
is about to come.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests import forked

from callsheet.apps.cli.main import main
from callsheet.apps.projects import settings_in, trust
from callsheet.apps.scheduling.notices import Notify
from callsheet.apps.scheduling.scheduler import (
    Schedule,
    ScheduledProject,
    Scheduler,
    due,
    run_id,
    schedule_of,
)

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
CRONS = ["* * * * *", "*/7 * * * *", "0 3 * * 1-5", "30 2 * * *", "15 */5 * * 7", "0 12 1 * *"]
ZONES = ["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]


@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    missed=st.sampled_from(["latest", "all", "skip"]),
    now=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
    hours=st.integers(0, 60),
)
def test_each_time_that_has_come_starts_or_passes(
    cron: str, zone: str, missed: Any, now: datetime, hours: int
) -> None:
    schedule = Schedule(plan="p", cron=cron, timezone=zone, missed=missed)
    now = now.replace(tzinfo=UTC)
    since = now - timedelta(hours=hours)
    found = due(schedule, since, now)
    times: list[datetime] = []
    for time in schedule.after(since):
        if time > now:
            break
        times.append(time)
    newest = times[-1000:]
    assert sorted((*found.starts, *found.passed)) == newest
    assert found.has_more == (len(times) > 1000)
    if missed == "all":
        assert list(found.starts) == newest
    elif missed == "latest":
        assert list(found.starts) == newest[-1:]
    else:
        assert all(now - time <= timedelta(minutes=1) for time in found.starts)
    assert all(schedule_of(run_id("a-b", time)) == ("a-b", time) for time in times[:5])


def test_times_follow_the_clocks_of_their_zone() -> None:
    nightly = Schedule(plan="p", cron="30 2 * * *", timezone="Europe/Oslo")
    spring = due(nightly, datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 29, 12, tzinfo=UTC))
    autumn = due(nightly, datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 25, 12, tzinfo=UTC))
    assert len(spring.starts) == 1, "there is no 02:30 on that day, but there is a night"
    assert (len(autumn.starts), autumn.passed) == (1, ()), "there are two 02:30, but there is one night"


def test_runs_of_others_are_no_runs_of_a_schedule() -> None:
    assert schedule_of("report-2026") is None
    assert schedule_of("monthly-report-20261129t120000z") == ("monthly-report", NOON)
    assert schedule_of("report-20261399t120000z") is None
    assert schedule_of("Report-20261129t120000z") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('cron = "61 * * * *"', "cron: bad minute"),
        ('cron = "daily"', "cron: wrong number of fields"),
        ('cron = "* * * * *"\ntimezone = "Oslo"', "timezone: there is no time zone Oslo"),
        ('cron = "* * * * *"\nmissed = "some"', "must be one of latest, all, skip"),
        ('cron = "* * * * *"\ninputs = { day = 2026-11-29 }', "inputs: each must be"),
        ('cron = "* * * * *"\n[schedules.Night]\nplan = "p"\ncron = "* * * * *"', "'Night' is no name"),
        ('cron = "* * * * *"\n[notify.a]\nurl = "ftp://x"', "no address of http or https"),
        ('cron = "* * * * *"\n[notify.a]\nurl = "env:HOOK"\non = ["dnoe"]', "'dnoe' is none of asks"),
    ],
)
def test_wrong_setting_is_reported_at_its_place(line: str, message: str, project: Project) -> None:
    project.configure(f'[schedules.nightly]\nplan = "plan.ltp"\n{line}\n')
    done = project.command("schedule")
    assert done.exit_code == 2
    assert message in done.stderr
    assert "callsheet.toml:" in done.stderr


def test_project_without_schedules_says_how_to_add_one(project: Project) -> None:
    project.configure("")
    done = project.command("schedule", "run")
    assert (done.exit_code, "[schedules.NAME]" in done.stderr) == (2, True)


TOOLS = """
import os, signal, subprocess, sys
from pathlib import Path

from callsheet import tool


@tool(effect="read")
def greet(who: str) -> str:
    return f"hello {who}"


@tool(effect="idempotent")
def crash_once(who: str) -> str:
    mark = Path("crashed")
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"back, {who}"


@tool(effect="read")
def shout(who: str) -> str:
    sys.stderr.write("x" * 200_000 + "\\n\\x1b]0;title\\x07heard\\n")
    sys.stderr.flush()
    subprocess.Popen(["sleep", "20"])
    return who
"""
PLANS = {
    "shout.ltp": '# ltp: 2\nS1: @SHOUT (who="Ada") > $x\nS2: @RESPOND ($x)\n',
    "greet.ltp": "# ltp: 2\nINPUT $who: str\nS1: @GREET (who=$who) > $x\nS2: @RESPOND ($x)\n",
    "crash.ltp": '# ltp: 2\nS1: @CRASH_ONCE (who="Ada") > $x\nS2: @RESPOND ($x)\n',
    "ask.ltp": '# ltp: 2\nS1: @ASK_HUMAN (prompt="go on?") > $x\nS2: @RESPOND ($x)\n',
}


class Project:
    """A project in a folder, whose scheduler's clock can be set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.db"
        self.lines: list[str] = []
        (folder / "tools.py").write_text(TOOLS)
        for name, text in PLANS.items():
            (folder / name).write_text(text)

    def configure(self, text: str) -> None:
        file = self.folder / "callsheet.toml"
        file.write_text(f'tools = ["tools.py"]\n{text}')
        trust([file])

    def command(self, *arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    def run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "callsheet", *arguments, "--journal", str(self.journal)]
        forked.run(command, cwd=self.folder, check=False, capture_output=True)

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command, and wait until its run is in the journal."""
        command = [sys.executable, "-m", "callsheet", *arguments, "--journal", str(self.journal)]
        process = forked.Popen(command, cwd=self.folder, stderr=subprocess.PIPE)
        assert process.stderr is not None
        process.stderr.readline()
        return process

    def until(self, is_reached: Callable[[], bool], *, now: datetime) -> None:
        """Run the scheduler, whose clock begins at `now`, until something is so."""
        offset = now - datetime.now(UTC)
        settings = settings_in(self.folder / "callsheet.toml", ScheduledProject)

        async def work() -> None:
            scheduler = Scheduler(
                settings.schedules,
                settings.audience("t" * 40, self.journal),
                folder=self.folder,
                journal=self.journal,
                tell=self.lines.append,
                now=lambda: datetime.now(UTC) + offset,
            )
            running = asyncio.create_task(scheduler.run())
            async with asyncio.timeout(60):
                while not is_reached():  # noqa: ASYNC110 - what it looks at are files and other processes
                    await asyncio.sleep(0.05)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

        asyncio.run(work())

    def told(self, *parts: str) -> bool:
        """Whether a line has all these parts."""
        return any(all(part in line for part in parts) for line in self.lines)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("CALLSHEET_PROJECTS", str(tmp_path / "projects.json"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    forks = forked.programs(tmp_path / "bin")  # of the processes that the scheduler starts
    monkeypatch.setattr(sys, "executable", str(forks / "python"))
    return Project(folder)


@pytest.fixture
def hook() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """The address of a server, and the headers and bodies of what was posted to it."""
    posted: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posted.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", posted
    server.shutdown()
    server.server_close()


def test_missed_times_run_once_and_inputs_are_given(project: Project) -> None:
    project.configure(
        '[schedules.hourly]\nplan = "greet.ltp"\ncron = "0 * * * *"\ninputs = { who = "Ada Ås" }\n'
    )
    earlier = run_id("hourly", NOON - timedelta(hours=3))
    project.run("run", "greet.ltp", "--who", "x", "--run-id", earlier)
    latest = run_id("hourly", NOON)
    project.until(lambda: project.told(latest, "is done"), now=NOON + timedelta(minutes=5))
    assert project.told(run_id("hourly", NOON - timedelta(hours=1)), "skipped: no scheduler was there")
    assert project.told(run_id("hourly", NOON - timedelta(hours=2)), "skipped")
    shown = CliRunner().invoke(main, ["show", latest, "--journal", str(project.journal), "--json"])
    assert json.loads(shown.stdout)["response"] == "hello Ada Ås"
    listed = project.command("schedule", "--journal", str(project.journal), "--json")
    assert json.loads(listed.stdout)[0]["last"] == {"run_id": latest, "status": "done"}


def test_run_that_a_crash_interrupts_is_resumed(project: Project) -> None:
    project.configure('[schedules.c]\nplan = "crash.ltp"\ncron = "0 12 * * *"\nmissed = "skip"\n')
    first = run_id("c", NOON)
    project.until(lambda: project.told(first, "interrupted"), now=NOON - timedelta(seconds=0.3))
    project.until(lambda: project.told(first, "is done"), now=NOON + timedelta(minutes=5))
    assert project.told(first, "is interrupted: it is resumed")


def test_run_that_a_person_has_paused_is_left_to_them(project: Project) -> None:
    """One that was paused before the scheduler began, and one that is paused while it waits under it."""
    project.configure('[schedules.ask]\nplan = "ask.ltp"\ncron = "0 12 * * *"\nmissed = "skip"\n')
    earlier, first = run_id("ask", NOON - timedelta(days=1)), run_id("ask", NOON)
    project.run("run", "ask.ltp", "--run-id", earlier)
    project.run("pause", earlier, "--by", "ada")
    asked: list[str] = []

    def was_paused() -> bool:
        if not asked and project.told(first, "waits for an answer"):
            asked.append(first)
            project.run("pause", first, "--by", "ada")
        return project.told(first, "was paused by a person")

    project.until(was_paused, now=NOON - timedelta(seconds=0.3))
    assert project.told(earlier, "is paused: callsheet resume")
    listed = CliRunner().invoke(main, ["runs", "--journal", str(project.journal), "--json"])
    assert {row["run_id"]: row["status"] for row in json.loads(listed.stdout)} == {
        earlier: "paused",
        first: "paused",
    }


def test_people_are_told_of_questions_and_overlaps_wait(
    project: Project, hook: tuple[str, list[tuple[dict[str, str], bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, posted = hook
    monkeypatch.setenv("HOOK", url)
    project.configure(
        '[schedules.ask]\nplan = "ask.ltp"\ncron = "* * * * *"\noverlap = "wait"\n'
        '[notify.team]\nurl = "env:HOOK"\non = ["asks", "done"]\nsecret = "key"\n'
    )
    earlier, first, second = (run_id("ask", NOON + timedelta(minutes=each)) for each in (-1, 0, 1))
    project.run("run", "ask.ltp", "--run-id", earlier)  # it waits for an answer already
    answered: list[str] = []

    def ended() -> bool:
        for _, body in list(posted):
            notice = json.loads(body)
            if notice["event"] == "asks" and notice["run"] not in answered and len(answered) < 2:
                answered.append(notice["run"])
                project.run("approve", notice["run"], "--answer", "yes")
        return project.told(first, "is done")

    project.until(ended, now=NOON - timedelta(seconds=0.3))
    assert project.told(earlier, "is waiting: it is resumed")
    assert project.told(first, f"waits for {earlier}")
    assert answered == [earlier, first]
    headers, body = posted[0]
    signature = hmac.new(b"key", body, hashlib.sha256).hexdigest()
    assert headers["callsheet-signature"] == f"sha256={signature}"
    assert b"go on?" not in b"".join(each for _, each in posted), "a notice has no value of the run"
    assert not project.told(second, "starts")


def test_noise_of_a_run_and_what_it_leaves_behind_do_not_stop_the_scheduler(project: Project) -> None:
    project.configure('[schedules.s]\nplan = "shout.ltp"\ncron = "0 12 * * *"\n')
    run = run_id("s", NOON)
    project.until(lambda: project.told(run, "is done"), now=NOON - timedelta(seconds=0.3))
    assert project.told("heard")
    assert project.told("xxx", "…")
    assert max(map(len, project.lines)) < 5_000
    assert "\x1b" not in "".join(project.lines)


def test_run_of_another_scheduler_is_left_to_it_and_taken_up_if_that_dies(project: Project) -> None:
    project.configure('[schedules.ask]\nplan = "ask.ltp"\ncron = "0 12 * * *"\n')
    run = run_id("ask", NOON)
    other = project.begin("run", "ask.ltp", "--run-id", run, "--wait")

    def is_taken_up() -> bool:
        if project.told(run, "run by another process") and other.poll() is None:
            other.kill()
            other.communicate()
            project.run("approve", run, "--answer", "yes")
        return project.told(run, "is done")

    project.until(is_taken_up, now=NOON - timedelta(seconds=0.3))
    assert not project.told("callsheet blame")


def test_clock_that_was_set_back_starts_nothing_twice(project: Project) -> None:
    project.configure('[schedules.hourly]\nplan = "greet.ltp"\ncron = "0 * * * *"\ninputs = { who = "x" }\n')
    run, later = run_id("hourly", NOON), run_id("hourly", NOON + timedelta(hours=5))
    for each in (run, later):
        project.run("run", "greet.ltp", "--who", "x", "--run-id", each)
    project.until(
        lambda: project.told(run, "is there already: it is done"), now=NOON - timedelta(seconds=0.3)
    )
    assert not project.told("starts")


def test_all_missed_times_run_one_after_the_other(project: Project) -> None:
    project.configure(
        '[schedules.h]\nplan = "greet.ltp"\ncron = "0 * * * *"\nmissed = "all"\ninputs = { who = "x" }\n'
    )
    runs = [run_id("h", NOON + timedelta(hours=each)) for each in range(3)]
    project.run("run", "greet.ltp", "--who", "x", "--run-id", runs[0])
    project.run("run", "ask.ltp", "--run-id", run_id("gone", NOON))
    project.until(lambda: project.told(runs[2], "is done"), now=NOON + timedelta(hours=2, minutes=5))
    assert project.told(runs[1], "is done")
    assert not project.told("skipped")
    assert project.told(run_id("gone", NOON), "there is no schedule gone", "callsheet resume")


def test_address_that_cannot_be_told_is_named_without_its_secret() -> None:
    from callsheet.apps.scheduling.notices import Audience, Notice, send

    notice = Notice("done", "a", "a-1", "a-1 is done")
    places = {
        "x": Notify(url="env:NOT_SET", on=("done",)),
        "y": Notify(url="http://127.0.0.1:1/s3cret", on=("done",)),
        "z": Notify(url="http://a:99999/s3cret", on=("done",), secret="\udcff"),
    }
    first, second, third = send(Audience(notify=places), notice)
    assert "the variable NOT_SET is not set" in first
    assert "ConnectError" in second
    assert "s3cret" not in second + third
