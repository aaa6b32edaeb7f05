"""A bicycle workshop, a vet's practice and a hotel, whose goals were written before any prompt was looked at.

They are scored as those of the office are (`jobs`). The goals of `trades.jsonl` were written from what people
at such a desk do all day, in their words: ten of the workshop and the practice, and eight of the hotel, which
nobody looked at before the prompts were as they are. The workshop tells its results in words, the practice
declares some, the hotel all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, tasks_of
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "trades.jsonl"


def _clock(said: str) -> str:
    """A time of the day in one spelling."""
    hour, _, minute = said.partition(":")
    return f"{hour.zfill(2)}:{minute or '00'}"


class Workshop(Place):
    """A workshop that repairs bicycles; no result is declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "customers": [
                {"id": "K1", "name": "Jonas Falk", "phone": "0151-1"},
                {"id": "K2", "name": "Edda Roth", "phone": "0151-2"},
                {"id": "K3", "name": "Milo Sand", "phone": "0151-3"},
            ],
            "repairs": [
                {
                    "id": "R-31",
                    "customer_id": "K2",
                    "bike": "city bike",
                    "state": "in_progress",
                    "cost": 48.0,
                },
                {"id": "R-32", "customer_id": "K3", "bike": "tandem", "state": "ready", "cost": 130.5},
                {"id": "R-33", "customer_id": "K1", "bike": "racer", "state": "waiting", "cost": 0.0},
                {"id": "R-34", "customer_id": "K1", "bike": "cargo bike", "state": "ready", "cost": 60.0},
            ],
            "parts": [
                {"part_no": "P-7", "name": "brake pad", "stock": 2, "price": 6.5},
                {"part_no": "P-8", "name": "chain", "stock": 14, "price": 22.0},
            ],
            "ordered": [],
            "texts": [],
            "appointments": [
                {"id": "A-1", "customer_id": "K3", "day": "Tuesday", "time": "10:00"},
                {"id": "A-2", "customer_id": "K2", "day": "Thursday", "time": "09:00"},
            ],
            "labels": [],
        }

    def find_customer(self, name: str):
        """Find a customer by full name. Returns {id, name, phone}."""
        return self.one("customers", "name", name)

    def get_repair(self, repair_id: str):
        """Get a repair: {id, customer_id, bike, state, cost}."""
        return self.one("repairs", "id", repair_id)

    def list_repairs(self, state: Literal["waiting", "in_progress", "ready"] | None = None):
        """List repairs, all or those in a state. Returns a list of repairs as get_repair does."""
        return [each for each in self.state["repairs"] if state in (None, each["state"])]

    def open_repair(self, customer_id: str, bike: str, problem: str):
        """Take in a bike of a customer for repair. Returns the new repair."""
        row = {"id": "R-40", "customer_id": customer_id, "bike": bike.casefold(), "state": "waiting"}
        self.state["repairs"].append(row)
        return row | {"problem": problem}

    def set_repair_state(
        self, repair_id: str, state: Literal["waiting", "in_progress", "ready", "collected"]
    ):
        """Change the state of a repair."""
        self.one("repairs", "id", repair_id)["state"] = state
        return {"ok": True}

    def add_cost(self, repair_id: str, amount: float):
        """Add an amount to the cost of a repair."""
        self.one("repairs", "id", repair_id)["cost"] += amount
        return {"ok": True}

    def get_part(self, name: str):
        """Look up a spare part by its name, in the singular. Returns {part_no, name, stock, price}."""
        return self.one("parts", "name", name.casefold())

    def order_part(self, part_no: str, quantity: int):
        """Order a number of a spare part, by its part number."""
        self.one("parts", "part_no", part_no)
        self.state["ordered"].append([part_no, quantity])
        return {"ok": True}

    def text_customer(self, customer_id: str, text: str):
        """Send a customer (by id) a text message."""
        self.one("customers", "id", customer_id)
        self.state["texts"] = sorted([*self.state["texts"], customer_id])
        return {"ok": True}

    def list_appointments(self, day: str):
        """Appointments on a weekday. Returns a list of {id, customer_id, day, time}."""
        return [each for each in self.state["appointments"] if each["day"] == day]

    def book_appointment(self, customer_id: str, day: str, time: str):
        """Book an appointment for a customer (by id) on a weekday."""
        self.one("customers", "id", customer_id)
        row = {"id": "A-9", "customer_id": customer_id, "day": day, "time": _clock(time)}
        self.state["appointments"].append(row)
        return row

    def cancel_appointment(self, appointment_id: str):
        """Cancel an appointment."""
        self.state["appointments"].remove(self.one("appointments", "id", appointment_id))
        return {"ok": True}

    def print_label(self, repair_id: str):
        """Print the label of a repair."""
        self.state["labels"].append(repair_id)
        return {"ok": True}


class Patient(TypedDict):
    id: int
    name: str
    species: str
    weight_kg: float


class Visit(TypedDict):
    id: str
    patient_id: int
    date: str
    time: str
    vet: str


class Practice(Place):
    """The desk of a vet's practice; some results are declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "patients": [
                {"id": 41, "name": "Bruno", "species": "dog", "weight_kg": 30.0},
                {"id": 42, "name": "Luna", "species": "cat", "weight_kg": 4.1},
                {"id": 43, "name": "Minka", "species": "cat", "weight_kg": 3.7},
            ],
            "visits": [
                {"id": "v1", "patient_id": 42, "date": "2026-05-11", "time": "09:00", "vet": "Weiss"},
                {"id": "v2", "patient_id": 43, "date": "2026-05-11", "time": "09:30", "vet": "Adler"},
                {"id": "v3", "patient_id": 41, "date": "2026-05-11", "time": "10:00", "vet": "Weiss"},
                {"id": "v4", "patient_id": 41, "date": "2026-05-13", "time": "10:00", "vet": "Weiss"},
            ],
            "free": {"Weiss 2026-05-12": ["10:30", "14:00"], "Adler 2026-05-12": ["09:00"]},
            "bills": {"41": {"amount": 80.0, "paid": True}, "43": {"amount": 210.0, "paid": False}},
            "cages": [
                {"number": 1, "patient_id": 43},
                {"number": 2, "patient_id": None},
                {"number": 3, "patient_id": 41},
            ],
            "vaccinated": [],
            "notes": [],
        }

    def find_patient(self, name: str) -> Patient:
        """An animal by its name."""
        return self.one("patients", "name", name)  # type: ignore[return-value]

    def get_patient(self, patient_id: int) -> Patient:
        """An animal by its number."""
        return self.one("patients", "id", patient_id)  # type: ignore[return-value]

    def list_visits(self, date: str) -> list[Visit]:
        """Visits on a date (YYYY-MM-DD), those of all vets."""
        return [each for each in self.state["visits"] if each["date"] == date]

    def free_times(self, date: str, vet: str) -> list[str]:
        """Times at which a vet (last name) is free on a date (YYYY-MM-DD), the earliest first."""
        return self.state["free"].get(f"{vet} {date}", [])

    def book_visit(self, patient_id: int, date: str, time: str, vet: str):
        """Book a visit of an animal to a vet (last name)."""
        row = {"id": "v9", "patient_id": patient_id, "date": date, "time": _clock(time), "vet": vet}
        self.state["visits"].append(row)
        return row

    def cancel_visit(self, visit_id: str):
        """Cancel a visit."""
        self.state["visits"].remove(self.one("visits", "id", visit_id))
        return {"cancelled": visit_id}

    def record_weight(self, patient_id: int, kg: float) -> float:
        """Record the weight of an animal in kilograms."""
        self.one("patients", "id", patient_id)["weight_kg"] = float(kg)
        return kg

    def record_vaccination(self, patient_id: int, vaccine: str):
        """Record that an animal was vaccinated."""
        self.state["vaccinated"].append([patient_id, vaccine.casefold()])
        return {"recorded": True}

    def write_owner(self, patient_id: int, text: str):
        """Send a message to the owner of an animal."""
        self.one("patients", "id", patient_id)
        self.state["notes"] = sorted([*self.state["notes"], patient_id])
        return {"sent": True}

    def get_bill(self, patient_id: int):
        """The bill of an animal: {amount, paid}, where paid is true or false."""
        return self.state["bills"][str(patient_id)]

    def list_cages(self):
        """All cages of the ward: a list of {number, patient_id}; patient_id is null if a cage is empty."""
        return self.state["cages"]

    def admit_patient(self, patient_id: int, cage: int):
        """Keep an animal in a cage of the ward."""
        self.one("cages", "number", cage)["patient_id"] = patient_id
        return {"admitted": patient_id}

    def discharge_patient(self, patient_id: int):
        """Let an animal that stays in the ward go home."""
        self.one("cages", "patient_id", patient_id)["patient_id"] = None
        return {"discharged": patient_id}


class Booking(TypedDict):
    id: str
    guest: str
    room: int
    arrival: str
    breakfast: bool


class Room(TypedDict):
    number: int
    clean: bool
    occupied: bool


class Bill(TypedDict):
    total: float
    paid: float


class Hotel(Place):
    """The reception of a hotel; all results are declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "bookings": [
                {"id": "B-1", "guest": "Okafor", "room": 11, "arrival": "2026-05-30", "breakfast": True},
                {"id": "B-2", "guest": "Virtanen", "room": 12, "arrival": "2026-05-31", "breakfast": False},
                {"id": "B-3", "guest": "Brandt", "room": 14, "arrival": "2026-06-01", "breakfast": False},
                {"id": "B-4", "guest": "Costa", "room": 22, "arrival": "2026-06-01", "breakfast": False},
            ],
            "rooms": [
                {"number": 11, "clean": False, "occupied": True},
                {"number": 12, "clean": True, "occupied": True},
                {"number": 14, "clean": False, "occupied": False},
                {"number": 21, "clean": True, "occupied": False},
                {"number": 22, "clean": False, "occupied": False},
            ],
            "bills": {
                "B-1": {"total": 300.0, "paid": 300.0},
                "B-2": {"total": 412.5, "paid": 150.0},
                "B-3": {"total": 95.0, "paid": 95.0},
                "B-4": {"total": 0.0, "paid": 0.0},
            },
            "cleaning": [],
            "gone": [],
            "messages": [],
            "taxis": [],
            "calls": [],
        }

    def find_booking(self, guest: str) -> Booking:
        """The booking of a guest, by last name."""
        return self.one("bookings", "guest", guest)  # type: ignore[return-value]

    def list_arrivals(self, date: str) -> list[Booking]:
        """Bookings of guests who arrive on a date (YYYY-MM-DD)."""
        return [each for each in self.state["bookings"] if each["arrival"] == date]

    def list_rooms(self) -> list[Room]:
        """All rooms of the house."""
        return self.state["rooms"]

    def get_room(self, number: int) -> Room:
        """A room by its number."""
        return self.one("rooms", "number", number)  # type: ignore[return-value]

    def get_bill(self, booking_id: str) -> Bill:
        """The bill of a booking, and how much of it is paid."""
        return self.state["bills"][booking_id]

    def add_charge(self, booking_id: str, amount: float, reason: str) -> bool:
        """Put an amount on the bill of a booking."""
        self.state["bills"][booking_id]["total"] += amount
        return True

    def check_out(self, booking_id: str) -> bool:
        """Check the guests of a booking out."""
        self.one("bookings", "id", booking_id)
        self.state["gone"].append(booking_id)
        return True

    def cancel_booking(self, booking_id: str) -> bool:
        """Cancel a booking."""
        self.state["bookings"].remove(self.one("bookings", "id", booking_id))
        return True

    def move_guest(self, booking_id: str, room: int) -> Booking:
        """Give a booking another room."""
        self.one("bookings", "id", booking_id)["room"] = room
        return self.one("bookings", "id", booking_id)  # type: ignore[return-value]

    def clean_room(self, number: int) -> bool:
        """Have a room cleaned."""
        self.state["cleaning"] = sorted(
            {*self.state["cleaning"], self.one("rooms", "number", number)["number"]}
        )
        return True

    def set_breakfast(self, booking_id: str, included: bool) -> bool:
        """Say whether breakfast is included in a booking."""
        self.one("bookings", "id", booking_id)["breakfast"] = included
        return included

    def message_guest(self, booking_id: str, text: str) -> bool:
        """Send the guest of a booking a message."""
        self.one("bookings", "id", booking_id)
        self.state["messages"].append(booking_id)
        return True

    def order_taxi(self, booking_id: str, time: str) -> bool:
        """Order a taxi for the guest of a booking, at a time such as 14:00."""
        self.one("bookings", "id", booking_id)
        self.state["taxis"].append([booking_id, _clock(time)])
        return True

    def wake_up_call(self, room: int, time: str) -> bool:
        """Have a room woken by telephone, at a time such as 07:00."""
        self.one("rooms", "number", room)
        self.state["calls"] = sorted([*self.state["calls"], [room, _clock(time)]])
        return True


def trade_tasks() -> Iterator[Task]:
    """The goals of `trades.jsonl`."""
    yield from tasks_of(GOALS, {"workshop": Workshop, "practice": Practice, "hotel": Hotel})
