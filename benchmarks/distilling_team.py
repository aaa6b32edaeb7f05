"""Twenty jobs of a software team for `distilling.py`, with detours, failed calls, and lists of other sizes.

Written before its author had read the distiller, and measured before it was mended. The agents
do what real ones do on MCP servers: look at what they do not need, call what fails and try again, word texts.
Where a list is empty or a condition is not met, an agent does what the record does not show.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

LOGINS = ("amira", "bela", "carlos", "dilan", "edda", "farid", "greta", "hugo")
NOUNS = ("parser", "cursor", "ledger", "beacon", "harbor", "meadow", "copper", "lantern")
FIELDS = {
    "list_issues": ("repo", "page"),
    "get_issue": ("repo", "number"),
    "list_directory": ("path",),
    "read_text_file": ("path",),
    "search_emails": ("query",),
    "list_events": ("day",),
    "search_products": ("query",),
    "find_contacts": ("company",),
    "get_company": ("name",),
    "query_metrics": ("service", "metric"),
    "list_tickets": ("queue",),
    "list_members": ("team",),
    "get_user": ("login",),
    "add_labels": ("repo", "number", "labels"),
    "add_comment": ("repo", "number", "body"),
    "create_issue": ("repo", "title"),
    "write_file": ("path", "content"),
    "move_file": ("source", "destination"),
    "delete_file": ("path",),
    "send_email": ("to", "subject", "body"),
    "reply_email": ("id", "body"),
    "create_event": ("title", "start", "attendees"),
    "update_event": ("id", "start"),
    "create_order": ("product_id", "quantity"),
    "add_note": ("contact_id", "text"),
    "create_incident": ("service", "summary"),
    "update_ticket": ("id", "changes"),
    "post_message": ("channel", "text"),
}


class Team(World):
    """Issues, files, mails, events, products, contacts, metrics and tickets made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {
            "id": f"{tool.replace('_', '-')}-{1000 + len(self.done)}",
            "url": f"https://x.example/{len(self.done)}",
        }

    def issue(self, repo: str, number: int) -> dict[str, Any]:
        chance = self.pick("issue", repo, number)
        day, minute = chance.randrange(10, 29), chance.randrange(10, 60)
        return {
            "number": number,
            "title": f"{chance.choice(NOUNS)} {chance.choice(('crashes', 'is slow', 'loses data'))}",
            "state": chance.choice(("open", "open", "closed")),
            "assignee": chance.choice((None, *LOGINS[:2])),
            "labels": chance.sample(("bug", "docs", "ui"), chance.randrange(0, 2)),
            "created_at": f"2026-{chance.randrange(10, 13)}-{day}T10:{minute}:00Z",
            "comments": chance.randrange(0, 30),
        }

    def list_issues(self, repo: str, page: int = 1) -> dict[str, Any]:
        chance = self.pick("issues", repo)
        numbers = sorted(chance.sample(range(10, 400), self.size(chance)), reverse=True)
        shown = numbers[3 * page - 3 : 3 * page] if page else numbers
        more = page and len(numbers) > 3 * page
        return {
            "total_count": len(numbers),
            "issues": [self.issue(repo, number) for number in shown],
            "next_page": page + 1 if more else None,
        }

    def get_issue(self, repo: str, number: int) -> dict[str, Any]:
        chance = self.pick("body", repo, number)
        return {**self.issue(repo, number), "body": f"seen {chance.randrange(2, 90)} times"}

    def list_directory(self, path: str) -> dict[str, Any]:
        if path.startswith("/"):
            raise ToolFailed(f"Access denied: {path} is outside of the allowed directories")
        chance = self.pick("directory", path)
        entries: list[dict[str, Any]] = []
        for name in chance.sample(NOUNS, min(len(NOUNS), self.size(chance))):
            kind = chance.choice(("file", "file", "file", "directory"))
            ending = chance.choice((".tmp", ".txt", ".log")) if kind == "file" else ""
            size = chance.randrange(1_000, 90_000) if kind == "file" else 0
            entries.append({"name": name + ending, "type": kind, "size": size})
        return {"path": path, "entries": entries}

    def read_text_file(self, path: str) -> str:
        chance = self.pick("text", path)
        if path.endswith(".yml"):
            name, port = chance.choice(NOUNS), chance.randrange(1000, 9999)
            return f"name: {name}\nregion: eu-west\nlevel: debug\nport: {port}\n"
        if path.endswith(".report"):
            lines = [f"{chance.choice(('FAIL', 'PASS'))} test_{noun}" for noun in self.some(chance, NOUNS)]
            return "\n".join(lines)
        if path.endswith(".json"):
            raise ToolFailed(f"ENOENT: no such file or directory, open '{path}'")
        return f"# {chance.choice(NOUNS)}\n\n{chance.choice(NOUNS)} {chance.randrange(10, 99)}\n"

    def search_emails(self, query: str) -> dict[str, Any]:
        chance = self.pick("emails", query)
        if ":" not in query:
            return {"messages": []}
        who = query.partition(":")[2]
        days = sorted(chance.sample(range(1, 29), self.size(chance)))
        return {
            "messages": [
                {
                    "id": f"m{chance.randrange(10_000, 99_999)}",
                    "from": who,
                    "subject": chance.choice(NOUNS),
                    "date": f"2026-11-{day:02}",
                    "unread": chance.random() < 0.5,
                }
                for day in days
            ]
        }

    def list_events(self, day: str) -> dict[str, Any]:
        chance = self.pick("events", day)
        titles = [f"{noun} review" for noun in NOUNS]
        chance.shuffle(titles)
        return {
            "events": [
                {
                    "id": f"ev{chance.randrange(100, 999)}",
                    "title": title,
                    "start": f"{day}T{hour:02}:30",
                    "attendees": chance.sample(LOGINS, 2),
                }
                for hour, title in enumerate(titles, 9)
            ]
        }

    def search_products(self, query: str) -> dict[str, Any]:
        chance = self.pick("products", query)
        return {
            "products": [
                {
                    "product_id": f"p-{chance.randrange(1000, 9999)}",
                    "name": f"{query} {chance.choice(NOUNS)}",
                    "price": chance.randrange(500, 9000) / 100,
                    "in_stock": chance.random() < 0.6,
                }
                for _ in range(self.size(chance))
            ]
        }

    def find_contacts(self, company: str) -> list[dict[str, Any]]:
        chance = self.pick("contacts", company)
        return [
            {
                "id": chance.randrange(100, 999),
                "name": f"{login.title()} {chance.choice(NOUNS).title()}",
                "email": f"{login}@{company.lower()}.example",
                "phone": chance.choice(("", "", f"+49 {chance.randrange(10**6, 10**7)}")),
            }
            for login in self.some(chance, LOGINS)
        ]

    def get_company(self, name: str) -> dict[str, Any]:
        chance = self.pick("company", name)
        return {"name": name, "owner": chance.choice(LOGINS), "tier": chance.choice(("gold", "silver"))}

    def query_metrics(self, service: str, metric: str) -> dict[str, Any]:
        chance = self.pick("metrics", service, metric)
        if metric not in ("errors", "latency"):
            raise ToolFailed(f"unknown metric {metric}; known: errors, latency")
        return {
            "service": service,
            "metric": metric,
            "points": [
                {"minute": minute, "value": chance.randrange(1, 60) / 4}
                for minute in range(max(1, self.size(chance)))
            ],
        }

    def list_tickets(self, queue: str) -> list[dict[str, Any]]:
        chance = self.pick("tickets", queue)
        return [
            {
                "id": f"T-{chance.randrange(1000, 9999)}",
                "subject": f"{chance.choice(NOUNS)} question",
                "status": chance.choice(("new", "solved", "solved", "pending")),
                "priority": chance.randrange(1, 5),
            }
            for _ in range(self.size(chance))
        ]

    def list_members(self, team: str) -> dict[str, Any]:
        chance = self.pick("members", team)
        return {
            "team": team,
            "members": [
                {"login": one, "role": chance.choice(("dev", "lead"))} for one in self.some(chance, LOGINS)
            ],
        }

    def get_user(self, login: str) -> dict[str, Any]:
        if login not in LOGINS:
            raise ToolFailed(f"no user {login}")
        chance = self.pick("user", login)
        return {
            "login": login,
            "email": f"{login}@team{chance.randrange(1, 9)}.example",
            "full_name": f"{login.title()} {chance.choice(NOUNS).title()}",
        }


def label_unassigned(call: Call, given: dict[str, Any]) -> None:
    issues = call("list_issues", repo=given["repo"], page=0)["issues"]
    if issues:
        call("get_issue", repo=given["repo"], number=issues[0]["number"])  # a look that nothing follows from
    for issue in issues:
        if issue["assignee"] is None:
            call("add_labels", repo=given["repo"], number=issue["number"], labels=[given["label"]])


def count_issues(call: Call, given: dict[str, Any]) -> None:
    found = call("list_issues", repo=given["repo"], page=0)
    call("post_message", channel=given["channel"], text=f"{given['repo']} has {found['total_count']} issues")


def mail_oldest(call: Call, given: dict[str, Any]) -> None:
    issues = call("list_issues", repo=given["repo"], page=0)["issues"]
    oldest = sorted(issues, key=lambda one: one["created_at"])[:3]
    body = "\n".join(f"- {one['title']}" for one in oldest) or "There are no issues."
    call("send_email", to=[given["address"]], subject=f"Oldest issues of {given['repo']}", body=body)


def move_large(call: Call, given: dict[str, Any]) -> None:
    tried(call, "list_directory", path=f"/{given['folder']}")
    for entry in call("list_directory", path=given["folder"])["entries"]:
        if entry["type"] == "file" and entry["size"] > given["size"]:
            call(
                "move_file",
                source=f"{given['folder']}/{entry['name']}",
                destination=f"{given['target']}/{entry['name']}",
            )


def reschedule(call: Call, given: dict[str, Any]) -> None:
    events = call("list_events", day=given["day"])["events"]
    event = next(one for one in events if one["title"] == given["title"])
    call("update_event", id=event["id"], start=f"{given['other_day']}T{event['start'][11:]}")


def invite_team(call: Call, given: dict[str, Any]) -> None:
    members = call("list_members", team=given["team"])["members"]
    addresses = [call("get_user", login=one["login"])["email"] for one in members]
    if addresses:
        call("create_event", title=given["title"], start=f"{given['day']}T10:00", attendees=addresses)


def order_cheapest(call: Call, given: dict[str, Any]) -> None:
    products = call("search_products", query=given["query"])["products"]
    stocked = [one for one in products if one["in_stock"]]
    if stocked:
        cheapest = min(stocked, key=lambda one: one["price"])
        call("create_order", product_id=cheapest["product_id"], quantity=given["count"])


def ask_for_phones(call: Call, given: dict[str, Any]) -> None:
    for contact in call("find_contacts", company=given["company"]):
        if not contact["phone"]:
            call("add_note", contact_id=contact["id"], text=given["text"])


def incident(call: Call, given: dict[str, Any]) -> None:
    tried(call, "query_metrics", service=given["service"], metric="error_rate")
    points = call("query_metrics", service=given["service"], metric="errors")["points"]
    if points[-1]["value"] > given["limit"]:
        call("create_incident", service=given["service"], summary=f"Errors at {points[-1]['value']} %")


def average_latency(call: Call, given: dict[str, Any]) -> None:
    points = call("query_metrics", service=given["service"], metric="latency")["points"]
    average = round(sum(one["value"] for one in points) / len(points), 1)
    call(
        "post_message", channel=given["channel"], text=f"Average latency of {given['service']}: {average} ms"
    )


def close_solved(call: Call, given: dict[str, Any]) -> None:
    for ticket in call("list_tickets", queue=given["queue"]):
        if ticket["status"] == "solved":
            call("update_ticket", id=ticket["id"], changes={"status": "closed"})


def reply_latest(call: Call, given: dict[str, Any]) -> None:
    call("search_emails", query=given["address"])  # finds nothing
    mails = call("search_emails", query=f"from:{given['address']}")["messages"]
    if mails:
        latest = max(mails, key=lambda one: one["date"])
        call("reply_email", id=latest["id"], body=given["text"])


def issues_of_failures(call: Call, given: dict[str, Any]) -> None:
    text = call("read_text_file", path=given["report"])
    for line in text.splitlines():
        if line.startswith("FAIL "):
            call("create_issue", repo=given["repo"], title=f"Fix {line[5:]}")


def tell_owner(call: Call, given: dict[str, Any]) -> None:
    tried(call, "get_user", login=given["company"])
    company = call("get_company", name=given["company"])
    owner = call("get_user", login=company["owner"])
    call(
        "send_email",
        to=[owner["email"]],
        subject=f"About {given['company']}",
        body=f"Hello {owner['full_name']},\n{given['text']}",
    )


def replace_in_file(call: Call, given: dict[str, Any]) -> None:
    tried(call, "read_text_file", path="settings.json")
    text = call("read_text_file", path=given["settings"])
    call(
        "write_file", path=given["settings"], content=text.replace("level: debug", f"level: {given['level']}")
    )


def comment_on_pages(call: Call, given: dict[str, Any]) -> None:
    page = 1
    while page:
        found = call("list_issues", repo=given["repo"], page=page)
        for issue in found["issues"]:
            call("add_comment", repo=given["repo"], number=issue["number"], body=given["text"])
        page = found["next_page"]


def delete_temporary(call: Call, given: dict[str, Any]) -> None:
    for entry in call("list_directory", path=given["folder"])["entries"]:
        if entry["name"].endswith(".tmp"):
            call("delete_file", path=f"{given['folder']}/{entry['name']}")


def assign_in_turns(call: Call, given: dict[str, Any]) -> None:
    for position, ticket in enumerate(call("list_tickets", queue=given["queue"])):
        who = given["first"] if position % 2 == 0 else given["second"]
        call("update_ticket", id=ticket["id"], changes={"assignee": who})


def tell_counts(call: Call, given: dict[str, Any]) -> None:
    for member in call("list_members", team=given["team"])["members"]:
        tickets = call("list_tickets", queue=member["login"])
        user = call("get_user", login=member["login"])
        call(
            "send_email",
            to=[user["email"]],
            subject="Your tickets",
            body=f"You have {len(tickets)} tickets, {user['full_name']}.",
        )


def urgent_or_not(call: Call, given: dict[str, Any]) -> None:
    company = call("get_company", name=given["company"])
    for ticket in call("list_tickets", queue=given["company"]):
        urgent = company["tier"] == "gold"
        call("update_ticket", id=ticket["id"], changes={"priority": 1 if urgent else 3})


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    noun, other, third = chance.sample(NOUNS, 3)
    first, second, writer = chance.sample(LOGINS, 3)
    day, other_day = chance.sample(range(1, 29), 2)
    return {
        "repo": f"acme/{noun}",
        "label": f"team-{other}",
        "channel": f"#{third}-news",
        "address": f"{writer}@north.example",
        "folder": f"data/{noun}",
        "target": f"archive/{other}",
        "size": chance.randrange(20_000, 50_000),
        "title": f"{other} review",
        "day": f"2026-12-{day:02}",
        "other_day": f"2027-01-{other_day:02}",
        "team": f"{third}-team",
        "query": f"{noun} cable",
        "count": chance.randrange(2, 60),
        "company": f"{other.title()}Works",
        "text": f"please send us the {third} numbers",
        "service": f"{noun}-api",
        "limit": chance.randrange(3, 9),
        "queue": f"{noun}-queue",
        "report": f"out/{noun}-{chance.randrange(10, 99)}.report",
        "settings": f"conf/{other}.yml",
        "level": chance.choice(("warning", "error", "info")),
        "first": first,
        "second": second,
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("label the issues of {repo} that nobody is assigned to as {label}", label_unassigned),
    ("post in {channel} how many issues {repo} has", count_issues),
    ("mail {address} the titles of the three oldest issues of {repo}", mail_oldest),
    ("move every file in {folder} that is larger than {size} bytes to {target}", move_large),
    ("move the {title} on {day} to {other_day}, same time", reschedule),
    ("plan a {title} with everybody in {team} on {day} at 10:00", invite_team),
    ("order {count} of the cheapest {query} that is in stock", order_cheapest),
    ('add a note "{text}" to every contact at {company} without a phone number', ask_for_phones),
    ("if the errors of {service} are over {limit} % now, open an incident", incident),
    ("post the average latency of {service} in {channel}", average_latency),
    ("close the solved tickets in {queue}", close_solved),
    ('reply to the latest mail from {address}: "{text}"', reply_latest),
    ("open an issue in {repo} for each failing test in {report}", issues_of_failures),
    ('write to the account owner of {company}: "{text}"', tell_owner),
    ("set the level in {settings} to {level}", replace_in_file),
    ('comment on all issues of {repo}: "{text}"', comment_on_pages),
    ("delete the temporary files in {folder}", delete_temporary),
    ("share the tickets in {queue} between {first} and {second}", assign_in_turns),
    ("tell everybody in {team} how many tickets they have", tell_counts),
    ("set the priorities of the tickets of {company}", urgent_or_not),
)
