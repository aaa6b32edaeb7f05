"""Ten jobs of a small firm's desk for `distilling.py`: its repositories, shop, trips and calendar.

Written before its author had read the distiller, and measured before it was mended. Its tools work on tables
that they change: what is closed, booked, refunded or moved is so when it is read again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, only_reads

from callsheet.ports.calls import ToolFailed

REPOSITORIES = ("acme/web", "acme/api", "acme/mobile", "acme/infra")
LABELS = ("bug", "question", "wontfix", "docs")
LOGINS = ("mira", "tomasz", "oluwaseun", "jens", "priya", "carla")
SUPPLIERS = ("Nordholz", "Baumann", "Lakeside", "Ferro")
CATEGORIES = ("lighting", "garden", "kitchen", "textiles")
GOODS = ("Lantern", "Spade", "Kettle", "Blanket", "Hose", "Pan", "Rug", "Candle")
PEOPLE = ("Ida Holm", "Marek Novak", "Grace Obi", "Luis Prado", "Yuki Tanaka", "Nora Weiss")
AIRPORTS = ("OSL", "LIS", "BER", "MAD", "DUB", "PRG")
CITIES = ("Porto", "Vienna", "Gdansk", "Lyon", "Turin")
TOPICS = ("Budget", "Hiring", "Roadmap", "Retrospective", "Supplier call")
FIELDS = {
    "list_issues": ("repo", "state"),
    "list_pull_requests": ("repo", "state"),
    "get_latest_release": ("repo",),
    "get_order": ("order_id",),
    "get_customer": ("customer_id",),
    "list_products": ("supplier", "category"),
    "search_flights": ("origin", "destination", "date"),
    "search_hotels": ("city", "check_in", "check_out"),
    "find_traveller": ("name",),
    "list_events": ("day",),
    "list_expenses": ("employee", "month"),
    "get_forecast": ("city", "day"),
    "find_contact": ("name",),
    "comment_issue": ("repo", "number", "body"),
    "close_issue": ("repo", "number"),
    "create_release": ("repo", "tag", "notes"),
    "refund_payment": ("payment_id", "amount_cents"),
    "create_purchase_order": ("sku", "quantity"),
    "set_price": ("sku", "price"),
    "book_flight": ("flight_id", "traveller_id"),
    "book_hotel": ("hotel_id", "check_in", "check_out", "guests"),
    "move_event": ("event_id", "start", "end"),
    "send_email": ("to", "subject", "body"),
    "create_report": ("title", "total", "without_receipt"),
}


@dataclass
class Desk(World):
    """Tables of a firm, made of a seed when they are first read, and changed by its tools."""

    fields = FIELDS
    tables: dict[tuple[object, ...], list[dict[str, Any]]] = field(
        default_factory=dict[tuple[object, ...], list[dict[str, Any]]]
    )

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        if not only_reads(tool):
            self.done.append((tool, args))
        return getattr(self, tool)(**args)

    def table(self, *key: object, least: int = 0) -> tuple[list[dict[str, Any]], random.Random, int]:
        """The rows of a table, empty if they are to be made, with a chance to make them and how many."""
        chance = self.pick(*key)
        return self.tables.setdefault(key, []), chance, max(least, self.size(chance))

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """All rows of a kind that were read before."""
        return [row for key, table in self.tables.items() if key[0] == kind for row in table]

    # repositories

    def list_issues(self, repo: str, state: str) -> list[dict[str, Any]]:
        table, chance, count = self.table("issues", repo)
        if not table:
            for number in sorted(chance.sample(range(20, 900), count)):
                day = date(2026, 3, 1) + timedelta(days=chance.randrange(200))
                table.append({"number": number, "title": f"{chance.choice(GOODS)} page is slow",
                              "labels": chance.sample(LABELS, chance.randrange(1, 3)),
                              "updated_at": f"{day}T0{chance.randrange(1, 9)}:15:00Z", "state": "open",
                              "assignee": chance.choice((None, *LOGINS))})  # fmt: skip
        return [dict(row) for row in table if row["state"] == state]

    def comment_issue(self, repo: str, number: int, body: str) -> dict[str, Any]:
        return {"id": 9000 + len(self.done), "url": f"https://git.example/{repo}/issues/{number}"}

    def close_issue(self, repo: str, number: int) -> dict[str, Any]:
        row = next((one for one in self.rows("issues") if one["number"] == number), None)
        if row is None:
            raise ToolFailed(f"no issue {number} in {repo}")
        row["state"] = "closed"
        return {"number": number, "state": "closed"}

    def list_pull_requests(self, repo: str, state: str) -> list[dict[str, Any]]:
        table, chance, count = self.table("pulls", repo)
        if not table:
            for number in sorted(chance.sample(range(20, 900), count), reverse=True):
                merged = chance.random() < 0.7
                day = date(2026, 8, 1) + timedelta(days=chance.randrange(60))
                table.append({"number": number, "title": f"Show the {chance.choice(GOODS).lower()} first",
                              "user": {"login": chance.choice(LOGINS)},
                              "merged_at": f"{day}T12:00:00Z" if merged else None})  # fmt: skip
        return [dict(row) for row in table]

    def get_latest_release(self, repo: str) -> dict[str, Any]:
        chance = self.pick("release", repo)
        day = date(2026, 8, 1) + timedelta(days=chance.randrange(10, 30))
        return {"tag": f"v{chance.randrange(1, 9)}.{chance.randrange(9)}", "published_at": f"{day}T08:30:00Z"}

    def create_release(self, repo: str, tag: str, notes: str) -> dict[str, Any]:
        return {"tag": tag, "url": f"https://git.example/{repo}/releases/{tag}"}

    # the shop

    def get_order(self, order_id: str) -> dict[str, Any]:
        chance = self.pick("order", order_id)
        return {"order_id": order_id, "customer_id": f"C{chance.randrange(100, 999)}",
                "payment": {"id": f"pay_{chance.randrange(10_000, 99_999)}",
                            "amount_cents": chance.randrange(900, 30_000)}}  # fmt: skip

    def get_customer(self, customer_id: str) -> dict[str, Any]:
        chance = self.pick("customer", customer_id)
        name = chance.choice(PEOPLE)
        return {"customer_id": customer_id, "name": name,
                "email": f"{name.split()[1].lower()}{chance.randrange(10, 99)}@mail.example"}  # fmt: skip

    def refund_payment(self, payment_id: str, amount_cents: int) -> dict[str, Any]:
        return {"refund_id": f"re_{self.pick('refund', payment_id).randrange(10_000, 99_999)}",
                "status": "succeeded"}  # fmt: skip

    def list_products(self, supplier: str = "", category: str = "") -> list[dict[str, Any]]:
        table, chance, count = self.table("products", supplier, category)
        if not table:
            for number in chance.sample(range(1000, 9999), count):
                least = chance.randrange(5, 40)
                table.append({"sku": f"SKU-{number}", "name": chance.choice(GOODS),
                              "stock": chance.randrange(0, 60), "minimum": least,
                              "price": chance.randrange(300, 9000) / 100})  # fmt: skip
        return [dict(row) for row in table]

    def create_purchase_order(self, sku: str, quantity: int) -> dict[str, Any]:
        return {"purchase_order": f"PO{len(self.done):04}", "sku": sku, "quantity": quantity}

    def set_price(self, sku: str, price: float) -> dict[str, Any]:
        for row in self.rows("products"):
            if row["sku"] == sku:
                row["price"] = price
        return {"sku": sku, "price": price}

    # trips

    def search_flights(self, origin: str, destination: str, date: str) -> dict[str, Any]:
        table, chance, count = self.table("flights", origin, destination, date, least=2)
        if not table:
            for number in chance.sample(range(100, 999), count):
                hour = chance.randrange(6, 21)
                table.append({"flight_id": f"{chance.choice(('XA', 'QB'))}{number}",
                              "departs": f"{date}T{hour:02}:{chance.choice((5, 20, 45)):02}:00",
                              "fare": chance.randrange(60, 400), "seats": chance.randrange(9)})  # fmt: skip
        return {"flights": [dict(row) for row in table]}

    def find_traveller(self, name: str) -> dict[str, Any]:
        return {"traveller_id": f"tr-{self.pick('traveller', name).randrange(1000, 9999)}", "name": name}

    def book_flight(self, flight_id: str, traveller_id: str) -> dict[str, Any]:
        flight = next((one for one in self.rows("flights") if one["flight_id"] == flight_id), None)
        if flight is None:
            raise ToolFailed(f"no flight {flight_id}")
        flight["seats"] = max(0, flight["seats"] - 1)
        return {"locator": f"{chr(65 + len(self.done))}{self.pick(flight_id).randrange(10_000, 99_999)}"}

    def search_hotels(self, city: str, check_in: str, check_out: str) -> list[dict[str, Any]]:
        table, chance, count = self.table("hotels", city, check_in, check_out, least=3)
        if not table:
            scores = chance.sample(range(61, 99), count)
            table.extend({"hotel_id": f"h{chance.randrange(1000, 9999)}", "rating": score / 10,
                          "price_per_night": chance.randrange(50, 190), "rooms": chance.randrange(1, 9)}
                         for score in scores)  # fmt: skip
        return [dict(row) for row in table]

    def book_hotel(self, hotel_id: str, check_in: str, check_out: str, guests: int) -> dict[str, Any]:
        return {"confirmation": f"HB-{self.pick('hotel', hotel_id).randrange(10_000, 99_999)}"}

    def get_forecast(self, city: str, day: str) -> dict[str, Any]:
        chance = self.pick("forecast", city, day)
        return {"city": city, "day": day, "high_c": chance.randrange(4, 30),
                "rain_probability": chance.randrange(0, 20) * 5}  # fmt: skip

    # the office

    def find_contact(self, name: str) -> dict[str, Any]:
        first, last = name.split()
        return {"name": name, "email": f"{first[0]}.{last}@firm.example".lower()}

    def list_events(self, day: str) -> list[dict[str, Any]]:
        table, chance, count = self.table("events", day)
        if not table:
            for place in range(count):
                hour = 8 + place
                table.append({"event_id": f"ev{chance.randrange(1000, 9999)}",
                              "title": chance.choice(TOPICS), "start": f"{day}T{hour:02}:00",
                              "end": f"{day}T{hour:02}:{chance.choice((30, 45))}",
                              "organizer": f"{chance.choice(LOGINS)}@firm.example"})  # fmt: skip
        return [dict(row) for row in table if row["start"].startswith(day)]

    def move_event(self, event_id: str, start: str, end: str) -> dict[str, Any]:
        for row in self.rows("events"):
            if row["event_id"] == event_id:
                row.update(start=start, end=end)
        return {"event_id": event_id, "start": start, "end": end}

    def list_expenses(self, employee: str, month: str) -> list[dict[str, Any]]:
        table, chance, count = self.table("expenses", employee, month)
        if not table:
            table.extend({"id": chance.randrange(100, 999), "amount": chance.randrange(500, 20_000) / 100,
                          "what": chance.choice(("taxi", "hotel", "lunch", "train")),
                          "receipt": chance.choice((None, f"r{chance.randrange(10, 99)}.pdf"))}
                         for _ in range(count))  # fmt: skip
        return [dict(row) for row in table]

    def create_report(self, title: str, total: float, without_receipt: int) -> dict[str, Any]:
        return {"report_id": f"rep-{len(self.done)}"}

    def send_email(self, to: str, subject: str, body: str) -> dict[str, Any]:
        return {"queued": True, "message_id": f"m{len(self.done)}"}


def close_stale(call: Call, given: dict[str, Any]) -> None:
    for issue in call("list_issues", repo=given["repo"], state="open"):
        if given["label"] in issue["labels"] and issue["updated_at"] < given["since"]:
            call("comment_issue", repo=given["repo"], number=issue["number"], body="Closing as stale")
            call("close_issue", repo=given["repo"], number=issue["number"])


def release(call: Call, given: dict[str, Any]) -> None:
    last = call("get_latest_release", repo=given["repo"])
    pulls = call("list_pull_requests", repo=given["repo"], state="closed")
    merged = [one for one in pulls if one["merged_at"] and one["merged_at"] > last["published_at"]]
    if merged:
        notes = "\n".join(f"- {one['title']} (#{one['number']}) by @{one['user']['login']}" for one in merged)
        call("create_release", repo=given["repo"], tag=given["tag"], notes=notes)


def refund(call: Call, given: dict[str, Any]) -> None:
    order = call("get_order", order_id=given["order"])
    payment = order["payment"]
    done = call("refund_payment", payment_id=payment["id"], amount_cents=payment["amount_cents"])
    customer = call("get_customer", customer_id=order["customer_id"])
    call("send_email", to=customer["email"], subject=f"Refund for order {given['order']}",
         body=f"Hello {customer['name'].split()[0]}, we have refunded "
              f"{payment['amount_cents'] / 100:.2f} EUR for your order {given['order']} "
              f"(reference {done['refund_id']}).")  # fmt: skip


def reorder(call: Call, given: dict[str, Any]) -> None:
    for product in call("list_products", supplier=given["supplier"]):
        if product["stock"] < product["minimum"]:
            quantity = 2 * product["minimum"] - product["stock"]
            call("create_purchase_order", sku=product["sku"], quantity=quantity)


def reprice(call: Call, given: dict[str, Any]) -> None:
    for product in call("list_products", category=given["category"]):
        price = round(product["price"] * (100 - given["percent"]) / 100, 2)
        call("set_price", sku=product["sku"], price=price)


def fly(call: Call, given: dict[str, Any]) -> None:
    who = call("find_traveller", name=given["person"])
    found = call("search_flights", origin=given["origin"], destination=given["target"], date=given["day"])
    late = [one for one in found["flights"] if one["departs"][11:16] >= given["time"] and one["seats"] > 0]
    if late:
        best = min(late, key=lambda one: one["fare"])
        booked = call("book_flight", flight_id=best["flight_id"], traveller_id=who["traveller_id"])
        contact = call("find_contact", name=given["person"])
        call("send_email", to=contact["email"], subject=f"Your flight to {given['target']}",
             body=f"{best['flight_id']} on {given['day']} at {best['departs'][11:16]}, "
                  f"booking {booked['locator']}")  # fmt: skip


def stay(call: Call, given: dict[str, Any]) -> None:
    out = str(date.fromisoformat(given["day"]) + timedelta(days=given["nights"]))
    hotels = call("search_hotels", city=given["city"], check_in=given["day"], check_out=out)
    fitting = [one for one in hotels if one["price_per_night"] <= given["price"]]
    if fitting:
        best = max(fitting, key=lambda one: one["rating"])
        call("book_hotel", hotel_id=best["hotel_id"], check_in=given["day"], check_out=out,
             guests=given["guests"])  # fmt: skip


def _later(moment: str, days: int) -> str:
    return (datetime.fromisoformat(moment) + timedelta(days=days)).isoformat(timespec="minutes")


def postpone(call: Call, given: dict[str, Any]) -> None:
    for event in call("list_events", day=given["day"]):
        start, end = _later(event["start"], given["shift"]), _later(event["end"], given["shift"])
        call("move_event", event_id=event["event_id"], start=start, end=end)
        call("send_email", to=event["organizer"], subject=f"{event['title']} moved",
             body=f"{event['title']} is now on {start[:10]} at {start[11:]}.")  # fmt: skip


def expenses(call: Call, given: dict[str, Any]) -> None:
    rows = call("list_expenses", employee=given["person"], month=given["month"])
    missing = [one for one in rows if one["receipt"] is None]
    call("create_report", title=f"Expenses of {given['person']}, {given['month']}",
         total=round(sum(one["amount"] for one in rows), 2), without_receipt=len(missing))  # fmt: skip


def umbrella(call: Call, given: dict[str, Any]) -> None:
    weather = call("get_forecast", city=given["city"], day=given["day"])
    contact = call("find_contact", name=given["person"])
    subject = f"Weather in {given['city']} on {given['day']}"
    if weather["rain_probability"] > 50:
        body = f"Take an umbrella: {weather['rain_probability']}% rain"
    else:
        body = f"It stays dry, up to {weather['high_c']} degrees"
    call("send_email", to=contact["email"], subject=subject, body=body)


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    origin, target = chance.sample(AIRPORTS, 2)
    return {
        "repo": chance.choice(REPOSITORIES),
        "label": chance.choice(LABELS),
        "since": f"2026-0{chance.randrange(6, 9)}-{chance.randrange(10, 29)}",
        "tag": f"v{chance.randrange(9, 20)}.{chance.randrange(9)}",
        "order": f"{chance.randrange(2, 9)}-{chance.randrange(10_000, 99_999)}",
        "supplier": chance.choice(SUPPLIERS),
        "category": chance.choice(CATEGORIES),
        "percent": chance.choice((5, 10, 15, 20, 25)),
        "person": chance.choice(PEOPLE),
        "origin": origin,
        "target": target,
        "day": f"2027-0{chance.randrange(1, 9)}-{chance.randrange(10, 29)}",
        "time": f"{chance.randrange(8, 15):02}:00",
        "city": chance.choice(CITIES),
        "nights": chance.randrange(2, 9),
        "price": chance.randrange(9, 16) * 10,
        "guests": chance.randrange(1, 4),
        "shift": chance.choice((1, 2, 7, 14)),
        "month": f"2026-{chance.randrange(10, 13)}",
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    (
        "close the open issues of {repo} with the label {label} that were not updated since {since}, each "
        "with the comment: Closing as stale",
        close_stale,
    ),
    (
        "publish release {tag} of {repo}, with the pull requests merged since the last release as its notes",
        release,
    ),
    ("refund order {order} in full and mail the customer that it is done", refund),
    ("order what is below its minimum from {supplier}, so that we have twice the minimum", reorder),
    ("take {percent} percent off all prices in {category}", reprice),
    (
        "book {person} on the cheapest flight with a free seat from {origin} to {target} on {day} that "
        "leaves at {time} or later, and mail them the booking",
        fly,
    ),
    (
        "book the best rated hotel in {city} of at most {price} a night, from {day} for {nights} nights "
        "and {guests} guests",
        stay,
    ),
    ("move all events of {day} by {shift} days and mail each organizer the new date", postpone),
    (
        "make a report of the expenses of {person} in {month}: the total, and how many have no receipt",
        expenses,
    ),
    (
        "mail {person} whether to take an umbrella to {city} on {day}: yes if rain is more than 50 percent "
        "likely, otherwise how warm it gets",
        umbrella,
    ),
)
