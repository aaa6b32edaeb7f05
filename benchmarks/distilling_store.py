"""Twenty jobs of a store and its office for `distilling.py`: looks before acting, nested lists, equal fields.

Written by the developer of the distiller after the first mending that `distilling_team` led to. Agents look
at a state before they change something, read each item of a list and act on some, and answers have fields
that are often, but not always, equal.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

NAMES = ("Aron", "Britta", "Cosima", "Doru", "Elif", "Femke", "Gianni", "Hedda")
GOODS = ("teapot", "blanket", "notebook", "candle", "backpack", "scarf", "vase", "tripod")
FIELDS = {
    "get_order": ("order_id",),
    "list_orders": ("day",),
    "list_products": ("category",),
    "get_customer": ("customer_id",),
    "find_customer": ("name",),
    "check_room": ("room", "day"),
    "list_deals": ("owner",),
    "get_deal": ("deal_id",),
    "list_projects": ("client",),
    "list_tasks": ("project",),
    "list_services": ("region",),
    "list_files": ("folder",),
    "read_file": ("path",),
    "list_meetings": ("week",),
    "get_meeting": ("title",),
    "get_invoice": ("invoice",),
    "list_alerts": ("site", "limit"),
    "list_commits": ("repo",),
    "refund_item": ("order_id", "sku", "amount"),
    "order_stock": ("sku", "quantity"),
    "send_mail": ("to", "subject", "text"),
    "send_sms": ("phone", "text"),
    "book_room": ("room", "day", "hours"),
    "send_invoice": ("deal_id", "email"),
    "assign_task": ("task_id", "assignee"),
    "post": ("channel", "text"),
    "cancel_subscription": ("customer_id",),
    "rename_file": ("path", "new_path"),
    "archive_customer": ("customer_id",),
    "set_price": ("sku", "price"),
    "create_task": ("project", "title"),
    "add_attendee": ("meeting_id", "name"),
    "subscribe": ("email", "newsletter"),
    "transfer": ("iban", "amount", "reference"),
    "write_file": ("path", "text"),
}


class Store(World):
    """Orders, products, customers, deals, projects, meetings and invoices made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"status": "accepted", "reference": f"{tool[:3].upper()}{7000 + len(self.done)}"}

    def get_order(self, order_id: str) -> dict[str, Any]:
        if not order_id.startswith("ORD-"):
            raise ToolFailed(f"no order {order_id}; order ids begin with ORD-")
        chance = self.pick("order", order_id)
        lines = [
            {
                "sku": f"sku-{chance.randrange(1000, 9999)}",
                "name": chance.choice(GOODS),
                "amount": chance.randrange(300, 9000) / 100,
                "damaged": chance.random() < 0.5,
            }
            for _ in range(self.size(chance))
        ]
        customer = f"C{chance.randrange(100, 999)}"
        return {
            "order_id": order_id,
            "customer_id": customer,
            "total": sum(float(x["amount"]) for x in lines),
            "lines": lines,
        }

    def list_orders(self, day: str) -> dict[str, Any]:
        chance = self.pick("orders", day)
        return {
            "day": day,
            "orders": [
                {
                    "order_id": f"ORD-{chance.randrange(1000, 9999)}",
                    "customer_id": f"C{chance.randrange(100, 999)}",
                    "total": chance.randrange(1000, 90000) / 100,
                    "status": chance.choice(("open", "shipped", "open")),
                }
                for _ in range(self.size(chance))
            ],
        }

    def list_products(self, category: str) -> list[dict[str, Any]]:
        chance = self.pick("products", category)
        return [
            {
                "sku": f"sku-{chance.randrange(1000, 9999)}",
                "name": f"{category} {good}",
                "stock": chance.randrange(0, 60),
                "price": chance.randrange(200, 5000) / 100,
            }
            for good in self.some(chance, GOODS)
        ]

    def get_customer(self, customer_id: str) -> dict[str, Any]:
        chance = self.pick("customer", customer_id)
        name = chance.choice(NAMES)
        email = f"{name.lower()}{chance.randrange(10, 99)}@home.example"
        billing = email if chance.random() < 0.6 else f"bills{chance.randrange(10, 99)}@office.example"
        return {
            "customer_id": customer_id,
            "name": name,
            "email": email,
            "billing_email": billing,
            "phone": f"+43 {chance.randrange(10**6, 10**7)}",
            "subscribed": chance.random() < 0.6,
        }

    def find_customer(self, name: str) -> dict[str, Any]:
        chance = self.pick("found", name)
        found = self.get_customer(f"C{chance.randrange(100, 999)}")
        return {
            **found,
            "name": name,
            "open_orders": [f"ORD-{chance.randrange(1000, 9999)}" for _ in range(chance.choice((0, 0, 2)))],
        }

    def check_room(self, room: str, day: str) -> dict[str, Any]:
        chance = self.pick("room", room, day)
        return {"room": room, "day": day, "free": chance.random() < 0.6, "seats": chance.randrange(4, 30)}

    def list_deals(self, owner: str) -> list[dict[str, Any]]:
        chance = self.pick("deals", owner)
        return [
            {"deal_id": f"D{chance.randrange(1000, 9999)}", "owner": owner} for _ in range(self.size(chance))
        ]

    def get_deal(self, deal_id: str) -> dict[str, Any]:
        chance = self.pick("deal", deal_id)
        return {
            "deal_id": deal_id,
            "stage": chance.choice(("won", "lost", "won", "talking")),
            "contact": f"{chance.choice(NAMES).lower()}{chance.randrange(10, 99)}@client.example",
            "value": chance.randrange(10, 900) * 100,
        }

    def list_projects(self, client: str) -> list[dict[str, Any]]:
        chance = self.pick("projects", client)
        return [
            {"project": f"{good}-{chance.randrange(10, 99)}", "client": client}
            for good in self.some(chance, GOODS)
        ]

    def list_tasks(self, project: str) -> dict[str, Any]:
        chance = self.pick("tasks", project)
        return {
            "tasks": [
                {
                    "task_id": chance.randrange(10_000, 99_999),
                    "title": f"{chance.choice(GOODS)} photos",
                    "open": chance.random() < 0.6,
                }
                for _ in range(self.size(chance))
            ]
        }

    def list_services(self, region: str) -> list[dict[str, Any]]:
        chance = self.pick("services", region)
        return [
            {"service": f"{good}-svc", "cpu": chance.randrange(1, 100), "healthy": chance.random() < 0.7}
            for good in chance.sample(GOODS, min(8, max(1, self.size(chance))))
        ]

    def list_files(self, folder: str) -> list[str]:
        chance = self.pick("files", folder)
        return [f"{good}{chance.choice(('.csv', '.pdf', '.csv'))}" for good in self.some(chance, GOODS)]

    def read_file(self, path: str) -> str:
        chance = self.pick("file", path)
        return "name,count\n" + "".join(
            f"{good},{chance.randrange(1, 40)}\n" for good in self.some(chance, GOODS)
        )

    def list_meetings(self, week: str) -> list[dict[str, Any]]:
        chance = self.pick("meetings", week)
        return [
            {
                "meeting_id": f"M{chance.randrange(1000, 9999)}",
                "title": f"{chance.choice(GOODS)} sync",
                "attendees": chance.sample(NAMES, 4),
            }
            for _ in range(self.size(chance))
        ]

    def get_meeting(self, title: str) -> dict[str, Any]:
        chance = self.pick("meeting", title)
        return {
            "title": title,
            "attendees": [f"{name.lower()}@team.example" for name in self.some(chance, NAMES)],
        }

    def get_invoice(self, invoice: str) -> dict[str, Any]:
        chance = self.pick("invoice", invoice)
        return {
            "invoice": invoice,
            "iban": f"AT{chance.randrange(10**9, 10**10)}",
            "amount": chance.randrange(1000, 90000) / 100,
            "status": chance.choice(("open", "open", "paid")),
        }

    def list_alerts(self, site: str, limit: int) -> dict[str, Any]:
        chance = self.pick("alerts", site)
        every = [
            {
                "alert": f"A{chance.randrange(100, 999)}",
                "message": f"{chance.choice(GOODS)} rack is hot",
                "severity": chance.choice(("high", "low")),
            }
            for _ in range(self.size(chance))
        ]
        return {"alerts": every[:limit], "has_more": len(every) > limit}

    def list_commits(self, repo: str) -> list[dict[str, Any]]:
        chance = self.pick("commits", repo)
        return [
            {
                "sha": f"{chance.randrange(16**7, 16**8):x}",
                "message": f"{chance.choice(('feat', 'fix'))}: {chance.choice(GOODS)}",
            }
            for _ in range(self.size(chance))
        ]


def refund_damaged(call: Call, given: dict[str, Any]) -> None:
    tried(call, "get_order", order_id=given["order"][4:])
    order = call("get_order", order_id=given["order"])
    for line in order["lines"]:
        if line["damaged"]:
            call("refund_item", order_id=given["order"], sku=line["sku"], amount=line["amount"])


def restock(call: Call, given: dict[str, Any]) -> None:
    for product in call("list_products", category=given["good"]):
        if product["stock"] < given["level"]:
            call("order_stock", sku=product["sku"], quantity=given["level"] - product["stock"])


def send_bill(call: Call, given: dict[str, Any]) -> None:
    order = call("get_order", order_id=given["order"])
    customer = call("get_customer", customer_id=order["customer_id"])
    call(
        "send_mail",
        to=customer["billing_email"],
        subject=f"Bill for order {given['order']}",
        text=f"Total of your order: {order['total']:.2f} EUR",
    )


def book_if_free(call: Call, given: dict[str, Any]) -> None:
    if call("check_room", room=given["room"], day=given["day"])["free"]:
        call("book_room", room=given["room"], day=given["day"], hours=given["hours"])


def invoice_won(call: Call, given: dict[str, Any]) -> None:
    for deal in call("list_deals", owner=given["name"]):
        detail = call("get_deal", deal_id=deal["deal_id"])
        if detail["stage"] == "won":
            call("send_invoice", deal_id=detail["deal_id"], email=detail["contact"])


def assign_tasks(call: Call, given: dict[str, Any]) -> None:
    for project in call("list_projects", client=given["client"]):
        for task in call("list_tasks", project=project["project"])["tasks"]:
            if task["open"]:
                call("assign_task", task_id=task["task_id"], assignee=given["name"])


def busiest(call: Call, given: dict[str, Any]) -> None:
    services = call("list_services", region=given["region"])
    top = max(services, key=lambda one: one["cpu"])
    call("post", channel=given["channel"], text=f"{top['service']} has the highest cpu: {top['cpu']} %")


def mail_orders(call: Call, given: dict[str, Any]) -> None:
    orders = call("list_orders", day=given["day"])["orders"]
    lines = [f"{order['order_id']}: {order['total']} EUR" for order in orders] or ["No orders"]
    call("send_mail", to=given["address"], subject=f"Orders of {given['day']}", text="\n".join(lines))


def cancel(call: Call, given: dict[str, Any]) -> None:
    customer = call("get_customer", customer_id=given["customer"])
    if customer["subscribed"]:
        call("cancel_subscription", customer_id=given["customer"])


def rename_tables(call: Call, given: dict[str, Any]) -> None:
    for name in call("list_files", folder=given["folder"]):
        if name.endswith(".csv"):
            call(
                "rename_file",
                path=f"{given['folder']}/{name}",
                new_path=f"{given['folder']}/{given['day']}-{name}",
            )


def archive_idle(call: Call, given: dict[str, Any]) -> None:
    customer = call("find_customer", name=given["name"])
    if not customer["open_orders"]:
        call("archive_customer", customer_id=customer["customer_id"])


def raise_prices(call: Call, given: dict[str, Any]) -> None:
    for product in call("list_products", category=given["good"]):
        call("set_price", sku=product["sku"], price=round(product["price"] * (1 + given["percent"] / 100), 2))


def tasks_of_table(call: Call, given: dict[str, Any]) -> None:
    text = call("read_file", path=given["table"])
    for row in text.splitlines()[1:]:
        name, count = row.split(",")
        call("create_task", project=given["project"], title=f"count {name}: {count}")


def thank_best(call: Call, given: dict[str, Any]) -> None:
    orders = call("list_orders", day=given["day"])["orders"]
    for order in sorted(orders, key=lambda one: -one["total"])[:3]:
        customer = call("get_customer", customer_id=order["customer_id"])
        call(
            "send_mail",
            to=customer["email"],
            subject="Thank you",
            text=f"Dear {customer['name']}, {given['text']}",
        )


def stand_in(call: Call, given: dict[str, Any]) -> None:
    for meeting in call("list_meetings", week=given["week"]):
        if given["name"] in meeting["attendees"]:
            call("add_attendee", meeting_id=meeting["meeting_id"], name=given["other"])


def count_open(call: Call, given: dict[str, Any]) -> None:
    tasks = call("list_tasks", project=given["project"])["tasks"]
    call("list_projects", client=given["project"])  # a look that nothing follows from
    count = len([task for task in tasks if task["open"]])
    call("post", channel=given["channel"], text=f"{count} open tasks in {given['project']}")


def pass_on_alerts(call: Call, given: dict[str, Any]) -> None:
    found = call("list_alerts", site=given["site"], limit=7)
    if found["has_more"]:
        found = call("list_alerts", site=given["site"], limit=50)
    for alert in found["alerts"]:
        if alert["severity"] == "high":
            call("post", channel=given["channel"], text=f"{alert['alert']}: {alert['message']}")


def subscribe_all(call: Call, given: dict[str, Any]) -> None:
    for address in call("get_meeting", title=given["title"])["attendees"]:
        call("subscribe", email=address, newsletter=given["newsletter"])


def pay(call: Call, given: dict[str, Any]) -> None:
    invoice = call("get_invoice", invoice=given["invoice"])
    if invoice["status"] == "open":
        call("transfer", iban=invoice["iban"], amount=invoice["amount"], reference=given["invoice"])


def release_notes(call: Call, given: dict[str, Any]) -> None:
    commits = call("list_commits", repo=given["repo"])
    lines = [f"- {one['message'][6:]}" for one in commits if one["message"].startswith("feat: ")]
    call("write_file", path=given["notes"], text="# New\n" + "\n".join(lines or ["nothing"]))


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    good, second, third = chance.sample(GOODS, 3)
    name, other = chance.sample(NAMES, 2)
    return {
        "order": f"ORD-{chance.randrange(1000, 9999)}",
        "good": good,
        "level": chance.randrange(20, 50),
        "percent": chance.randrange(3, 19),
        "name": name,
        "other": other,
        "room": f"{second}-room",
        "day": f"2026-10-{chance.randrange(10, 30)}",
        "hours": chance.randrange(5, 9),
        "client": f"{third.title()}Ltd",
        "region": f"eu-{chance.choice(('west', 'east'))}-{chance.randrange(1, 9)}",
        "channel": f"#{second}-ops",
        "address": f"{other.lower()}@desk.example",
        "customer": f"C{chance.randrange(100, 999)}",
        "folder": f"tables/{good}",
        "table": f"tables/{second}-{chance.randrange(10, 99)}.csv",
        "project": f"{third}-{chance.randrange(100, 999)}",
        "text": f"enjoy the {third} from all of us",
        "week": f"2026-W{chance.randrange(10, 50)}",
        "site": f"hall-{chance.randrange(10, 99)}",
        "title": f"{second} meetup",
        "newsletter": f"{third}-news",
        "invoice": f"INV-{chance.randrange(10_000, 99_999)}",
        "repo": f"shop/{good}",
        "notes": f"notes/{second}.md",
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("refund the damaged lines of order {order}", refund_damaged),
    ("fill up the products in {good} with a stock below {level} to that number", restock),
    ("send the bill for {order} to its customer", send_bill),
    ("book {room} on {day} for {hours} hours", book_if_free),
    ("send invoices for the won deals of {name}", invoice_won),
    ("assign the open tasks in all projects of {client} to {name}", assign_tasks),
    ("post in {channel} which service in {region} has the highest cpu", busiest),
    ("mail {address} the orders of {day} with their totals", mail_orders),
    ("cancel the subscription of {customer}", cancel),
    ("put {day} before the names of the files in {folder} that end with .csv", rename_tables),
    ("if {name} has no open orders, archive them", archive_idle),
    ("raise the prices in {good} by {percent} percent", raise_prices),
    ("create a task in {project} for each row of {table}", tasks_of_table),
    ('write to the customers of the three largest orders of {day}: "{text}"', thank_best),
    ("add {other} to the meetings in {week} that {name} attends", stand_in),
    ("post in {channel} how many open tasks {project} has", count_open),
    ("post the alerts at {site} with severity high in {channel}", pass_on_alerts),
    ("subscribe the attendees of {title} to {newsletter}", subscribe_all),
    ("pay {invoice}", pay),
    ("write what is new in {repo} to {notes}", release_notes),
)
