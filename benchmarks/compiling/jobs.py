"""Everyday jobs in one office, scored by what the office is like afterwards, in several states of it.

A goal whose course depends on something is right only if its plan does the right thing in the office as it
is *and* in one where the condition is the other way round. `jobs.jsonl` has a goal a line: its id, its words,
and its states, each with what differs in it (`set`), the calls that reach the goal there (`calls`), the
functions that must have been asked (`asks`) and texts that the answer must have (`says`). The goals and the
office were written for this benchmark.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.compiling.worlds import Case, Declared, Task, World, execute

from callsheet.ports.python_tools import tool_of

GOALS = Path(__file__).parent / "jobs.jsonl"


class Weather(TypedDict):
    sky: str
    temperature: int
    rain: bool


class Event(TypedDict):
    id: str
    title: str
    day: str
    start: str


class Stock(TypedDict):
    count: int
    price: float


class Invoice(TypedDict):
    id: str
    customer: str
    amount: float
    status: str


class Job(TypedDict):
    id: str
    title: str
    project: str
    done: bool
    assignee: str | None


def _state() -> dict[str, Any]:
    return {
        "weather": {
            "Bergen": {"sky": "rain", "temperature": 8, "rain": True},
            "Oslo": {"sky": "clear", "temperature": 14, "rain": False},
        },
        "events": [
            {"id": "e-5", "title": "Boat trip", "day": "Saturday", "start": "10:00"},
            {"id": "e-7", "title": "Budget review", "day": "Monday", "start": "09:00"},
            {"id": "e-8", "title": "Interview", "day": "Monday", "start": "14:00"},
        ],
        "contacts": {
            "Mira": {"email": "mira@fjord.example", "phone": "555-0142"},
            "Tom": {"email": "tom@fjord.example", "phone": "555-0199"},
        },
        "sent": [],
        "stock": {"printer paper": {"count": 3, "price": 4.5}, "toner": {"count": 9, "price": 60.0}},
        "orders": [],
        "invoices": [
            {"id": "i-11", "customer": "Hansen", "amount": 120.0, "status": "open"},
            {"id": "i-12", "customer": "Berg", "amount": 940.0, "status": "open"},
            {"id": "i-13", "customer": "Lie", "amount": 75.0, "status": "paid"},
        ],
        "files": {"notes/plan.txt": "Rent a boat.", "tmp/a.log": "x", "tmp/b.log": "y"},
        "jobs": [
            {"id": "t-1", "title": "Paint the door", "project": "house", "done": False, "assignee": None},
            {"id": "t-2", "title": "Fix the roof", "project": "house", "done": True, "assignee": "Tom"},
            {"id": "t-3", "title": "Buy seeds", "project": "garden", "done": False, "assignee": "Mira"},
            {"id": "t-4", "title": "Sweep the yard", "project": "house", "done": False, "assignee": "Tom"},
        ],
        "rooms": {"Fram": "free", "Gjoa": "taken"},
        "thermostat": 19,
    }


class Place:
    """What tools work on; each public method that a place itself has is a tool."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self.state = self.start()
        for path, value in changes.items():
            *way, last = path.split("/")
            place: Any = self.state
            for key in way:
                place = place[int(key) if isinstance(place, list) else key]
            place[last] = copy.deepcopy(value)

    @staticmethod
    def start() -> dict[str, Any]:
        """The state that the place begins with."""
        raise NotImplementedError

    def one(self, table: str, key: str, ident: object) -> dict[str, Any]:
        """The row of a table with this key; raises LookupError."""
        found = [row for row in self.state[table] if row[key] == ident]
        if not found:
            raise LookupError(f"{ident!r} is not known")
        return found[0]


def plain_text(text: str) -> str:
    """A text of a message without what makes no difference."""
    return " ".join(text.split()).strip(" .!?'\"").casefold()


def matching(rows: list[Any], wanted: Mapping[str, str | None]) -> list[Any]:
    """The rows each of whose fields has the text that is wanted in it, if any is."""
    given = {field: text.casefold() for field, text in wanted.items() if text is not None}
    return [
        row for row in rows if all(text in (row[field] or "").casefold() for field, text in given.items())
    ]


class Office(Place):
    """One office; some results are declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return _state()

    def get_weather(self, city: str) -> Weather:
        """Weather of tomorrow in a city."""
        return copy.deepcopy(self.state["weather"][city])

    def list_events(self, day: str) -> list[Event]:
        """Events in the calendar on a day of the week."""
        return [copy.deepcopy(e) for e in self.state["events"] if e["day"] == day]

    def add_event(self, title: str, day: str, start: str) -> Event:
        """Put an event into the calendar."""
        title = title.partition(" ")[0]  # a dentist or a dentist appointment
        event = {"id": f"e-{90 + len(self.state['events'])}", "title": title, "day": day, "start": start}
        self.state["events"].append(event)
        return copy.deepcopy(event)  # type: ignore[return-value]

    def cancel_event(self, event_id: str):
        """Cancel an event of the calendar."""
        self.state["events"].remove(self.one("events", "id", event_id))
        return f"cancelled {event_id}"

    def move_event(self, event_id: str, day: str, start: str | None = None):
        """Move an event to another day, at its own time unless another one is given."""
        event = self.one("events", "id", event_id)
        event |= {"day": day} | ({"start": start} if start else {})
        return copy.deepcopy(event)

    def find_contact(self, name: str):
        """Look up a person in the address book. Gives name, email and phone."""
        return {"name": name, **self.state["contacts"][name]}

    def send_email(self, to: str, subject: str, body: str):
        """Send an e-mail to an address."""
        self.state["sent"].append(["email", to])
        return {"sent": True, "length": len(subject) + len(body)}

    def send_sms(self, phone: str, text: str):
        """Send a text message to a phone number."""
        self.state["sent"].append(["sms", phone])
        return {"sent": True, "length": len(text)}

    def get_stock(self, product: str) -> Stock:
        """How many of a product are in stock, and the price of one."""
        return copy.deepcopy(self.state["stock"][product])

    def order_product(self, product: str, count: int):
        """Order a number of a product."""
        self.state["orders"].append([product, count])
        return {"ordered": count}

    def list_invoices(self, status: str | None = None) -> list[Invoice]:
        """List invoices, all or those with a status: open or paid."""
        return [copy.deepcopy(i) for i in self.state["invoices"] if status in (None, i["status"])]

    def pay_invoice(self, invoice_id: str):
        """Pay an open invoice."""
        self.one("invoices", "id", invoice_id)["status"] = "paid"
        return "paid"

    def list_files(self, folder: str) -> list[str]:
        """Paths of the files in a folder."""
        return [path for path in self.state["files"] if path.startswith(folder.strip("/") + "/")]

    def read_file(self, path: str) -> str:
        """Text of a file."""
        return self.state["files"][path]

    def write_file(self, path: str, text: str):
        """Write a text file, replacing what was there."""
        self.state["files"][path] = text
        return len(text)

    def delete_file(self, path: str):
        """Delete a file."""
        del self.state["files"][path]
        return "deleted"

    def list_jobs(self, project: str) -> list[Job]:
        """Jobs of a project, open and done ones."""
        return [copy.deepcopy(t) for t in self.state["jobs"] if t["project"] == project]

    def close_job(self, job_id: str):
        """Mark a job as done."""
        self.one("jobs", "id", job_id)["done"] = True
        return "closed"

    def assign_job(self, job_id: str, assignee: str):
        """Give a job to a person, by name."""
        self.one("jobs", "id", job_id)["assignee"] = assignee
        return "assigned"

    def get_room(self, room: str):
        """Whether a meeting room is free today. Gives {"room", "state"}, where state is free or taken."""
        return {"room": room, "state": self.state["rooms"][room]}

    def book_room(self, room: str):
        """Book a meeting room for today; who had it before loses it."""
        self.state["rooms"][room] = "booked"
        return "booked"

    def set_thermostat(self, degrees: int):
        """Set the temperature of the office in degrees Celsius."""
        self.state["thermostat"] = degrees
        return degrees


_READING = (
    *("get_", "list_", "find_", "read_", "search_", "electricity_", "buses_", "hall_"),
    *("slack_get_", "slack_list_", "convert_"),
    *("total_visits_", "engaged_users_", "traffic_source_", "timestamp_", "datetime_", "shift_timestamp"),
    *("unit_conversion", "calculate_"),
)


def _world(kind: type[Place], changes: Mapping[str, Any]) -> World:
    place = kind(changes)
    functions = [getattr(place, name) for name in vars(kind) if not name.startswith("_") and name != "start"]
    tools: list[Declared] = []
    for function in functions:
        spec = tool_of(function).spec
        only_reads = spec.executor.startswith(_READING)
        result = spec.result or {}
        tools.append(Declared(spec.executor, spec.description, spec.parameters, result, function, only_reads))
    return World(tuple(tools), lambda: json.dumps(place.state, sort_keys=True).casefold())


def job_tasks() -> Iterator[Task]:
    """The goals of `jobs.jsonl`."""
    yield from tasks_of(GOALS, {"office": Office})


def tasks_of(goals: Path, places: Mapping[str, type[Place]]) -> Iterator[Task]:
    """The goals of a file, each in the place that it names, or else in the only one."""
    for line in goals.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        name = row.get("place") or next(iter(places))
        cases = tuple(_case(places[name], one) for one in row["states"])
        yield Task(row["id"], row["goal"], cases, (name,))


def odd_numbered(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks whose id ends in an odd number, of a set whose other half is only counted."""
    return (task for task in tasks if int(task.id[-2:]) % 2)


def even_numbered(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks whose id ends in an even number: the half that is only counted."""
    return (task for task in tasks if not int(task.id[-2:]) % 2)


def _case(kind: type[Place], said: Mapping[str, Any]) -> Case:
    def world() -> World:
        return _world(kind, said.get("set", {}))

    def is_right(after: World, answer: str) -> bool:
        wanted = world()
        execute(said["calls"], wanted)
        asked = {name for name, _, _ in after.calls}
        says = all(text.casefold() in answer.casefold() for text in said.get("says", ()))
        return wanted.state() == after.state() and asked.issuperset(said.get("asks", ())) and says

    return Case(world, is_right)
