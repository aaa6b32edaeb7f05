"""Six jobs of a car sharing club for `distilling.py`, done by distracted agents.

Written before its author had read the distiller, and measured before it was mended. The agents say days and
amounts as people do, calculate days, look in any order, and do one thing or another.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

from benchmarks.distilling_world import Agent, Call, World

from callsheet.ports.calls import ToolFailed

STATIONS = ("Central", "Riverside", "Old Mill", "North Gate", "Brewery")
CITIES = ("Leiden", "Haarlem", "Utrecht", "Delft")
FIRST = ("Maud", "Pieter", "Yusuf", "Sanne", "Kees", "Lotte", "Ruben", "Fatima", "Joost", "Eva")
LAST = ("Bakker", "Demir", "Visser", "Jansen", "Mulder", "Smit", "Bos", "Dekker")
MODELS = ("Up", "Zoe", "Corsa", "Berlingo", "Picanto")
PARTS = ("left door", "rear bumper", "windscreen", "right mirror", "front wheel", "boot lid")
MONTH_NAMES = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
TODAY = date(2026, 11, 9)
FIELDS = {
    "get_today": (),
    "list_cars": ("station",),
    "list_bookings": ("plate", "day"),
    "list_trips": ("plate", "month"),
    "get_trip": ("trip_id",),
    "get_member": ("member_id",),
    "get_tariff": ("plan",),
    "find_garages": ("city",),
    "list_damages": ("plate", "cursor"),
    "search_licences": ("station",),
    "book_service": ("garage_id", "plate", "date", "note"),
    "set_status": ("plate", "status"),
    "charge": ("member_id", "cents", "description"),
    "send_text": ("phone", "text"),
    "cancel_booking": ("booking_id", "reason"),
    "send_email": ("to", "subject", "body"),
    "file_claim": ("plate", "part", "amount", "urgency"),
}


class Cars(World):
    """Cars, trips, bookings, members, garages and damages made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"result": "created", "id": f"{tool[0]}{700 + 3 * len(self.done)}"}

    def get_today(self) -> dict[str, Any]:
        return {"date": TODAY.isoformat(), "weekday": TODAY.strftime("%A")}

    def list_cars(self, station: str) -> dict[str, Any]:
        chance = self.pick("cars", station)
        cars: list[dict[str, Any]] = []
        for _ in range(self.size(chance)):
            odometer = chance.randrange(20_000, 90_000)
            cars.append(
                {
                    "plate": f"{chance.choice('GHKN')}-{chance.randrange(100, 999)}-XB",
                    "model": chance.choice(MODELS),
                    "odometer_km": odometer,
                    "serviced_at_km": odometer - chance.randrange(2_000, 30_000),
                    "status": chance.choice(("free", "free", "in use", "repair")),
                }
            )
        return {"station": station, "cars": cars}

    def list_bookings(self, plate: str, day: str) -> list[dict[str, Any]]:
        chance = self.pick("bookings", plate, day)
        return [
            {
                "booking_id": f"B{chance.randrange(10_000, 99_999)}",
                "member_id": chance.randrange(1000, 9999),
                "from": f"{8 + 2 * place:02}:00",
                "to": f"{9 + 2 * place:02}:30",
            }
            for place in range(self.size(chance))
        ]

    def list_trips(self, plate: str, month: str) -> list[dict[str, Any]]:
        chance = self.pick("trips", plate, month)
        return [
            {
                "trip_id": f"T{chance.randrange(10_000, 99_999)}",
                "km": chance.randrange(5, 240),
                "income": chance.randrange(500, 9000) / 100,
            }
            for _ in range(self.size(chance))
        ]

    def get_trip(self, trip_id: str) -> dict[str, Any]:
        chance = self.pick("trip", trip_id)
        return {
            "trip_id": trip_id,
            "member_id": chance.randrange(1000, 9999),
            "km": chance.randrange(20, 200),
            "ended": f"2026-1{chance.randrange(0, 2)}-{chance.randrange(1, 29):02}T18:20:00Z",
        }

    def get_member(self, member_id: int) -> dict[str, Any]:
        chance = self.pick("member", member_id)
        first, last = chance.choice(FIRST), chance.choice(LAST)
        return {
            "member_id": member_id,
            "name": {"first": first, "last": last},
            "phone": f"+31 6 {chance.randrange(1000, 9999)} {chance.randrange(1000, 9999)}",
            "plan": chance.choice(("basic", "plus")),
        }

    def get_tariff(self, plan: str) -> dict[str, Any]:
        chance = self.pick("tariff", plan)
        return {"plan": plan, "free_km": chance.randrange(60, 130), "cents_per_km": chance.randrange(18, 40)}

    def find_garages(self, city: str) -> dict[str, Any]:
        if city not in CITIES:
            raise ToolFailed(f"no garages in {city!r}")
        chance = self.pick("garages", city)
        return {
            "garages": [
                {
                    "garage_id": f"g-{chance.randrange(100, 999)}",
                    "name": f"{chance.choice(LAST)} Auto",
                    "price": chance.randrange(90, 300),
                    "next_free": f"2026-11-{chance.randrange(10, 30)}",
                }
                for _ in range(max(1, self.size(chance)))
            ]
        }

    def list_damages(self, plate: str, cursor: str | None = None) -> dict[str, Any]:
        chance = self.pick("damages", plate, cursor)
        rows = [
            {
                "part": chance.choice(PARTS),
                "estimate": chance.randrange(50, 2500),
                "claimed": chance.random() < 0.3,
            }
            for _ in range(self.size(chance))
        ]
        return {"damages": rows, "next_cursor": None if cursor else "p2"}

    def search_licences(self, station: str) -> list[dict[str, Any]]:
        chance = self.pick("licences", station)
        return [
            {
                "member_id": chance.randrange(1000, 9999),
                "valid_until": (TODAY + timedelta(days=chance.randrange(1, 90))).isoformat(),
            }
            for _ in range(self.size(chance))
        ]


def _spoken(day: str) -> str:
    """A day as people say it: 3 November 2026."""
    year, month, number = day[:10].split("-")
    return f"{int(number)} {MONTH_NAMES[int(month)]} {year}"


def plan_services(call: Call, given: dict[str, Any]) -> None:
    if len(given["station"]) % 2:  # in any order
        garages = call("find_garages", city=given["city"])["garages"]
        cars = call("list_cars", station=given["station"])["cars"]
    else:
        cars = call("list_cars", station=given["station"])["cars"]
        garages = call("find_garages", city=given["city"])["garages"]
    due = [car for car in cars if car["odometer_km"] - car["serviced_at_km"] > given["km"]]
    soonest = min(garages, key=lambda one: one["next_free"])
    for car in due:
        call(
            "book_service",
            garage_id=soonest["garage_id"],
            plate=car["plate"],
            date=soonest["next_free"],
            note=f"Service at {car['odometer_km']:,} km",
        )
        call("set_status", plate=car["plate"], status="service")


def bill_trip(call: Call, given: dict[str, Any]) -> None:
    trip = call("get_trip", trip_id=given["trip"])
    member = call("get_member", member_id=trip["member_id"])
    first, tariff = member["name"]["first"], call("get_tariff", plan=member["plan"])
    over = trip["km"] - tariff["free_km"]
    if over > 0:
        cents = over * tariff["cents_per_km"]
        call(
            "charge",
            member_id=trip["member_id"],
            cents=cents,
            description=f"{over} km of trip {given['trip']}",
        )
        text = f"Hi {first}, your trip of {_spoken(trip['ended'])} costs {cents / 100:.2f} EUR."
    else:
        text = f"Hi {first}, your trip of {_spoken(trip['ended'])} is free."
    call("send_text", phone=member["phone"].replace(" ", ""), text=text)


def withdraw_car(call: Call, given: dict[str, Any]) -> None:
    call("set_status", plate=given["plate"], status="repair")
    for booking in call("list_bookings", plate=given["plate"], day=given["day"]):
        member = call("get_member", member_id=booking["member_id"])
        call("cancel_booking", booking_id=booking["booking_id"], reason=f"{given['plate']} is in repair")
        call(
            "send_text",
            phone=member["phone"].replace(" ", ""),
            text=f"Sorry {member['name']['first']}, "
            f"your booking of {_spoken(given['day'])} at {booking['from']} "
            f"is cancelled: {given['plate']} is in repair.",
        )


def report_income(call: Call, given: dict[str, Any]) -> None:
    income: dict[str, float] = {}
    count = 0
    for car in call("list_cars", station=given["station"])["cars"]:
        trips = call("list_trips", plate=car["plate"], month=given["month"])
        income[car["plate"]] = sum(trip["income"] for trip in trips)
        count += len(trips)
    if income:
        best = max(income, key=lambda plate: income[plate])
        call(
            "send_email",
            to=given["mail"],
            subject=f"Income of {given['station']} in {given['month']}",
            body=f"{count} trips, {sum(income.values()):.2f} EUR altogether. "
            f"Most by {best}: {income[best]:.2f} EUR.",
        )


def claim_damages(call: Call, given: dict[str, Any]) -> None:
    page = call("list_damages", plate=given["plate"])
    damages = list(page["damages"])
    while page["next_cursor"]:
        page = call("list_damages", plate=given["plate"], cursor=page["next_cursor"])
        damages += page["damages"]
    for damage in damages:
        if not damage["claimed"] and damage["estimate"] >= given["limit"]:
            call(
                "file_claim",
                plate=given["plate"],
                part=damage["part"],
                amount=damage["estimate"],
                urgency="high" if damage["estimate"] >= given["high"] else "normal",
            )


def warn_of_licences(call: Call, given: dict[str, Any]) -> None:
    today = date.fromisoformat(call("get_today")["date"])
    last = (today + timedelta(days=given["days"])).isoformat()
    for licence in call("search_licences", station=given["station"]):
        if licence["valid_until"] <= last:
            member = call("get_member", member_id=licence["member_id"])
            left = (date.fromisoformat(licence["valid_until"]) - today).days
            call(
                "send_text",
                phone=member["phone"].replace(" ", ""),
                text=f"Dear {member['name']['first']} {member['name']['last']}, "
                f"your licence ends in {left} days, "
                f"on {_spoken(licence['valid_until'])}.",
            )


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    limit = chance.randrange(3, 9) * 100
    return {
        "station": chance.choice(STATIONS),
        "city": chance.choice(CITIES),
        "km": chance.randrange(8, 20) * 1000,
        "trip": f"T{chance.randrange(10_000, 99_999)}",
        "plate": f"{chance.choice('GHKN')}-{chance.randrange(100, 999)}-XB",
        "day": f"2026-11-{chance.randrange(10, 29)}",
        "month": f"2026-{chance.randrange(1, 11):02}",
        "mail": f"{chance.choice(FIRST)}@club.example".lower(),
        "limit": limit,
        "high": limit + chance.randrange(4, 9) * 100,
        "days": chance.choice((30, 45, 60)),
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    (
        "book the garage in {city} that is free first for every car at {station} that has driven more than "
        "{km} km since its last service, and set these cars to service",
        plan_services,
    ),
    (
        "charge the member of trip {trip} for the km above the free ones of their plan and text them what it "
        "costs; if there is nothing to charge, text them that it is free",
        bill_trip,
    ),
    (
        "take {plate} out for repair: cancel its bookings on {day} and text everybody who had one",
        withdraw_car,
    ),
    (
        "mail {mail} the income of {station} in {month}: how many trips, the total and the car with most",
        report_income,
    ),
    (
        "claim the damages of {plate} of at least {limit} EUR that are not claimed yet, urgency high from "
        "{high} EUR on and normal below",
        claim_damages,
    ),
    (
        "text the members at {station} whose licence ends within {days} days how many days are left",
        warn_of_licences,
    ),
)
