"""The calendar of a schedule: which of its times are due, and what their runs are called.

In: the settings of a schedule, and two moments. Out: the times between them at which a run starts, and those
that pass without one. The id of a run is made from the name and the time, so a time has one run, however many
processes look at the calendar: the journal takes each id once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal, NamedTuple

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
