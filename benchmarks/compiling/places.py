"""A shop, a home and a school, whose goals are scored as those of the office are (`jobs`).

The tools differ in how they are declared: those of the shop tell their results in words, those of the home
declare them, those of the school are mixed. `places.jsonl` has the goals, none of which is in a prompt.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, tasks_of
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "places.jsonl"


def _said(name: str) -> str:
    """The last word of a name, which is what matters in it."""
    return name.casefold().split()[-1].rstrip("s")


class Shop(Place):
    """The back office of a web shop; no result is declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "customers": [
                {"id": "C1", "name": "Ada Holm", "email": "ada@mail.example", "tier": "gold"},
                {"id": "C2", "name": "Ben Ruud", "email": "ben@mail.example", "tier": "basic"},
            ],
            "orders": [
                {"id": "O-100", "customer": "C1", "status": "paid", "total": 80.0, "sku": "LAMP"},
                {"id": "O-101", "customer": "C1", "status": "shipped", "total": 35.5, "sku": "MUG"},
                {"id": "O-102", "customer": "C2", "status": "paid", "total": 240.0, "sku": "CHAIR"},
                {"id": "O-103", "customer": "C2", "status": "paid", "total": 12.0, "sku": "MUG"},
            ],
            "products": [
                {"sku": "LAMP", "name": "Desk lamp", "price": 40.0, "stock": 4},
                {"sku": "MUG", "name": "Blue mug", "price": 12.0, "stock": 0},
                {"sku": "CHAIR", "name": "Oak chair", "price": 240.0, "stock": 11},
            ],
            "tickets": [
                {"id": "T7", "customer": "C2", "subject": "Chair wobbles", "status": "open"},
                {"id": "T8", "customer": "C1", "subject": "Where is my mug", "status": "open"},
                {"id": "T9", "customer": "C1", "subject": "Thanks", "status": "closed"},
            ],
            "shipped": [],
            "refunds": [],
            "messages": [],
            "coupons": [],
        }

    def find_customer(self, name: str):
        """Find a customer by full name. Returns {id, name, email, tier}; tier is basic or gold."""
        return self.one("customers", "name", name)

    def get_order(self, order_id: str):
        """Get an order: {id, customer, status, total, sku}. Status: paid, shipped, cancelled or refunded."""
        return self.one("orders", "id", order_id)

    def list_orders(self, customer_id: str | None = None, status: str | None = None):
        """List orders of a customer (by id) and/or with a status. Returns a list of orders."""
        return [
            o for o in self.state["orders"]
            if customer_id in (None, o["customer"]) and status in (None, o["status"])
        ]  # fmt: skip

    def cancel_order(self, order_id: str):
        """Cancel an order that has not been shipped."""
        order = self.one("orders", "id", order_id)
        if order["status"] == "shipped":
            raise ValueError(f"{order_id} has been shipped")
        order["status"] = "cancelled"
        return {"ok": True}

    def ship_order(self, order_id: str, carrier: Literal["post", "express"]):
        """Hand an order over to a carrier."""
        self.one("orders", "id", order_id)["status"] = "shipped"
        self.state["shipped"].append([order_id, carrier])
        return {"ok": True, "tracking": "TR-1"}

    def refund_order(self, order_id: str, amount: float):
        """Pay back an amount of an order."""
        self.one("orders", "id", order_id)["status"] = "refunded"
        self.state["refunds"].append([order_id, float(amount)])
        return {"ok": True}

    def get_product(self, sku: str):
        """Get a product: {sku, name, price, stock}, where stock is the number of pieces we have."""
        return self.one("products", "sku", sku)

    def search_products(self, query: str):
        """Search products by words of their name. Returns a list of products as get_product does."""
        words = query.casefold().split()
        return [p for p in self.state["products"] if all(w in p["name"].casefold() for w in words)]

    def set_price(self, sku: str, price: float):
        """Change the price of a product."""
        self.one("products", "sku", sku)["price"] = round(float(price), 2)
        return {"ok": True}

    def restock_product(self, sku: str, quantity: int):
        """Order more pieces of a product from its supplier; they are added to the stock."""
        self.one("products", "sku", sku)["stock"] += quantity
        return {"ok": True}

    def list_tickets(self, status: Literal["open", "closed"]):
        """List support tickets with a status. Returns a list of {id, customer, subject, status}."""
        return [t for t in self.state["tickets"] if t["status"] == status]

    def close_ticket(self, ticket_id: str):
        """Close a support ticket."""
        self.one("tickets", "id", ticket_id)["status"] = "closed"
        return {"ok": True}

    def message_customer(self, customer_id: str, text: str):
        """Send a customer (by id) a message."""
        self.one("customers", "id", customer_id)
        self.state["messages"].append(customer_id)
        return {"ok": True}

    def give_coupon(self, customer_id: str, percent: int):
        """Give a customer (by id) a discount coupon."""
        self.state["coupons"].append([customer_id, percent])
        return {"code": "SAVE"}


class Device(TypedDict):
    id: str
    kind: Literal["light", "plug", "blind"]
    room: str
    on: bool


class Alarm(TypedDict):
    id: str
    time: str
    label: str


class Car(TypedDict):
    battery: int
    plugged_in: bool


class Price(TypedDict):
    cents_per_kwh: float
    trend: Literal["rising", "falling"]


class Item(TypedDict):
    name: str
    quantity: int


class Home(Place):
    """A house with devices; all results are declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "devices": [
                {"id": "d1", "kind": "light", "room": "kitchen", "on": True},
                {"id": "d2", "kind": "plug", "room": "kitchen", "on": True},
                {"id": "d3", "kind": "light", "room": "bedroom", "on": False},
                {"id": "d4", "kind": "light", "room": "living room", "on": True},
                {"id": "d5", "kind": "light", "room": "living room", "on": True},
                {"id": "d6", "kind": "blind", "room": "living room", "on": False},
            ],
            "brightness": {},
            "temperatures": {"kitchen": 19.5, "bedroom": 23.0, "living room": 21.0},
            "targets": {},
            "locks": {"front": "unlocked", "back": "locked", "garage": "unlocked"},
            "alarms": [
                {"id": "a1", "time": "06:30", "label": "work"},
                {"id": "a2", "time": "09:00", "label": "pills"},
            ],
            "car": {"battery": 35, "plugged_in": True},
            "charging": None,
            "price": {"cents_per_kwh": 18.5, "trend": "falling"},
            "notes": [],
            "shopping": [{"name": "milk", "quantity": 1}],
            "vacuumed": [],
        }

    def list_devices(self, room: str | None = None) -> list[Device]:
        """Devices of the house, or of one room."""
        return [d for d in self.state["devices"] if room in (None, d["room"])]

    def switch_device(self, device_id: str, on: bool) -> bool:
        """Turn a device on or off."""
        self.one("devices", "id", device_id)["on"] = on
        return on

    def dim_light(self, device_id: str, percent: int) -> int:
        """Set the brightness of a light."""
        self.state["brightness"][device_id] = percent
        return percent

    def read_temperature(self, room: str) -> float:
        """Temperature of a room in degrees Celsius."""
        return self.state["temperatures"][room]

    def set_heating(self, room: str, degrees: float) -> float:
        """Set the wanted temperature of a room."""
        self.state["targets"][room] = float(degrees)
        return degrees

    def get_lock(self, door: str) -> Literal["locked", "unlocked"]:
        """Whether a door (front, back or garage) is locked."""
        return self.state["locks"][door]

    def lock_door(self, door: str) -> bool:
        """Lock a door."""
        if self.state["locks"][door] == "locked":
            raise ValueError(f"the {door} door is locked already")
        self.state["locks"][door] = "locked"
        return True

    def list_alarms(self) -> list[Alarm]:
        """All alarms."""
        return self.state["alarms"]

    def set_alarm(self, time: str, label: str = "") -> Alarm:
        """Set an alarm at a time such as 07:00."""
        alarm = {"id": f"a-{time}", "time": time.zfill(5), "label": ""}
        self.state["alarms"] = sorted((*self.state["alarms"], alarm), key=lambda each: each["time"])
        return copy.deepcopy(alarm)  # type: ignore[return-value]

    def delete_alarm(self, alarm_id: str) -> bool:
        """Delete an alarm."""
        self.state["alarms"].remove(self.one("alarms", "id", alarm_id))
        return True

    def get_car(self) -> Car:
        """State of the car; battery in percent."""
        return self.state["car"]

    def charge_car(self, to_percent: int) -> bool:
        """Charge the car up to a percentage."""
        self.state["charging"] = to_percent
        return True

    def electricity_price(self) -> Price:
        """Price of electricity now."""
        return self.state["price"]

    def notify_person(self, person: str, text: str) -> bool:
        """Send a note to the phone of somebody in the family."""
        self.state["notes"].append(person.casefold())
        return True

    def get_shopping_list(self) -> list[Item]:
        """What is on the shopping list."""
        return self.state["shopping"]

    def add_to_shopping_list(self, items: list[Item]) -> int:
        """Add things to the shopping list."""
        self.state["shopping"] += [{"name": _said(i["name"]), "quantity": i["quantity"]} for i in items]
        return len(self.state["shopping"])

    def vacuum_room(self, room: str) -> bool:
        """Have the robot vacuum a room."""
        self.state["vacuumed"].append(room)
        return True


class Pupil(TypedDict):
    id: int
    name: str
    group: str
    guardian_mail: str


class Mark(TypedDict):
    subject: str
    points: int


class School(Place):
    """The office of a school; some results are declared."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "pupils": [
                {"id": 1, "name": "Nora", "group": "7a", "guardian_mail": "nora.home@post.example"},
                {"id": 2, "name": "Omar", "group": "7a", "guardian_mail": "omar.home@post.example"},
                {"id": 3, "name": "Pia", "group": "7b", "guardian_mail": "pia.home@post.example"},
            ],
            "marks": {
                "1": [{"subject": "maths", "points": 14}, {"subject": "history", "points": 9}],
                "2": [{"subject": "maths", "points": 6}, {"subject": "history", "points": 12}],
                "3": [{"subject": "maths", "points": 11}],
            },
            "absences": [{"pupil": 2, "date": "2026-03-02", "excused": False}],
            "mails": [],
            "lent": {"atlas": None, "telescope": "Pia"},
            "waiting": [],
            "buses": {"2026-05-04": 1, "2026-05-05": 0},
            "trips": [],
            "hall": {"2026-04-10": "choir", "2026-04-11": None},
            "tutoring": [],
            "menu": {"monday": "fish", "tuesday": "soup"},
        }

    def list_pupils(self, group: str | None = None) -> list[Pupil]:
        """Pupils of the school or of one group, such as 7a."""
        return [p for p in self.state["pupils"] if group in (None, p["group"])]

    def find_pupil(self, name: str) -> Pupil:
        """A pupil by first name."""
        return self.one("pupils", "name", name)  # type: ignore[return-value]

    def get_marks(self, pupil_id: int) -> list[Mark]:
        """Marks of a pupil; points go from 0 to 20."""
        return self.state["marks"][str(pupil_id)]

    def record_mark(self, pupil_id: int, subject: str, points: int):
        """Record a mark of a pupil."""
        self.state["marks"][str(pupil_id)].append({"subject": subject.casefold(), "points": points})
        return {"recorded": True}

    def list_absences(self, pupil_id: int):
        """Absences of a pupil: a list of {pupil, date, excused}."""
        return [a for a in self.state["absences"] if a["pupil"] == pupil_id]

    def report_absence(self, pupil_id: int, date: str):
        """Record that a pupil is absent on a date (YYYY-MM-DD)."""
        self.state["absences"].append({"pupil": pupil_id, "date": date, "excused": False})
        return {"recorded": True}

    def excuse_absence(self, pupil_id: int, date: str):
        """Mark an absence as excused."""
        for absence in self.state["absences"]:
            if (absence["pupil"], absence["date"]) == (pupil_id, date):
                absence["excused"] = True
        return {"excused": True}

    def send_mail(self, to: list[str], subject: str, body: str):
        """Send a mail to addresses."""
        self.state["mails"].append(sorted(to))
        return {"sent": len(to)}

    def lend_item(self, item: str, to: str):
        """Lend a thing of the school to a person. Fails if it is lent to somebody else."""
        if self.state["lent"][item]:
            raise ValueError(f"{item} is lent to {self.state['lent'][item]}")
        self.state["lent"][item] = to
        return {"lent": item}

    def join_waiting_list(self, item: str, person: str):
        """Put a person on the waiting list of a thing that is lent out."""
        self.state["waiting"].append([item, person])
        return {"position": len(self.state["waiting"])}

    def buses_free(self, date: str) -> int:
        """How many buses are free on a date (YYYY-MM-DD)."""
        return self.state["buses"][date]

    def book_bus(self, date: str, destination: str):
        """Book a bus for a date."""
        self.state["buses"][date] -= 1
        self.state["trips"].append([date, _said(destination)])
        return {"booked": date}

    def hall_booking(self, date: str) -> str | None:
        """Who has booked the hall on a date; null if it is free."""
        return self.state["hall"][date]

    def book_hall(self, date: str, by: str):
        """Book the hall on a date; an earlier booking is replaced."""
        self.state["hall"][date] = _said(by)
        return {"booked": date}

    def enrol_in_tutoring(self, pupil_id: int, subject: str):
        """Enrol a pupil in extra lessons of a subject."""
        self.state["tutoring"].append([pupil_id, subject.casefold()])
        return {"enrolled": True}

    def set_menu(self, day: str, dish: str):
        """Change the dish of the canteen on a weekday."""
        self.state["menu"][day.casefold()] = dish.casefold()
        return {"day": day}


def place_tasks() -> Iterator[Task]:
    """The goals of `places.jsonl`."""
    yield from tasks_of(GOALS, {"shop": Shop, "home": Home, "school": School})
