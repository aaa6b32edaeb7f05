"""A tennis club's office and a town library, whose goals were written before any prompt was looked at.

They are scored as those of the office are (`jobs`), and written from what people at such a desk ask for all
day: single errands, conditions, things to look up first, and lists, ten of each. Goals with an odd number are
looked at, those with an even one, which are of the like kinds, only counted. Each place declares some of its
results, and tells the others in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date as Date
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, even_numbered, matching, odd_numbered, tasks_of
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "clubs.jsonl"
_TODAY = Date(2026, 4, 15)
_DAYS_OF_A_LOAN = 28


def _row(rows: list[Any], key: str, ident: object) -> Any:
    """The row with this key in any case; raises LookupError."""
    found = [row for row in rows if str(row[key]).casefold() == str(ident).strip().casefold()]
    if not found:
        raise LookupError(f"{ident!r} is not known")
    return found[0]


def _named(rows: list[Any], name: str) -> Any:
    """The only row whose name has these words; raises LookupError."""
    words = name.casefold().split()
    found = [row for row in rows if words and set(words) <= set(row["name"].casefold().split())]
    if len(found) != 1:
        raise LookupError(f"{name!r} is the name of {len(found)}")
    return found[0]


def _day(said: str) -> str:
    """A date as it is kept; raises ValueError for what is not written YYYY-MM-DD."""
    return Date.fromisoformat(said.strip()).isoformat()


def _clock(said: str) -> str:
    """A time of day as it is kept, from 18, 18:00 or 6 pm; raises ValueError."""
    found = re.fullmatch(r"(\d{1,2})(?::(\d{2}))?(?::00)?\s*([ap])?\.?(?:m\.?)?", said.strip().casefold())
    if not found:
        raise ValueError(f"{said!r} is no time of day")
    hour, minute, half = int(found[1]), found[2] or "00", found[3]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return f"{hour:02}:{minute}"


def _among(recipients: list[Any], *more: object) -> list[Any]:
    """Who has been written to, each once and in order."""
    return sorted({*recipients, *more})


class Member(TypedDict):
    id: str
    name: str
    email: str
    phone: str
    team: str | None
    status: Literal["active", "paused", "left"]


class Fee(TypedDict):
    id: str
    member_id: str
    amount: float
    paid: bool


class Match(TypedDict):
    id: str
    team: str
    opponent: str
    date: str
    time: str
    at_home: bool
    referee: str | None


class Court(TypedDict):
    number: int
    surface: str
    indoor: bool
    price_per_hour: float


def _member(number: int, name: str, team: str | None, status: str) -> dict[str, Any]:
    email, phone = f"{name.partition(' ')[0].casefold()}@post.example", f"555-0{number}"
    return {
        "id": f"M-{number}", "name": name, "email": email, "phone": phone, "team": team, "status": status
    }  # fmt: skip


def _booking(number: int, court: int, date: str, time: str, member: str) -> dict[str, Any]:
    return {"id": f"B-{number}", "court": court, "date": date, "time": time, "member_id": member}


def _match(number: int, team: str, opponent: str, date: str, at_home: bool, referee: str | None) -> Match:
    return {
        "id": f"G-{number}", "team": team, "opponent": opponent, "date": date, "time": "14:00",
        "at_home": at_home, "referee": referee,
    }  # fmt: skip


class Club(Place):
    """The secretary's office of a tennis club."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "members": [
                _member(101, "Ida Berg", "Herons", "active"),
                _member(102, "Jonas Vik", "Herons", "paused"),
                _member(103, "Lea Strand", "Otters", "active"),
                _member(104, "Per Moen", "Otters", "active"),
                _member(105, "Sana Malik", "Herons", "active"),
                _member(106, "Olav Dahl", "Otters", "paused"),
                _member(107, "Tuva Eng", "Otters", "active"),
                _member(108, "Finn Rud", None, "active"),
            ],
            "teams": [
                {"name": "Herons", "coach": "Rune Aas", "coach_email": "rune@club.example"},
                {"name": "Otters", "coach": "Eli Sund", "coach_email": "eli@club.example"},
            ],
            "fees": [
                {"id": "F-1", "member_id": "M-101", "amount": 80.0, "paid": True},
                {"id": "F-2", "member_id": "M-102", "amount": 80.0, "paid": False},
                {"id": "F-3", "member_id": "M-103", "amount": 45.5, "paid": False},
                {"id": "F-4", "member_id": "M-104", "amount": 80.0, "paid": False},
                {"id": "F-5", "member_id": "M-102", "amount": 15.0, "paid": True},
            ],
            "matches": [
                _match(7, "Herons", "Kestrels", "2026-06-13", True, None),
                _match(8, "Otters", "Swifts", "2026-06-14", True, "Odd Lie"),
                _match(9, "Otters", "Kestrels", "2026-06-20", False, None),
            ],
            "courts": [
                {"number": 1, "surface": "clay", "indoor": False, "price_per_hour": 10.0},
                {"number": 2, "surface": "clay", "indoor": False, "price_per_hour": 12.0},
                {"number": 3, "surface": "hard", "indoor": True, "price_per_hour": 22.0},
                {"number": 4, "surface": "hard", "indoor": True, "price_per_hour": 18.5},
                {"number": 5, "surface": "carpet", "indoor": True, "price_per_hour": 26.0},
            ],
            "bookings": [
                _booking(21, 1, "2026-06-12", "17:00", "M-101"),
                _booking(22, 1, "2026-06-12", "18:00", "M-104"),
                _booking(23, 3, "2026-06-13", "09:00", "M-105"),
                _booking(24, 4, "2026-06-12", "18:00", "M-105"),
                _booking(25, 2, "2026-06-14", "10:00", "M-103"),
                _booking(26, 1, "2026-06-14", "11:00", "M-104"),
            ],
            "equipment": [
                {"name": "tennis balls", "count": 6, "minimum": 20},
                {"name": "nets", "count": 4, "minimum": 2},
                {"name": "bibs", "count": 12, "minimum": 15},
                {"name": "whistles", "count": 5, "minimum": 3},
            ],
            "orders": {},
            "mails": [],
        }

    def find_member(self, name: str) -> Member:
        """Look up a member of the club by full name."""
        return _named(self.state["members"], name)

    def list_members(
        self, team: str | None = None, status: Literal["active", "paused", "left"] | None = None
    ) -> list[Member]:
        """List the members of the club. Can be narrowed down to a team and to a status."""
        return matching(self.state["members"], {"team": team, "status": status})

    def register_member(self, name: str, email: str, team: str | None = None, phone: str = ""):
        """Register a new member, who is active from now on. Returns {id, name}."""
        team = _row(self.state["teams"], "name", team)["name"] if team else None
        new = _member(101 + len(self.state["members"]), name, team, "active")
        self.state["members"].append(new | {"email": email, "phone": phone})
        return {"id": new["id"], "name": name}

    def set_member_status(self, member_id: str, status: Literal["active", "paused", "left"]):
        """Change the status of a membership."""
        _row(self.state["members"], "id", member_id)["status"] = status
        return {"ok": True}

    def update_member(
        self, member_id: str, email: str | None = None, phone: str | None = None, team: str | None = None
    ) -> Member:
        """Change the e-mail address, the phone number or the team of a member. What is not given stays."""
        member = _row(self.state["members"], "id", member_id)
        team = _row(self.state["teams"], "name", team)["name"] if team else None
        given = {"email": email, "phone": phone, "team": team}
        member |= {field: value for field, value in given.items() if value}
        return member

    def list_fees(self, member_id: str | None = None, paid: bool | None = None) -> list[Fee]:
        """List fees, those of one member or of all, and if wanted only the paid or the unpaid ones."""
        whose = _row(self.state["members"], "id", member_id)["id"] if member_id else None
        return [
            f for f in self.state["fees"] if whose in (None, f["member_id"]) and paid in (None, f["paid"])
        ]

    def record_payment(self, fee_id: str):
        """Record that a fee has been paid in full."""
        fee = _row(self.state["fees"], "id", fee_id)
        fee["paid"] = True
        return {"fee_id": fee["id"], "amount": fee["amount"]}

    def get_team(self, team: str):
        """Get a team by its name. Returns {name, coach, coach_email}."""
        return _row(self.state["teams"], "name", team)

    def get_match(self, match_id: str) -> Match:
        """Get a match by its id. The referee is null as long as there is none."""
        return _row(self.state["matches"], "id", match_id)

    def assign_referee(self, match_id: str, referee: str):
        """Enter the name of the referee of a match. An earlier one is replaced."""
        _row(self.state["matches"], "id", match_id)["referee"] = referee
        return {"ok": True}

    def move_match(self, match_id: str, date: str, time: str | None = None) -> Match:
        """Move a match to another date (YYYY-MM-DD). It keeps its time unless a new one is given."""
        match = _row(self.state["matches"], "id", match_id)
        match |= {"date": _day(date)} | ({"time": _clock(time)} if time else {})
        return match

    def list_courts(self) -> list[Court]:
        """List the courts of the club, with their surface and the price of an hour."""
        return self.state["courts"]

    def get_free_times(self, court: int, date: str) -> list[str]:
        """Get the hours, such as 18:00, at which a court is free on a date (YYYY-MM-DD)."""
        _row(self.state["courts"], "number", court)
        day = _day(date)
        taken = {b["time"] for b in self.state["bookings"] if (b["court"], b["date"]) == (court, day)}
        return [time for time in (f"{hour:02}:00" for hour in range(8, 22)) if time not in taken]

    def book_court(self, court: int, date: str, time: str, member_id: str):
        """Book a court for a member for one hour. Fails if the court is taken. Returns {booking_id}."""
        if _clock(time) not in self.get_free_times(court, date):
            raise RuntimeError(f"court {court} is taken on {date} at {time}")
        member = _row(self.state["members"], "id", member_id)
        new = _booking(21 + len(self.state["bookings"]), court, _day(date), _clock(time), member["id"])
        self.state["bookings"].append(new)
        return {"booking_id": new["id"]}

    def list_bookings(self, date: str):
        """List the court bookings of a date (YYYY-MM-DD): [{id, court, date, time, member_id}]."""
        day = _day(date)
        return [b for b in self.state["bookings"] if b["date"] == day]

    def cancel_booking(self, booking_id: str):
        """Cancel a court booking."""
        self.state["bookings"].remove(_row(self.state["bookings"], "id", booking_id))
        return {"ok": True}

    def list_equipment(self):
        """List the equipment in stock: [{name, count, minimum}], where minimum is what there should be."""
        return self.state["equipment"]

    def get_equipment(self, name: str):
        """Get one kind of equipment by name. Returns {name, count, minimum}."""
        plural = name.strip().casefold().removeprefix("new ").rstrip("s") + "s"
        return _row(self.state["equipment"], "name", plural)

    def order_equipment(self, name: str, quantity: int):
        """Order a number of pieces of one kind of equipment."""
        name = self.get_equipment(name)["name"]
        self.state["orders"][name] = self.state["orders"].get(name, 0) + quantity
        return {"ok": True}

    def send_email(self, to: str, subject: str, body: str):
        """Send an e-mail to an address."""
        addresses = [part.casefold() for part in re.split(r"[,;\s]+", to) if part]
        if not addresses or not all("@" in part for part in addresses):
            raise ValueError(f"{to!r} is no address")
        self.state["mails"] = _among(self.state["mails"], *addresses)
        return {"sent": True, "length": len(subject) + len(body)}


class Book(TypedDict):
    id: str
    title: str
    author: str
    copies_in: int


class Loan(TypedDict):
    id: str
    book_id: str
    title: str
    card: int
    due: str
    overdue: bool


class Reading(TypedDict):
    id: str
    title: str
    date: str
    seats: int
    taken: int


class ReadingRoom(TypedDict):
    name: str
    places: int


def _loan(number: int, book: str, title: str, card: int, due: str) -> dict[str, Any]:
    overdue = due < _TODAY.isoformat()
    return {
        "id": f"L-{number}", "book_id": book, "title": title, "card": card, "due": due, "overdue": overdue
    }  # fmt: skip


class Library(Place):
    """The desk of a town library; its readers are known by the numbers of their cards."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "books": [
                {"id": "B-11", "title": "The Salt Road", "author": "Mona Hauge", "copies_in": 2},
                {"id": "B-12", "title": "Winter Bees", "author": "Mona Hauge", "copies_in": 0},
                {"id": "B-13", "title": "Knots and Sails", "author": "Tor Lien", "copies_in": 1},
                {"id": "B-14", "title": "Baking with Rye", "author": "Ingrid Falk", "copies_in": 0},
                {"id": "B-15", "title": "The Small Harbour", "author": "Mona Hauge", "copies_in": 1},
                {"id": "B-16", "title": "Winter Gardens", "author": "Ingrid Falk", "copies_in": 1},
            ],
            "readers": [
                {"card": 4401, "name": "Anna Lund", "status": "active", "fines": 0.0},
                {"card": 4402, "name": "Bo Eriksen", "status": "active", "fines": 6.5},
                {"card": 4403, "name": "Clara Nygaard", "status": "active", "fines": 0.0},
                {"card": 4404, "name": "David Oye", "status": "blocked", "fines": 24.0},
                {"card": 4405, "name": "Eva Thorsen", "status": "active", "fines": 2.0},
            ],
            "loans": [
                _loan(201, "B-12", "Winter Bees", 4402, "2026-03-20"),
                _loan(202, "B-13", "Knots and Sails", 4401, "2026-04-28"),
                _loan(203, "B-15", "The Small Harbour", 4404, "2026-04-02"),
                _loan(204, "B-11", "The Salt Road", 4404, "2026-04-22"),
                _loan(205, "B-14", "Baking with Rye", 4401, "2026-05-03"),
                _loan(206, "B-11", "The Salt Road", 4405, "2026-04-09"),
            ],
            "reservations": [
                {"id": "R-1", "book_id": "B-12", "card": 4405},
                {"id": "R-2", "book_id": "B-12", "card": 4401},
            ],
            "charges": [],
            "payments": [],
            "ordered": [],
            "events": [
                {"id": "EV-1", "title": "Poetry Evening", "date": "2026-04-17", "seats": 30, "taken": 30},
                {"id": "EV-2", "title": "Story Hour", "date": "2026-04-18", "seats": 15, "taken": 9},
                {"id": "EV-3", "title": "Chess Night", "date": "2026-04-24", "seats": 20, "taken": 2},
                {"id": "EV-4", "title": "Mona Hauge reads", "date": "2026-05-08", "seats": 60, "taken": 43},
            ],
            "guests": [],
            "rooms": [
                {"name": "Oak", "places": 6},
                {"name": "Birch", "places": 12},
                {"name": "Pine", "places": 20},
                {"name": "Loft", "places": 8},
            ],
            "room_bookings": [
                {"room": "Birch", "date": "2026-04-23", "card": 4402},
                {"room": "Pine", "date": "2026-04-22", "card": 4405},
            ],
            "messages": [],
        }

    def search_books(self, title: str | None = None, author: str | None = None) -> list[Book]:
        """Search the catalogue by title, by author or by both; parts of them will do."""
        return matching(self.state["books"], {"title": title, "author": author})

    def get_book(self, book_id: str) -> Book:
        """Get a book of the catalogue by its id, with the number of copies that are in at the moment."""
        return _row(self.state["books"], "id", book_id)

    def order_book(self, title: str, author: str, copies: int = 1):
        """Order a new book from the bookseller."""
        self.state["ordered"].append([title.strip("'\""), author, copies])
        return {"ok": True}

    def find_reader(self, name: str | None = None, card: int | None = None):
        """Find a reader by full name or by the number of the card.

        Returns {card, name, status, fines}, where status is active or blocked and fines is what is owed.
        """
        readers = self.state["readers"]
        return _named(readers, name or "") if card is None else _row(readers, "card", card)

    def set_card_status(self, card: int, status: Literal["active", "blocked"]):
        """Block a reader's card, or make it active again."""
        _row(self.state["readers"], "card", card)["status"] = status
        return {"ok": True}

    def list_loans(self, card: int | None = None, overdue_only: bool = False) -> list[Loan]:
        """List the books that are lent out, all of them or those of one reader's card."""
        whose = None if card is None else _row(self.state["readers"], "card", card)["card"]
        return [
            loan for loan in self.state["loans"]
            if whose in (None, loan["card"]) and (loan["overdue"] or not overdue_only)
        ]  # fmt: skip

    def lend_book(self, book_id: str, card: int) -> Loan:
        """Lend a copy of a book to a reader."""
        book, reader = self.get_book(book_id), _row(self.state["readers"], "card", card)
        book["copies_in"] -= 1
        due = (_TODAY + timedelta(days=_DAYS_OF_A_LOAN)).isoformat()
        loan: Any = _loan(201 + len(self.state["loans"]), book["id"], book["title"], reader["card"], due)
        self.state["loans"].append(loan)
        return loan

    def return_book(self, loan_id: str):
        """Take back a book that was lent; this ends the loan."""
        loan = _row(self.state["loans"], "id", loan_id)
        self.state["loans"].remove(loan)
        self.get_book(loan["book_id"])["copies_in"] += 1
        return {"ok": True}

    def extend_loan(self, loan_id: str, days: int = 14) -> Loan:
        """Move the day on which a loan is due by some days."""
        loan = _row(self.state["loans"], "id", loan_id)
        loan["due"] = (Date.fromisoformat(loan["due"]) + timedelta(days=days)).isoformat()
        loan["overdue"] = loan["due"] < _TODAY.isoformat()
        return loan

    def reserve_book(self, book_id: str, card: int):
        """Reserve a book for a reader, who gets the next copy. Returns {reservation_id}."""
        book, reader = self.get_book(book_id), _row(self.state["readers"], "card", card)
        new = {"id": f"R-{book['id'][2:]}-{reader['card']}", "book_id": book["id"], "card": reader["card"]}
        self.state["reservations"] = sorted((*self.state["reservations"], new), key=lambda one: one["id"])
        return {"reservation_id": new["id"]}

    def list_reservations(self, book_id: str):
        """List the reservations of a book: [{id, book_id, card}]. The list is empty if there are none."""
        book = self.get_book(book_id)
        return [one for one in self.state["reservations"] if one["book_id"] == book["id"]]

    def cancel_reservation(self, reservation_id: str):
        """Cancel a reservation."""
        self.state["reservations"].remove(_row(self.state["reservations"], "id", reservation_id))
        return {"ok": True}

    def charge_fine(self, card: int, amount: float, reason: Literal["late", "lost", "damaged"]):
        """Charge a reader a fine."""
        reader = _row(self.state["readers"], "card", card)
        reader["fines"] += float(amount)
        self.state["charges"].append([reader["card"], float(amount), reason])
        return {"fines": reader["fines"]}

    def record_fine_payment(self, card: int, amount: float):
        """Record that a reader has paid an amount of what he or she owes in fines."""
        reader = _row(self.state["readers"], "card", card)
        if not 0 < amount <= reader["fines"]:
            raise RuntimeError(f"card {card} owes {reader['fines']}")
        reader["fines"] -= float(amount)
        self.state["payments"].append([reader["card"], float(amount)])
        return {"fines": reader["fines"]}

    def list_events(self) -> list[Reading]:
        """List the coming events of the library, with their seats and how many of them are taken."""
        return self.state["events"]

    def get_event(self, event_id: str) -> Reading:
        """Get one event by its id."""
        return _row(self.state["events"], "id", event_id)

    def join_event(self, event_id: str, card: int):
        """Take a seat at an event for a reader. Fails if all are taken."""
        event, reader = self.get_event(event_id), _row(self.state["readers"], "card", card)
        if event["taken"] >= event["seats"]:
            raise RuntimeError(f"{event['id']} is full")
        event["taken"] += 1
        self.state["guests"].append([event["id"], reader["card"]])
        return {"ok": True}

    def list_free_rooms(self, date: str) -> list[ReadingRoom]:
        """List the rooms that are free on a date (YYYY-MM-DD), with the number of their places."""
        day = _day(date)
        taken = {one["room"] for one in self.state["room_bookings"] if one["date"] == day}
        return [room for room in self.state["rooms"] if room["name"] not in taken]

    def book_room(self, room: str, date: str, card: int):
        """Book a room for a reader for a whole day. Fails if the room is taken."""
        name, reader = _named(self.state["rooms"], room)["name"], _row(self.state["readers"], "card", card)
        if name not in [one["name"] for one in self.list_free_rooms(date)]:
            raise RuntimeError(f"{name} is taken on {date}")
        self.state["room_bookings"].append({"room": name, "date": _day(date), "card": reader["card"]})
        return {"ok": True}

    def message_reader(self, card: int, text: str):
        """Send a message to the reader with this card."""
        self.state["messages"] = _among(
            self.state["messages"], _row(self.state["readers"], "card", card)["card"]
        )
        return {"sent": True, "length": len(text)}


def club_tasks() -> Iterator[Task]:
    """The goals with an odd number, with which prompts and checks are mended."""
    yield from odd_numbered(_tasks())


def club_unseen_tasks() -> Iterator[Task]:
    """The goals with an even number, whose answers nobody reads before the last measurement."""
    yield from even_numbered(_tasks())


def _tasks() -> Iterator[Task]:
    yield from tasks_of(GOALS, {"club": Club, "library": Library})
