"""Twenty jobs of a school, a clinic and a travel desk, by an author who had not read the distiller."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

PEOPLE = ("Amara", "Bela", "Chidi", "Dunja", "Emil", "Farah", "Goran", "Hilde", "Ines")
SUBJECTS = ("algebra", "botany", "chess", "drama", "ethics", "french", "geology")
TOWNS = ("Porto", "Ghent", "Turin", "Vilnius", "Graz", "Split", "Nantes")
FIELDS = {
    "list_pupils": ("course",),
    "get_pupil": ("pupil",),
    "list_grades": ("pupil", "term"),
    "list_absences": ("course", "week"),
    "find_trains": ("start", "end", "date"),
    "list_hotels": ("town",),
    "get_rates": ("hotel",),
    "list_invoices": ("vendor",),
    "get_invoice": ("number",),
    "search_patients": ("name",),
    "list_visits": ("patient_id",),
    "get_stock": ("item",),
    "list_shifts": ("week",),
    "list_rooms": ("building",),
    "check_room": ("room", "date"),
    "read_page": ("title",),
    "list_comments": ("page",),
    "list_trips": ("traveller",),
    "get_exchange_rate": ("base", "quote"),
    "send_letter": ("to", "text"),
    "enter_grade": ("pupil", "subject", "grade"),
    "book_train": ("train", "passengers"),
    "reserve_hotel": ("hotel", "nights", "guest"),
    "pay_invoice": ("number", "amount"),
    "flag_invoice": ("number", "reason"),
    "order_item": ("item", "count"),
    "assign_shift": ("shift", "person"),
    "book_room": ("room", "date", "title"),
    "append_page": ("title", "text"),
    "delete_comment": ("comment",),
    "cancel_trip": ("trip",),
    "create_reminder": ("patient_id", "date", "text"),
    "post_notice": ("board", "lines"),
}


class School(World):
    """Pupils, trains, hotels, invoices, patients, rooms and pages made of a seed."""

    fields = FIELDS

    def list_pupils(self, course: str) -> dict[str, Any]:
        chance = self.pick("pupils", course)
        return {
            "course": course,
            "pupils": [
                {"id": f"p{chance.randrange(100, 999)}", "name": name, "year": chance.randrange(7, 10)}
                for name in self.some(chance, PEOPLE)
            ],
        }

    def get_pupil(self, pupil: str) -> dict[str, Any]:
        chance = self.pick("pupil", pupil)
        parents = [f"{chance.choice(PEOPLE).lower()}{chance.randrange(10, 99)}@home.example"]
        if chance.random() < 0.4:
            parents.append(f"{chance.choice(PEOPLE).lower()}{chance.randrange(10, 99)}@work.example")
        return {"id": pupil, "parents": parents, "bus": chance.random() < 0.5}

    def list_grades(self, pupil: str, term: int) -> list[dict[str, Any]]:
        chance = self.pick("grades", pupil, term)
        return [{"subject": one, "grade": chance.randrange(1, 7)} for one in self.some(chance, SUBJECTS)]

    def list_absences(self, course: str, week: int) -> list[dict[str, Any]]:
        chance = self.pick("absences", course, week)
        return [
            {"pupil": name, "hours": chance.randrange(1, 8), "excused": chance.random() < 0.5}
            for name in self.some(chance, PEOPLE)
        ]

    def find_trains(self, start: str, end: str, date: str) -> dict[str, Any]:
        chance = self.pick("trains", start, end, date)
        return {
            "trains": [
                {
                    "train": f"IC{chance.randrange(100, 999)}",
                    "departs": f"{hour:02}:{chance.randrange(10, 59)}",
                    "price": chance.randrange(20, 150) + 0.5,
                    "changes": chance.randrange(0, 3),
                }
                for hour in sorted(chance.sample(range(6, 22), self.size(chance)))
            ]
        }

    def list_hotels(self, town: str) -> list[dict[str, Any]]:
        chance = self.pick("hotels", town)
        return [
            {"hotel": f"{word} {chance.choice(('Inn', 'House', 'Park'))}", "stars": chance.randrange(2, 6)}
            for word in self.some(
                chance, ("Golden", "Royal", "Quiet", "Harbour", "Green", "Old Mill", "Linden", "Star")
            )
        ]

    def get_rates(self, hotel: str) -> dict[str, Any]:
        chance = self.pick("rates", hotel)
        return {"single": chance.randrange(50, 120), "double": chance.randrange(120, 200), "currency": "EUR"}

    def list_invoices(self, vendor: str) -> list[dict[str, Any]]:
        chance = self.pick("invoices", vendor)
        return [
            {
                "number": f"INV-{chance.randrange(1000, 9999)}",
                "amount": chance.randrange(100, 5000),
                "due": f"2026-{chance.randrange(10, 13)}-{chance.randrange(10, 29)}",
                "paid": chance.random() < 0.5,
            }
            for _ in range(self.size(chance))
        ]

    def get_invoice(self, number: str) -> dict[str, Any]:
        chance = self.pick("invoice", number)
        lines: list[dict[str, Any]] = [
            {
                "item": chance.choice(SUBJECTS),
                "count": chance.randrange(1, 5),
                "price": chance.randrange(5, 50),
            }
            for _ in range(self.size(chance) or 1)
        ]
        return {"number": number, "lines": lines, "total": sum(one["count"] * one["price"] for one in lines)}

    def search_patients(self, name: str) -> list[dict[str, Any]]:
        if len(name.split()) != 2:
            raise ToolFailed("give the first and the last name")
        chance = self.pick("patients", name)
        return [
            {
                "patient_id": f"pt-{chance.randrange(10**4, 10**5)}",
                "name": name,
                "born": chance.randrange(1940, 2010),
            }
        ]

    def list_visits(self, patient_id: str) -> list[dict[str, Any]]:
        chance = self.pick("visits", patient_id)
        return [
            {
                "date": f"2026-0{chance.randrange(1, 10)}-{chance.randrange(10, 29)}",
                "doctor": chance.choice(PEOPLE),
                "cost": chance.randrange(30, 300),
            }
            for _ in range(self.size(chance) or 1)
        ]

    def get_stock(self, item: str) -> dict[str, Any]:
        return {"item": item, "left": self.pick("stock", item).randrange(0, 40)}

    def list_shifts(self, week: int) -> list[dict[str, Any]]:
        chance = self.pick("shifts", week)
        return [
            {
                "shift": f"sh{chance.randrange(100, 999)}",
                "day": day,
                "person": chance.choice((None, *PEOPLE[:2])),
            }
            for day in self.some(chance, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
        ]

    def list_rooms(self, building: str) -> list[dict[str, Any]]:
        chance = self.pick("rooms", building)
        return [
            {"room": f"{building[0]}{chance.randrange(100, 400)}", "seats": chance.randrange(8, 60)}
            for _ in range(self.size(chance))
        ]

    def check_room(self, room: str, date: str) -> dict[str, Any]:
        return {"room": room, "free": self.pick("room", room, date).random() < 0.5}

    def read_page(self, title: str) -> dict[str, Any]:
        chance = self.pick("page", title)
        return {
            "title": title,
            "owner": chance.choice(PEOPLE),
            "text": f"On {chance.choice(SUBJECTS)} in {chance.choice(TOWNS)}.",
        }

    def list_comments(self, page: str) -> list[dict[str, Any]]:
        chance = self.pick("comments", page)
        return [
            {
                "comment": f"c{chance.randrange(1000, 9999)}",
                "author": chance.choice(PEOPLE[:3]),
                "text": chance.choice(("Thanks", "Buy cheap watches", "I agree", "See http://spam.example")),
            }
            for _ in range(self.size(chance))
        ]

    def list_trips(self, traveller: str) -> list[dict[str, Any]]:
        chance = self.pick("trips", traveller)
        return [
            {
                "trip": f"T{chance.randrange(1000, 9999)}",
                "town": town,
                "date": f"2026-12-{chance.randrange(10, 29)}",
            }
            for town in self.some(chance, TOWNS)
        ]

    def get_exchange_rate(self, base: str, quote: str) -> dict[str, Any]:
        return {"base": base, "quote": quote, "rate": self.pick("rate", base, quote).randrange(50, 200) / 100}


def write_parents(call: Call, given: dict[str, Any]) -> None:
    for pupil in call("list_pupils", course=given["course"])["pupils"]:
        for parent in call("get_pupil", pupil=pupil["id"])["parents"]:
            call("send_letter", to=parent, text=given["text"])


def average_grade(call: Call, given: dict[str, Any]) -> None:
    grades = call("list_grades", pupil=given["pupil"], term=given["term"])
    if grades:
        mean = sum(one["grade"] for one in grades) / len(grades)
        call("enter_grade", pupil=given["pupil"], subject="average", grade=round(mean, 1))


def notice_absent(call: Call, given: dict[str, Any]) -> None:
    absences = call("list_absences", course=given["course"], week=given["week"])
    lines = [f"{one['pupil']}: {one['hours']} hours" for one in absences if not one["excused"]]
    if lines:
        call("post_notice", board=given["board"], lines=lines)


def cheapest_train(call: Call, given: dict[str, Any]) -> None:
    trains = call("find_trains", start=given["start"], end=given["end"], date=given["date"])["trains"]
    if trains:
        best = min(trains, key=lambda one: one["price"])
        call("book_train", train=best["train"], passengers=given["count"])


def direct_train(call: Call, given: dict[str, Any]) -> None:
    for train in call("find_trains", start=given["start"], end=given["end"], date=given["date"])["trains"]:
        if train["changes"] == 0:
            call("book_train", train=train["train"], passengers=1)
            return


def best_hotel(call: Call, given: dict[str, Any]) -> None:
    hotels = call("list_hotels", town=given["end"])
    rates = {one["hotel"]: call("get_rates", hotel=one["hotel"])["single"] for one in hotels}
    if rates:
        cheapest = min(rates, key=lambda one: rates[one])
        call("reserve_hotel", hotel=cheapest, nights=given["count"], guest=given["guest"])


def pay_open(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_invoices", vendor=given["vendor"]):
        if not one["paid"]:
            call("pay_invoice", number=one["number"], amount=one["amount"])


def check_totals(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_invoices", vendor=given["vendor"]):
        found = call("get_invoice", number=one["number"])
        if found["total"] != one["amount"]:
            call("flag_invoice", number=one["number"], reason=f"{one['amount']} instead of {found['total']}")


def remind_patient(call: Call, given: dict[str, Any]) -> None:
    tried(call, "search_patients", name=given["patient"].split()[1])
    patient = call("search_patients", name=given["patient"])[0]
    call("create_reminder", patient_id=patient["patient_id"], date=given["date"], text=given["text"])


def cost_of_visits(call: Call, given: dict[str, Any]) -> None:
    patient = call("search_patients", name=given["patient"])[0]
    visits = call("list_visits", patient_id=patient["patient_id"])
    call("send_letter", to=given["address"],
         text=f"{len(visits)} visits, {sum(one['cost'] for one in visits)} euros")  # fmt: skip


def last_doctor(call: Call, given: dict[str, Any]) -> None:
    patient = call("search_patients", name=given["patient"])[0]
    visits = sorted(call("list_visits", patient_id=patient["patient_id"]), key=lambda one: one["date"])
    call(
        "create_reminder",
        patient_id=patient["patient_id"],
        date=given["date"],
        text=f"See {visits[-1]['doctor']} again",
    )


def refill(call: Call, given: dict[str, Any]) -> None:
    left = call("get_stock", item=given["item"])["left"]
    if left < 20:
        call("order_item", item=given["item"], count=50 - left)


def refill_three(call: Call, given: dict[str, Any]) -> None:
    for item in (given["item"], given["item2"], given["item3"]):
        call("get_stock", item=item)
        call("order_item", item=item, count=given["count"])


def fill_shifts(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_shifts", week=given["week"]):
        if one["person"] is None:
            call("assign_shift", shift=one["shift"], person=given["guest"])


def large_room(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_rooms", building=given["building"]):
        if call("check_room", room=one["room"], date=given["date"])["free"]:
            call("book_room", room=one["room"], date=given["date"], title=given["title"])
            return


def note_owner(call: Call, given: dict[str, Any]) -> None:
    page = call("read_page", title=given["page"])
    call("append_page", title=given["page"], text=f"Owner: {page['owner']}")


def clean_comments(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_comments", page=given["page"]):
        if one["author"] == given["author"]:
            call("delete_comment", comment=one["comment"])


def cancel_trips(call: Call, given: dict[str, Any]) -> None:
    for one in call("list_trips", traveller=given["guest"]):
        if one["town"] == given["town"]:
            call("cancel_trip", trip=one["trip"])
            call(
                "send_letter", to=given["address"], text=f"The trip to {one['town']} on {one['date']} is off"
            )


def price_in_currency(call: Call, given: dict[str, Any]) -> None:
    rate = call("get_rates", hotel=given["hotel"])
    exchange = call("get_exchange_rate", base=rate["currency"], quote=given["currency"])
    call("send_letter", to=given["address"],
         text=f"A double room costs {rate['double'] * exchange['rate']:.2f} {given['currency']}")  # fmt: skip


def names_of_year(call: Call, given: dict[str, Any]) -> None:
    pupils = call("list_pupils", course=given["course"])["pupils"]
    names = sorted(one["name"] for one in pupils)
    call("append_page", title=given["page"], text=", ".join(names))


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    start, end = chance.sample(TOWNS, 2)
    subject, other, third = chance.sample(SUBJECTS, 3)
    return {
        "course": f"{subject}-{chance.randrange(1, 9)}",
        "text": f"The {other} evening is on {chance.choice(('Monday', 'Friday', 'Sunday'))}.",
        "pupil": f"p{chance.randrange(100, 999)}",
        "term": chance.randrange(1, 4),
        "week": chance.randrange(10, 50),
        "board": f"board {chance.choice('ABCDEF')}",
        "start": start,
        "end": end,
        "date": f"2026-12-{chance.randrange(10, 29)}",
        "count": chance.randrange(2, 9),
        "guest": f"{chance.choice(PEOPLE)} {chance.choice(('Okoye', 'Horvat', 'Larsen', 'Moreau'))}",
        "vendor": f"{third.title()} & Sons",
        "patient": f"{chance.choice(PEOPLE)} {chance.choice(('Weber', 'Silva', 'Novak', 'Rossi'))}",
        "address": f"{chance.choice(PEOPLE).lower()}.{chance.randrange(10, 99)}@post.example",
        "item": f"{subject} books",
        "item2": f"{other} books",
        "item3": f"{third} books",
        "building": chance.choice(("North", "South", "East", "West")),
        "title": f"{other} club",
        "page": f"{third.title()} {chance.randrange(10, 99)}",
        "author": chance.choice(PEOPLE[:3]),
        "town": chance.choice(TOWNS),
        "hotel": f"{chance.choice(('Golden', 'Royal', 'Quiet'))} Inn",
        "currency": chance.choice(("USD", "GBP", "CHF", "JPY")),
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ('write to the parents of everyone in {course}: "{text}"', write_parents),
    ("enter the average of the grades of {pupil} in term {term}", average_grade),
    (
        "post on {board} who missed {course} in week {week} without an excuse, and for how many hours",
        notice_absent,
    ),
    ("book the cheapest train from {start} to {end} on {date} for {count}", cheapest_train),
    ("book me the first direct train from {start} to {end} on {date}", direct_train),
    ("reserve the cheapest single room in {end} for {guest}, {count} nights", best_hotel),
    ("pay what we still owe {vendor}", pay_open),
    ("flag the invoices of {vendor} whose lines do not add up to their amount", check_totals),
    ('remind {patient} on {date}: "{text}"', remind_patient),
    ("tell {address} how often {patient} was here and what it cost", cost_of_visits),
    ("remind {patient} on {date} to see the doctor of the last visit again", last_doctor),
    ("if there are fewer than 20 {item} left, order as many as make 50", refill),
    ("order {count} each of {item}, {item2} and {item3}", refill_three),
    ("give the open shifts of week {week} to {guest}", fill_shifts),
    ("book the first free room in {building} on {date} for the {title}", large_room),
    ("add to the page {page} who owns it", note_owner),
    ("delete the comments of {author} on {page}", clean_comments),
    ("cancel the trips of {guest} to {town} and tell {address}", cancel_trips),
    ("tell {address} what a double room in the {hotel} costs in {currency}", price_in_currency),
    ("list the pupils of {course} by name on the page {page}", names_of_year),
)
