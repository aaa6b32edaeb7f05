"""Two sets of twenty other jobs for `distilling.py`: a bureau (tickets, files, events, teams), and an agency.

Each was written before anybody had seen a plan of it; README.md has what it showed first, before its causes
were mended. Some jobs hide a decision of the agent that the words of the user do not tell (`review`, `deal`,
`tidy`; a flight, a condition, "or"): a plan that repeats one would be wrong, so it has to stop.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

PEOPLE = ("amber", "boris", "chen", "dora", "emil", "fay", "goran", "heidi")
WORDS = ("login", "export", "search", "billing", "upload", "report", "cache")
FIELDS = {
    "list_tickets": ("project",),
    "get_ticket": ("ticket",),
    "get_user": ("login",),
    "list_team": ("team",),
    "list_files": ("folder",),
    "read_file": ("path",),
    "list_events": ("day",),
    "comment": ("ticket", "text"),
    "assign": ("ticket", "to"),
    "close_ticket": ("ticket",),
    "mail": ("address", "text"),
    "write_file": ("path", "text"),
    "move_file": ("source", "target"),
    "invite": ("event", "who"),
    "cancel_event": ("title",),
}
READS = frozenset(name for name in FIELDS if name.startswith(("list_", "get_", "read_")))
Call = Callable[..., Any]


@dataclass
class World:
    """Data made of a seed, and what was done to it."""

    reads: ClassVar[frozenset[str]]
    """The tools that change nothing."""

    seed: int
    done: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])

    def pick(self, *key: object) -> random.Random:
        return random.Random(f"{self.seed}:{key}")

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        if tool not in self.reads:
            self.done.append((tool, args))
            return self.receipt(tool)
        return getattr(self, tool)(**args)

    def receipt(self, tool: str) -> dict[str, Any]:
        """What a tool says that has changed something."""
        return {"ok": True, "ref": f"{tool[0]}-{len(self.done)}"}


class Bureau(World):
    """A bureau with tickets, files, events and teams."""

    reads = READS

    def get_ticket(self, ticket: str) -> dict[str, Any]:
        chance = self.pick("ticket", ticket)
        return {
            "ticket": ticket,
            "title": f"{chance.choice(WORDS)} fails for {chance.randrange(10, 99)} users",
            "status": chance.choice(("open", "open", "closed")),
            "priority": chance.choice(("high", "low", "normal")),
            "votes": chance.randrange(0, 40),
            "created": f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}",
            "assignee": chance.choice(PEOPLE),
        }

    def list_tickets(self, project: str) -> list[dict[str, Any]]:
        chance = self.pick("tickets", project)
        numbers = chance.sample(range(100, 999), chance.randrange(3, 7))
        return [self.get_ticket(f"{project[:3].upper()}-{number}") for number in numbers]

    def get_user(self, login: str) -> dict[str, Any]:
        chance = self.pick("user", login)
        others = [one for one in PEOPLE if one != login]
        return {
            "login": login,
            "address": f"{login}@{chance.choice(('north', 'south'))}.example",
            "team": chance.choice(WORDS),
            "lead": chance.choice(others),
        }

    def list_team(self, team: str) -> dict[str, Any]:
        chance = self.pick("team", team)
        members = chance.sample(PEOPLE, chance.randrange(2, 6))
        return {"team": team, "members": [{"login": m, "active": chance.random() < 0.6} for m in members]}

    def list_files(self, folder: str) -> list[dict[str, Any]]:
        chance = self.pick("files", folder)
        names = chance.sample(WORDS, chance.randrange(3, 6))
        return [
            {
                "path": f"{folder}/{name}.txt",
                "size": chance.randrange(100, 9_000),
                "archived": chance.random() < 0.5,
            }
            for name in names
        ]

    def read_file(self, path: str) -> dict[str, Any]:
        chance = self.pick("file", path)
        lines = chance.randrange(5, 90)
        return {"path": path, "lines": lines, "text": f"{chance.choice(WORDS)} notes of {lines} lines"}

    def list_events(self, day: str) -> list[dict[str, Any]]:
        chance = self.pick("events", day)
        names = chance.sample(WORDS, chance.randrange(2, 5))
        return [{"title": f"{name} review", "booked": chance.random() < 0.5} for name in names]


def assign_open(call: Call, given: dict[str, Any]) -> None:
    for ticket in call("list_tickets", project=given["project"]):
        if ticket["status"] == "open":
            call("assign", ticket=ticket["ticket"], to=given["who"])


def comment_high(call: Call, given: dict[str, Any]) -> None:
    for ticket in call("list_tickets", project=given["project"]):
        if ticket["priority"] == "high":
            call("comment", ticket=ticket["ticket"], text=given["text"])


def tell_assignee(call: Call, given: dict[str, Any]) -> None:
    ticket = call("get_ticket", ticket=given["ticket"])
    user = call("get_user", login=ticket["assignee"])
    call("mail", address=user["address"], text=given["text"])


def archive_large(call: Call, given: dict[str, Any]) -> None:
    for file in call("list_files", folder=given["folder"]):
        if file["size"] > given["size"]:
            call("move_file", source=file["path"], target=f"archive/{file['path']}")


def copy_file(call: Call, given: dict[str, Any]) -> None:
    file = call("read_file", path=given["path"])
    call("write_file", path=f"backup/{given['path']}", text=file["text"])


def invite_team(call: Call, given: dict[str, Any]) -> None:
    for member in call("list_team", team=given["team"])["members"]:
        call("invite", event=given["event"], who=member["login"])


def invite_active(call: Call, given: dict[str, Any]) -> None:
    for member in call("list_team", team=given["team"])["members"]:
        if member["active"]:
            call("invite", event=given["event"], who=member["login"])


def cancel_unbooked(call: Call, given: dict[str, Any]) -> None:
    for event in call("list_events", day=given["day"]):
        if not event["booked"]:
            call("cancel_event", title=event["title"])


def comment_newest(call: Call, given: dict[str, Any]) -> None:
    tickets = call("list_tickets", project=given["project"])
    call("comment", ticket=max(tickets, key=lambda one: one["created"])["ticket"], text=given["text"])


def comment_most_votes(call: Call, given: dict[str, Any]) -> None:
    tickets = call("list_tickets", project=given["project"])
    call("comment", ticket=max(tickets, key=lambda one: one["votes"])["ticket"], text=given["text"])


def count_tickets(call: Call, given: dict[str, Any]) -> None:
    tickets = call("list_tickets", project=given["project"])
    call("write_file", path=given["path"], text=str(len(tickets)))


def assign_first(call: Call, given: dict[str, Any]) -> None:
    for ticket in call("list_tickets", project=given["project"])[:3]:
        call("assign", ticket=ticket["ticket"], to=given["who"])


def capitals(call: Call, given: dict[str, Any]) -> None:
    file = call("read_file", path=given["path"])
    call("write_file", path=given["target"], text=file["text"].upper())


def largest_file(call: Call, given: dict[str, Any]) -> None:
    files = call("list_files", folder=given["folder"])
    call("write_file", path=given["target"], text=max(files, key=lambda one: one["size"])["path"])


def review(call: Call, given: dict[str, Any]) -> None:
    file = call("read_file", path=given["path"])
    verdict = "Looks good" if file["lines"] < 45 else "Too long"
    call("mail", address=given["address"], text=f"{verdict}: {given['path']}")


def deal(call: Call, given: dict[str, Any]) -> None:
    for ticket in call("list_tickets", project=given["project"]):
        if ticket["votes"] < 20:
            call("close_ticket", ticket=ticket["ticket"])


def tidy(call: Call, given: dict[str, Any]) -> None:
    for file in call("list_files", folder=given["folder"]):
        if file["archived"]:
            call("move_file", source=file["path"], target=f"old/{file['path']}")


def greet(call: Call, given: dict[str, Any]) -> None:
    user = call("get_user", login=given["login"])
    call("mail", address=user["address"], text=f"Welcome to {user['team']}!")


def tell_lead(call: Call, given: dict[str, Any]) -> None:
    user = call("get_user", login=given["login"])
    lead = call("get_user", login=user["lead"])
    boss = call("get_user", login=lead["lead"])
    call("mail", address=boss["address"], text=given["text"])


def titles(call: Call, given: dict[str, Any]) -> None:
    events = call("list_events", day=given["day"])
    call("write_file", path=given["path"], text=", ".join(event["title"] for event in events))


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    word, other = chance.sample(WORDS, 2)
    who, login, writer = chance.sample(PEOPLE, 3)  # a value that is said twice tells nothing of a variant
    return {
        "project": word,
        "folder": f"{word}-files",
        "team": f"team-{other}",
        "event": f"{other} day",
        "who": who,
        "login": login,
        "address": f"{writer}@west.example",
        "text": f"please look at the {other} again",
        "ticket": f"{word[:3].upper()}-{chance.randrange(100, 999)}",
        "path": f"{word}/{chance.randrange(10, 99)}.txt",
        "target": f"out/{other}-{chance.randrange(10, 99)}.txt",
        "day": f"2026-12-{chance.randrange(1, 29):02}",
        "size": chance.randrange(2_000, 6_000),
    }


JOBS: tuple[tuple[str, Callable[[Call, dict[str, Any]], None]], ...] = (
    ("assign all open tickets of {project} to {who}", assign_open),
    ('comment on the tickets of {project} with priority high: "{text}"', comment_high),
    ('tell the assignee of ticket {ticket}: "{text}"', tell_assignee),
    ("move the files in {folder} over {size} bytes to the archive", archive_large),
    ("copy {path} to the backup", copy_file),
    ("invite {team} to the {event}", invite_team),
    ("invite the active members of {team} to the {event}", invite_active),
    ("cancel the events on {day} that are not booked", cancel_unbooked),
    ('comment on the newest ticket of {project}: "{text}"', comment_newest),
    ('comment on the ticket of {project} with the most votes: "{text}"', comment_most_votes),
    ("write to {path} how many tickets {project} has", count_tickets),
    ("assign the first three tickets of {project} to {who}", assign_first),
    ("write the text of {path} in capitals to {target}", capitals),
    ("write to {target} which file in {folder} is the largest", largest_file),
    ("review {path} and tell {address} what you think", review),
    ("deal with the tickets of {project}", deal),
    ("tidy up {folder}", tidy),
    ("welcome {login}", greet),
    ('tell the lead of the lead of {login}: "{text}"', tell_lead),
    ("write the titles of the events on {day}, with commas, to {path}", titles),
)


# ---------------------------------------------------------------- a third set, after the second was used

AGENCY_FIELDS = {
    "find_flights": ("origin", "destination"),
    "list_hotels": ("city",),
    "get_customer": ("customer",),
    "list_invoices": ("customer",),
    "list_devices": ("site",),
    "get_weather": ("city",),
    "book": ("flight", "passenger"),
    "reserve": ("hotel", "guest"),
    "remind": ("invoice", "text"),
    "refund": ("invoice", "amount"),
    "send": ("email", "text"),
    "restart": ("device",),
    "log": ("text",),
}
AGENCY_READS = frozenset(name for name in AGENCY_FIELDS if name.startswith(("list_", "get_", "find_")))
CITIES = ("Oslo", "Porto", "Riga", "Turin", "Vienna", "Zagreb", "Bergen")


class Agency(World):
    """Flights, hotels, customers and devices made of a seed, and what was done to them."""

    reads = AGENCY_READS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"status": "ok", "receipt": f"{tool[:2]}{len(self.done):05}"}

    def find_flights(self, origin: str, destination: str) -> dict[str, Any]:
        chance = self.pick("flights", origin, destination)
        flights = [
            {
                "flight": f"{chance.choice(('KL', 'OS', 'TP'))}{chance.randrange(100, 999)}",
                "price": chance.randrange(60, 700),
                "direct": chance.random() < 0.5,
            }
            for _ in range(chance.randrange(2, 6))
        ]
        return {"origin": origin, "destination": destination, "flights": flights}

    def list_hotels(self, city: str) -> list[dict[str, Any]]:
        chance = self.pick("hotels", city)
        return [
            {
                "hotel": f"Hotel {chance.choice(WORDS)} {n}",
                "price": chance.randrange(50, 400),
                "stars": chance.randrange(2, 6),
            }
            for n in range(chance.randrange(2, 6))
        ]

    def get_customer(self, customer: str) -> dict[str, Any]:
        chance = self.pick("customer", customer)
        name = f"{customer.title()} {chance.choice(('Berg', 'Falk', 'Lind', 'Moen'))}"
        return {
            "customer": customer,
            "name": name,
            "email": f"{customer}{chance.randrange(10, 99)}@post.example",
            "city": chance.choice(CITIES),
        }

    def list_invoices(self, customer: str) -> list[dict[str, Any]]:
        chance = self.pick("invoices", customer)
        return [
            {
                "invoice": f"INV-{chance.randrange(10_000, 99_999)}",
                "amount": chance.randrange(20, 900),
                "due": f"2026-{chance.randrange(1, 13):02}-15",
                "paid": chance.random() < 0.5,
            }
            for _ in range(chance.randrange(2, 6))
        ]

    def list_devices(self, site: str) -> list[dict[str, Any]]:
        chance = self.pick("devices", site)
        return [
            {
                "device": f"sensor-{chance.randrange(100, 999)}",
                "online": chance.random() < 0.6,
                "battery": chance.randrange(1, 100),
            }
            for _ in range(chance.randrange(3, 7))
        ]

    def get_weather(self, city: str) -> dict[str, Any]:
        chance = self.pick("weather", city)
        return {"city": city, "rain": chance.random() < 0.5, "high": chance.randrange(5, 35)}


def book_cheapest(call: Call, given: dict[str, Any]) -> None:
    found = call("find_flights", origin=given["origin"], destination=given["city"])["flights"]
    call("book", flight=min(found, key=lambda one: one["price"])["flight"], passenger=given["who"])


def remind_unpaid(call: Call, given: dict[str, Any]) -> None:
    for invoice in call("list_invoices", customer=given["customer"]):
        if not invoice["paid"]:
            call("remind", invoice=invoice["invoice"], text=given["text"])


def restart_offline(call: Call, given: dict[str, Any]) -> None:
    for device in call("list_devices", site=given["site"]):
        if not device["online"]:
            call("restart", device=device["device"])


def restart_online(call: Call, given: dict[str, Any]) -> None:
    for device in call("list_devices", site=given["site"]):
        if device["online"]:
            call("restart", device=device["device"])


def restart_all(call: Call, given: dict[str, Any]) -> None:
    for device in call("list_devices", site=given["site"]):
        call("restart", device=device["device"])


def remind_overdue(call: Call, given: dict[str, Any]) -> None:
    for invoice in call("list_invoices", customer=given["customer"]):
        if invoice["due"] < "2026-06-01":
            call("remind", invoice=invoice["invoice"], text=given["text"])


def reserve_cheapest(call: Call, given: dict[str, Any]) -> None:
    hotels = call("list_hotels", city=given["city"])
    call("reserve", hotel=min(hotels, key=lambda one: one["price"])["hotel"], guest=given["who"])


def tell_of_rain(call: Call, given: dict[str, Any]) -> None:
    if call("get_weather", city=given["city"])["rain"]:
        call("send", email=given["address"], text=given["text"])


def total_of_invoices(call: Call, given: dict[str, Any]) -> None:
    invoices = call("list_invoices", customer=given["customer"])
    call("log", text=str(sum(one["amount"] for one in invoices)))


def total_of_unpaid(call: Call, given: dict[str, Any]) -> None:
    invoices = call("list_invoices", customer=given["customer"])
    call("log", text=str(sum(one["amount"] for one in invoices if not one["paid"])))


def log_customer(call: Call, given: dict[str, Any]) -> None:
    customer = call("get_customer", customer=given["customer"])
    call("log", text=f"{customer['name']}, {customer['city']}")


def write_customer(call: Call, given: dict[str, Any]) -> None:
    customer = call("get_customer", customer=given["customer"])
    call("send", email=customer["email"], text=f"Dear {customer['name']}, {given['text']}")


def refund_last(call: Call, given: dict[str, Any]) -> None:
    last = call("list_invoices", customer=given["customer"])[-1]
    call("refund", invoice=last["invoice"], amount=last["amount"])


def log_weak(call: Call, given: dict[str, Any]) -> None:
    weak = [one for one in call("list_devices", site=given["site"]) if one["battery"] < given["level"]]
    call("log", text=", ".join(one["device"] for one in weak))


def tell_weather(call: Call, given: dict[str, Any]) -> None:
    weather = call("get_weather", city=given["city"])
    mood = "a nice day" if weather["high"] > 18 else "a cold day"
    call("send", email=given["address"], text=f"{mood} in {given['city']}: {weather['high']} degrees")


def count_online(call: Call, given: dict[str, Any]) -> None:
    devices = call("list_devices", site=given["site"])
    call("log", text=str(len([one for one in devices if one["online"]])))


def remind_of_one(call: Call, given: dict[str, Any]) -> None:
    invoices = call("list_invoices", customer=given["customer"])
    largest = max(invoices, key=lambda one: one["amount"])
    call("remind", invoice=largest["invoice"], text=given["text"])


def book_direct(call: Call, given: dict[str, Any]) -> None:
    found = call("find_flights", origin=given["origin"], destination=given["city"])["flights"]
    direct = [one for one in found if one["direct"]]
    if direct:
        call("book", flight=min(direct, key=lambda one: one["price"])["flight"], passenger=given["who"])


def send_or_log(call: Call, given: dict[str, Any]) -> None:
    customer = call("get_customer", customer=given["customer"])
    if customer["city"] in CITIES[:4]:
        call("send", email=customer["email"], text=given["text"])
    else:
        call("log", text=given["text"])


def hotel_in_customers_city(call: Call, given: dict[str, Any]) -> None:
    customer = call("get_customer", customer=given["customer"])
    hotels = call("list_hotels", city=customer["city"])
    call("reserve", hotel=hotels[0]["hotel"], guest=customer["name"])


def agency_given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    origin, city = chance.sample(CITIES, 2)
    who, customer, writer = chance.sample(PEOPLE, 3)
    return {
        "origin": origin,
        "city": city,
        "who": who.title(),
        "customer": customer,
        "address": f"{writer}@east.example",
        "site": f"plant-{chance.randrange(10, 99)}",
        "text": f"it is about the {chance.choice(WORDS)} of last year",
        "level": chance.randrange(30, 60),
    }


AGENCY_JOBS: tuple[tuple[str, Callable[[Call, dict[str, Any]], None]], ...] = (
    ("book a flight from {origin} to {city} for {who}", book_cheapest),
    ('remind {customer} of the unpaid invoices: "{text}"', remind_unpaid),
    ("restart what is offline at {site}", restart_offline),
    ("restart the online devices at {site}", restart_online),
    ("restart all devices at {site}", restart_all),
    ('remind {customer} of the overdue invoices: "{text}"', remind_overdue),
    ("reserve the cheapest hotel in {city} for {who}", reserve_cheapest),
    ('if it rains in {city}, tell {address}: "{text}"', tell_of_rain),
    ("log what all invoices of {customer} come to", total_of_invoices),
    ("log what the invoices of {customer} that are not paid come to", total_of_unpaid),
    ("log name and city of {customer}", log_customer),
    ('write to {customer}: "{text}"', write_customer),
    ("refund the last invoice of {customer}", refund_last),
    ("log the devices at {site} with a battery below {level}", log_weak),
    ("tell {address} about the weather in {city}", tell_weather),
    ("log how many devices are online at {site}", count_online),
    ('remind {customer} of an invoice: "{text}"', remind_of_one),
    ("book the cheapest direct flight from {origin} to {city} for {who}", book_direct),
    ('tell {customer}, or note it: "{text}"', send_or_log),
    ("reserve the first hotel in the city of {customer} for them", hotel_in_customers_city),
)
