"""Twenty jobs on the tools of common servers (repositories, payments, calendars) for `distilling.py`.

Written by the developer of the distiller after the mending that `distilling_team` and `distilling_store` led
to, with what agents do that those two do not have: fields within fields, numbers that the user says,
duplicates that are left out, looks that decide without a word of the user, one call for many items.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

LOGINS = ("nadia", "oskar", "petra", "quentin", "ruth", "sofia", "tomas", "ulla")
TOPICS = ("intake", "payroll", "roadmap", "website", "garden", "library", "budget", "archive")
CITIES = ("Lisbon", "Tallinn", "Geneva", "Krakow", "Malaga", "Bruges", "Aarhus")
FIELDS = {
    "list_pull_requests": ("repo", "state"),
    "get_pull_request": ("repo", "number"),
    "list_members": ("channel",),
    "get_profile": ("user_id",),
    "find_customer": ("email",),
    "list_payments": ("customer_id",),
    "list_subscriptions": ("plan",),
    "list_events": ("day",),
    "read_document": ("path",),
    "list_documents": ("folder",),
    "search_tickets": ("sprint",),
    "get_parcel": ("parcel",),
    "get_numbers": ("metric", "day"),
    "query": ("sql",),
    "get_weather": ("city",),
    "list_employees": ("department",),
    "list_folders": ("project",),
    "list_permissions": ("folder_id",),
    "get_status": ("service",),
    "list_slots": ("doctor", "day"),
    "list_hours": ("sheet",),
    "merge_pull_request": ("repo", "number"),
    "request_review": ("repo", "number", "reviewers"),
    "send_message": ("user_id", "text"),
    "create_refund": ("payment_id", "amount"),
    "cancel_subscription": ("subscription_id",),
    "create_event": ("title", "start", "end"),
    "decline_event": ("event_id", "note"),
    "write_document": ("path", "content"),
    "archive_document": ("document_id",),
    "move_tickets": ("keys", "sprint"),
    "close_parcel": ("parcel",),
    "post_message": ("channel", "text"),
    "send_email": ("to", "subject", "body"),
    "create_issue": ("repo", "title", "body"),
    "grant_access": ("folder_id", "user"),
    "book_slot": ("slot_id", "patient"),
}


class Services(World):
    """Pull requests, payments, events, documents, parcels, folders and slots made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"ok": True, "event_id": f"{tool[:4]}{500 + len(self.done)}"}

    def list_pull_requests(self, repo: str, state: str) -> list[dict[str, Any]]:
        chance = self.pick("pulls", repo, state)
        return [
            {
                "number": number,
                "title": f"{chance.choice(TOPICS)} page",
                "state": state,
                "user": {"login": chance.choice(LOGINS[:3]), "type": "User"},
                "requested_reviewers": chance.choice(([], [], ["ulla"])),
                "draft": False,
            }
            for number in sorted(chance.sample(range(10, 900), self.size(chance)))
        ]

    def get_pull_request(self, repo: str, number: int) -> dict[str, Any]:
        chance = self.pick("pull", repo, number)
        return {"number": number, "mergeable": chance.random() < 0.8, "commits": chance.randrange(1, 9)}

    def list_members(self, channel: str) -> dict[str, Any]:
        chance = self.pick("members", channel)
        return {
            "members": [f"U{chance.randrange(1000, 9999)}" for _ in range(self.size(chance))],
            "next_cursor": "",
        }

    def get_profile(self, user_id: str) -> dict[str, Any]:
        chance = self.pick("profile", user_id)
        return {
            "user_id": user_id,
            "first_name": chance.choice(LOGINS).title(),
            "is_bot": chance.random() < 0.3,
        }

    def find_customer(self, email: str) -> dict[str, Any]:
        if "@" not in email:
            raise ToolFailed(f"{email} is no address")
        chance = self.pick("customer", email)
        return {"id": f"cus_{chance.randrange(10**6, 10**7)}", "email": email, "delinquent": False}

    def list_payments(self, customer_id: str) -> dict[str, Any]:
        chance = self.pick("payments", customer_id)
        days = chance.sample(range(10, 29), self.size(chance))
        return {
            "data": [
                {
                    "id": f"pay_{chance.randrange(10**5, 10**6)}",
                    "amount": chance.randrange(5, 99) * 100,
                    "created": f"2026-0{chance.randrange(1, 9)}-{day}",
                    "status": "succeeded",
                }
                for day in days
            ],
            "has_more": False,
        }

    def list_subscriptions(self, plan: str) -> list[dict[str, Any]]:
        chance = self.pick("subscriptions", plan)
        return [
            {
                "id": f"sub_{chance.randrange(10**4, 10**5)}",
                "status": chance.choice(("active", "past_due")),
                "plan": plan,
            }
            for _ in range(self.size(chance))
        ]

    def list_events(self, day: str) -> dict[str, Any]:
        chance = self.pick("events", day)
        return {
            "items": [
                {
                    "id": f"evt{chance.randrange(1000, 9999)}",
                    "summary": f"{chance.choice(TOPICS)} talk",
                    "organizer": {"email": f"{chance.choice(LOGINS[:3])}@uni.example"},
                    "start": {"dateTime": f"{day}T{hour:02}:00:00Z"},
                }
                for hour in range(9, 9 + self.size(chance))
            ]
        }

    def read_document(self, path: str) -> str:
        chance = self.pick("document", path)
        if path.endswith(".list"):
            return "\n".join(f"PX{chance.randrange(10**5, 10**6)}" for _ in range(self.size(chance)))
        return f"{chance.choice(TOPICS)} of {chance.choice(CITIES)}\n- call {chance.choice(LOGINS)}"

    def list_documents(self, folder: str) -> list[dict[str, Any]]:
        chance = self.pick("documents", folder)
        return [
            {
                "id": f"doc{chance.randrange(1000, 9999)}",
                "name": f"{topic} notes",
                "modified": f"2025-{chance.randrange(10, 13)}-{chance.randrange(10, 29)}",
            }
            for topic in self.some(chance, TOPICS)
        ]

    def search_tickets(self, sprint: str) -> dict[str, Any]:
        chance = self.pick("tickets", sprint)
        return {
            "issues": [
                {
                    "key": f"WEB-{chance.randrange(100, 999)}",
                    "status": chance.choice(("Blocked", "Done", "Blocked")),
                }
                for _ in range(self.size(chance))
            ],
            "total": 0,
        }

    def get_parcel(self, parcel: str) -> dict[str, Any]:
        chance = self.pick("parcel", parcel)
        return {"parcel": parcel, "delivered": chance.random() < 0.6, "weight": chance.randrange(1, 30)}

    def get_numbers(self, metric: str, day: str) -> dict[str, Any]:
        return {"metric": metric, "day": day, "visits": self.pick("numbers", metric, day).randrange(100, 900)}

    def query(self, sql: str) -> dict[str, Any]:
        chance = self.pick("query", sql)
        return {
            "rows": [
                {"name": name.title(), "mail": f"{name}@read.example"} for name in self.some(chance, LOGINS)
            ]
        }

    def get_weather(self, city: str) -> dict[str, Any]:
        return {"city": city, "degrees": self.pick("weather", city).randrange(-5, 35)}

    def list_employees(self, department: str) -> list[dict[str, Any]]:
        chance = self.pick("employees", department)
        return [
            {"name": name, "manager": f"{chance.choice(LOGINS)}@hq.example"}
            for name in self.some(chance, LOGINS)
        ]

    def list_folders(self, project: str) -> list[dict[str, Any]]:
        chance = self.pick("folders", project)
        return [
            {"folder_id": f"F{chance.randrange(1000, 9999)}", "name": topic}
            for topic in self.some(chance, TOPICS)
        ]

    def list_permissions(self, folder_id: str) -> dict[str, Any]:
        chance = self.pick("permissions", folder_id)
        return {"users": chance.sample(LOGINS, 2)}

    def get_status(self, service: str) -> dict[str, Any]:
        chance = self.pick("status", service)
        return {
            "service": service,
            "state": chance.choice(("up", "up", "degraded")),
            "uptime": chance.randrange(9000, 9999) / 100,
        }

    def list_slots(self, doctor: str, day: str) -> list[dict[str, Any]]:
        chance = self.pick("slots", doctor, day)
        return [
            {
                "slot_id": f"S{chance.randrange(1000, 9999)}",
                "start": f"{day}T{hour:02}:30",
                "free": chance.random() < 0.6,
            }
            for hour in chance.sample(range(8, 18), self.size(chance))
        ]

    def list_hours(self, sheet: str) -> list[dict[str, Any]]:
        chance = self.pick("hours", sheet)
        return [
            {"person": chance.choice(LOGINS[:3]), "hours": chance.randrange(1, 9)}
            for _ in range(self.size(chance) + 1)
        ]


def merge_of_author(call: Call, given: dict[str, Any]) -> None:
    for pull in call("list_pull_requests", repo=given["repo"], state="open"):
        if pull["user"]["login"] == given["who"]:
            call("merge_pull_request", repo=given["repo"], number=pull["number"])


def ask_reviewers(call: Call, given: dict[str, Any]) -> None:
    for pull in call("list_pull_requests", repo=given["repo"], state="open"):
        if not pull["requested_reviewers"]:
            call("request_review", repo=given["repo"], number=pull["number"], reviewers=[given["who"]])


def message_people(call: Call, given: dict[str, Any]) -> None:
    for user_id in call("list_members", channel=given["channel"])["members"]:
        profile = call("get_profile", user_id=user_id)
        if not profile["is_bot"]:
            call("send_message", user_id=user_id, text=given["text"])


def refund_latest(call: Call, given: dict[str, Any]) -> None:
    tried(call, "find_customer", email=given["address"].split("@")[0])
    customer = call("find_customer", email=given["address"])
    payments = call("list_payments", customer_id=customer["id"])["data"]
    if payments:
        latest = max(payments, key=lambda one: one["created"])
        call("create_refund", payment_id=latest["id"], amount=latest["amount"])


def cancel_past_due(call: Call, given: dict[str, Any]) -> None:
    for subscription in call("list_subscriptions", plan=given["plan"]):
        if subscription["status"] == "past_due":
            call("cancel_subscription", subscription_id=subscription["id"])


def plan_hour(call: Call, given: dict[str, Any]) -> None:
    call("list_events", day=given["day"])  # to see what else there is
    start = f"{given['day']}T{given['hour']:02}:00"
    call("create_event", title=given["title"], start=start, end=f"{given['day']}T{given['hour'] + 1:02}:00")


def decline_of(call: Call, given: dict[str, Any]) -> None:
    for event in call("list_events", day=given["day"])["items"]:
        if event["organizer"]["email"] == given["organizer"]:
            call("decline_event", event_id=event["id"], note=given["text"])


def append_line(call: Call, given: dict[str, Any]) -> None:
    text = call("read_document", path=given["path"])
    call("write_document", path=given["path"], content=f"{text}\n- {given['text']}")


def move_blocked(call: Call, given: dict[str, Any]) -> None:
    issues = call("search_tickets", sprint=given["sprint"])["issues"]
    keys = [one["key"] for one in issues if one["status"] == "Blocked"]
    if keys:
        call("move_tickets", keys=keys, sprint=given["next_sprint"])


def close_delivered(call: Call, given: dict[str, Any]) -> None:
    for parcel in call("read_document", path=given["list"]).splitlines():
        if call("get_parcel", parcel=parcel)["delivered"]:
            call("close_parcel", parcel=parcel)


def compare_days(call: Call, given: dict[str, Any]) -> None:
    before = call("get_numbers", metric=given["topic"], day=given["day"])
    after = call("get_numbers", metric=given["topic"], day=given["other_day"])
    call(
        "post_message",
        channel=given["channel"],
        text=f"{before['visits']} visits before, {after['visits']} after",
    )


def mail_readers(call: Call, given: dict[str, Any]) -> None:
    rows = call("query", sql=f"SELECT name, mail FROM readers WHERE city = '{given['city']}'")["rows"]
    for row in rows:
        call("send_email", to=row["mail"], subject="News", body=f"Dear {row['name']}, {given['text']}")


def three_cities(call: Call, given: dict[str, Any]) -> None:
    cities = (given["city"], given["second"], given["third"])
    lines = [f"{city}: {call('get_weather', city=city)['degrees']}" for city in cities]
    call("send_email", to=given["address"], subject="Temperatures", body="\n".join(lines))


def file_issue(call: Call, given: dict[str, Any]) -> None:
    text = call("read_document", path=given["path"])
    call("create_issue", repo=given["repo"], title=given["title"], body=text)


def tell_managers(call: Call, given: dict[str, Any]) -> None:
    employees = call("list_employees", department=given["topic"])
    for manager in dict.fromkeys(one["manager"] for one in employees):
        call("send_email", to=manager, subject=f"About {given['topic']}", body=given["text"])


def archive_oldest(call: Call, given: dict[str, Any]) -> None:
    documents = call("list_documents", folder=given["folder"])
    for document in sorted(documents, key=lambda one: one["modified"])[: given["count"]]:
        call("archive_document", document_id=document["id"])


def give_access(call: Call, given: dict[str, Any]) -> None:
    for folder in call("list_folders", project=given["topic"]):
        users = call("list_permissions", folder_id=folder["folder_id"])["users"]
        if given["who"] not in users:
            call("grant_access", folder_id=folder["folder_id"], user=given["who"])


def post_status(call: Call, given: dict[str, Any]) -> None:
    status = call("get_status", service=given["service"])
    call(
        "post_message",
        channel=given["channel"],
        text=f"{given['service']} is {status['state']} (uptime {status['uptime']} %)",
    )


def book_earliest(call: Call, given: dict[str, Any]) -> None:
    slots = [one for one in call("list_slots", doctor=given["doctor"], day=given["day"]) if one["free"]]
    if slots:
        call(
            "book_slot", slot_id=min(slots, key=lambda one: one["start"])["slot_id"], patient=given["patient"]
        )


def mail_hours(call: Call, given: dict[str, Any]) -> None:
    sums: dict[str, int] = {}
    for row in call("list_hours", sheet=given["topic"]):
        sums[row["person"]] = sums.get(row["person"], 0) + row["hours"]
    call(
        "send_email",
        to=given["address"],
        subject="Hours",
        body="\n".join(f"{who}: {n}" for who, n in sums.items()),
    )


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    topic, other, more = chance.sample(TOPICS, 3)
    city, second, third = chance.sample(CITIES, 3)
    day, other_day = chance.sample(range(10, 29), 2)
    sprint = chance.randrange(10, 90)
    who = chance.choice(LOGINS[:3])
    return {
        "repo": f"lab/{topic}",
        "who": who,
        "channel": f"#{other}-chat",
        "text": f"the {more} opens at nine",
        "address": f"{chance.choice(LOGINS)}{chance.randrange(10, 99)}@mail.example",
        "plan": f"{topic}-basic",
        "title": f"{other} workshop",
        "day": f"2026-11-{day}",
        "other_day": f"2026-12-{other_day}",
        "hour": chance.randrange(9, 17),
        "organizer": f"{who}@uni.example",
        "path": f"docs/{topic}-{chance.randrange(10, 99)}.md",
        "list": f"docs/{topic}.list",
        "sprint": f"Sprint-{sprint}",
        "next_sprint": f"Sprint-{sprint + 1}",
        "topic": more,
        "city": city,
        "second": second,
        "third": third,
        "folder": f"shared/{topic}",
        "count": chance.randrange(2, 4),
        "service": f"{other}-host",
        "doctor": f"Dr-{chance.choice(LOGINS).title()}",
        "patient": f"P-{chance.randrange(1000, 9999)}",
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("merge the open pull requests of {who} in {repo}", merge_of_author),
    ("ask {who} to review the open pull requests in {repo} that have no requested reviewers", ask_reviewers),
    ('send everybody in {channel} who is not a bot: "{text}"', message_people),
    ("refund the latest payment of {address}", refund_latest),
    ("cancel the subscriptions to {plan} that are past due", cancel_past_due),
    ("plan a {title} on {day} at {hour}, for an hour", plan_hour),
    ('decline the events on {day} that {organizer} organizes: "{text}"', decline_of),
    ('add a line to {path}: "{text}"', append_line),
    ("move the Blocked issues of {sprint} to {next_sprint}", move_blocked),
    ("close the delivered parcels in {list}", close_delivered),
    ("post in {channel} the {topic} visits of {day} and {other_day}", compare_days),
    ('write to the readers in {city}: "{text}"', mail_readers),
    ("mail {address} the temperatures in {city}, {second} and {third}", three_cities),
    ("open an issue in {repo} called {title} with the text of {path}", file_issue),
    ('tell the managers of the employees in {topic}: "{text}"', tell_managers),
    ("archive the {count} oldest documents in {folder}", archive_oldest),
    ("give {who} access to the folders of {topic}", give_access),
    ("post the status of {service} in {channel}", post_status),
    ("book the earliest free slot with {doctor} on {day} for {patient}", book_earliest),
    ("mail {address} the hours of each person in {topic}", mail_hours),
)
