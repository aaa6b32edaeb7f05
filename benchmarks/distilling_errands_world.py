"""Mails, hosts, shops, flights, repositories and lamps made of a seed, for `distilling_errands.py`.

The tools answer as MCP servers do: records within records, ids, dates, prose, pages.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from benchmarks.distilling_world import World

from callsheet.ports.calls import ToolFailed

PEOPLE = (
    "Amara Okoye",
    "Bruno Lang",
    "Carla Reyes",
    "Dmitri Pavlov",
    "Elif Kaya",
    "Farid Haddad",
    "Greta Holm",
)
SUBJECTS = ("budget", "relocation", "hiring", "audit", "branding", "warranty", "insurance")
SERVICES = ("checkout", "ledger", "gateway", "mailer", "search", "thumbnails")
PRODUCTS = ("kettle", "headlamp", "backpack", "router", "blender", "tripod")
PLACES = ("Lyon", "Porto", "Vienna", "Oslo", "Turin", "Ghent", "Riga")
REPOS = ("acme/api", "acme/web", "acme/docs", "acme/infra")
ROOMS = ("kitchen", "hall", "study", "bedroom", "garage", "attic", "cellar")
FOODS = ("flour", "butter", "eggs", "milk", "onions", "rice", "tomatoes", "basil", "sugar", "lentils")
TODAY = date(2026, 5, 18)
FIELDS = {
    "search_messages": ("query", "page_token"),
    "find_contact": ("name",),
    "find_free_slots": ("email", "date"),
    "list_files": ("folder",),
    "read_file": ("path",),
    "get_current_time": (),
    "get_current_user": (),
    "list_tickets": ("project", "page"),
    "list_pods": ("namespace",),
    "list_deploys": ("service",),
    "list_alerts": ("service", "state"),
    "get_oncall": ("service",),
    "list_hosts": ("cluster",),
    "get_metrics": ("host",),
    "list_keys": ("service",),
    "search_products": ("query", "offset"),
    "get_delivery": ("sku",),
    "list_orders": ("shop",),
    "get_order": ("order_id",),
    "get_cart": (),
    "list_vouchers": ("shop",),
    "search_flights": ("origin", "destination", "date"),
    "get_traveller": ("name",),
    "search_hotels": ("city", "check_in", "check_out"),
    "get_trip": ("code",),
    "get_flight_status": ("flight",),
    "list_issues": ("repo", "state", "page"),
    "get_file_contents": ("repo", "path", "ref"),
    "get_repository": ("repo",),
    "list_pull_requests": ("repo", "state"),
    "get_checks": ("repo", "sha"),
    "list_commits": ("repo", "since"),
    "list_devices": ("kind",),
    "get_presence": ("room",),
    "get_recipe": ("name",),
    "list_pantry": (),
    "send_reply": ("thread_id", "body"),
    "send_email": ("to", "subject", "body"),
    "create_event": ("title", "start", "end", "attendees"),
    "forward_file": ("file_id", "to"),
    "create_task": ("list", "title", "assignee"),
    "post_message": ("channel", "text"),
    "delete_pod": ("namespace", "name"),
    "rollback": ("service", "version"),
    "create_incident": ("title", "service", "severity"),
    "page_person": ("user", "incident_id", "message"),
    "resize_disk": ("host", "size_gb"),
    "revoke_key": ("key_id", "reason"),
    "create_key": ("service", "name"),
    "add_to_cart": ("sku", "quantity"),
    "create_return": ("order_id", "line_id", "reason"),
    "apply_voucher": ("code",),
    "book_flight": ("offer_id", "traveller_id"),
    "hold_room": ("hotel_id", "check_in", "check_out"),
    "send_sms": ("phone", "text"),
    "add_labels": ("repo", "issue_number", "labels"),
    "add_comment": ("repo", "issue_number", "body"),
    "close_issue": ("repo", "issue_number"),
    "create_branch": ("repo", "branch", "from_sha"),
    "update_file": ("repo", "path", "content", "sha", "branch"),
    "create_pull_request": ("repo", "title", "head", "base"),
    "request_reviewers": ("repo", "number", "reviewers"),
    "create_release": ("repo", "tag_name", "body"),
    "set_state": ("entity_id", "state"),
    "add_to_list": ("list", "item"),
}


def day_near(chance: random.Random, first: int, last: int) -> str:
    """A day that is some days from today."""
    return (TODAY + timedelta(days=chance.randrange(first, last))).isoformat()


def address_of(person: str) -> str:
    """The address of a person."""
    return f"{person.lower().replace(' ', '.')}@firm.example"


class Errands(World):
    """Mails, hosts, shops, flights, repositories and lamps made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        number = 40 + 7 * len(self.done) + self.seed % 13
        return {
            "status": "created",
            "data": {"id": f"{tool.rsplit('_', maxsplit=1)[-1][:3].upper()}-{number}"},
        }

    def search_messages(self, query: str, page_token: str = "") -> dict[str, Any]:
        chance = self.pick("messages", query)
        found = [
            {
                "id": f"18f{chance.randrange(10**5, 10**6):x}",
                "threadId": f"t{chance.randrange(10**5, 10**6):x}",
                "from": {"name": person, "email": address_of(person)},
                "snippet": f"Hi, when do we talk about the {query}? Best, {person.split()[0]}",
                "date": f"{day_near(chance, -6, 0)}T{chance.randrange(8, 18):02}:12:00Z",
                "labels": ["INBOX", *(["UNREAD"] if chance.random() < 0.5 else [])],
            }
            for person in self.some(chance, PEOPLE)
        ]
        start = int(page_token[1:]) if page_token else 0
        page: dict[str, Any] = {"messages": found[start : start + 3], "resultSizeEstimate": len(found)}
        if start + 3 < len(found):
            page["nextPageToken"] = f"p{start + 3}"
        return page

    def find_contact(self, name: str) -> dict[str, Any]:
        if name not in PEOPLE:
            return {"total": 0, "contacts": []}
        chance = self.pick("contact", name)
        return {"total": 1, "contacts": [
            {"resourceName": f"people/c{chance.randrange(10**6, 10**7)}", "displayName": name,
             "emails": [{"value": address_of(name), "type": "work"}],
             "github": name.split(maxsplit=1)[0].lower() + str(chance.randrange(10, 99)),
             "phone": f"+44 20 {chance.randrange(1000, 9999)} {chance.randrange(1000, 9999)}"}]}  # fmt: skip

    def find_free_slots(self, email: str, date: str) -> dict[str, Any]:
        chance = self.pick("slots", email, date)
        hours = sorted(chance.sample(range(8, 18), 6))
        return {"calendar": email, "timeZone": "UTC", "free": [
            {"start": f"{date}T{hour:02}:00:00Z", "end": f"{date}T{hour:02}:30:00Z"}
             for hour in hours]}  # fmt: skip

    def list_files(self, folder: str) -> dict[str, Any]:
        chance = self.pick("files", folder)
        return {"folder": folder, "entries": [
            {"type": "file", "id": f"f_{number}", "name": f"invoice-{number}.txt",
             "path": f"{folder}/invoice-{number}.txt", "size": chance.randrange(300, 900)}
            for number in sorted(chance.sample(range(2000, 3000), self.size(chance)))]}  # fmt: skip

    def read_file(self, path: str) -> str:
        chance = self.pick("file", path)
        if path.endswith(".md"):
            lines = [
                f"- [{chance.choice('  x')}] {person.split()[0]}: "
                f"{chance.choice(('call', 'check', 'order'))} the {chance.choice(PRODUCTS)}"
                for person in self.some(chance, PEOPLE)
            ]
            return "\n".join(
                ["# Minutes", "", "We met in the study and talked for an hour.", "", "## Actions", *lines]
            )
        return (
            f"INVOICE {path.rsplit('-', maxsplit=1)[-1][:-4]}\nCustomer: {chance.choice(PEOPLE)}\n"
            f"Due: {day_near(chance, -40, 40)}\nAmount: EUR {chance.randrange(40, 900)}.00\n"
        )

    def get_current_time(self) -> dict[str, Any]:
        return {
            "timezone": "UTC",
            "datetime": f"{TODAY.isoformat()}T09:14:00+00:00",
            "date": TODAY.isoformat(),
        }

    def get_current_user(self) -> dict[str, Any]:
        return {"id": "u_1", "login": "jonas", "email": "jonas@firm.example", "name": "Jonas Weber"}

    def list_tickets(self, project: str, page: int = 1) -> dict[str, Any]:
        chance = self.pick("tickets", project)
        found = [
            {
                "key": f"{project[:3].upper()}-{chance.randrange(100, 999)}",
                "fields": {
                    "summary": f"{chance.choice(SUBJECTS)} of the {chance.choice(PRODUCTS)}",
                    "status": {"name": chance.choice(("Done", "Open", "Open"))},
                    "points": chance.randrange(1, 9),
                },
            }
            for _ in range(self.size(chance))
        ]
        last = max(1, -(-len(found) // 3))
        return {"page": page, "pages": last, "total": len(found), "issues": found[3 * page - 3 : 3 * page]}

    def list_pods(self, namespace: str) -> dict[str, Any]:
        chance = self.pick("pods", namespace)
        return {"kind": "PodList", "items": [
            {"metadata": {"name": f"{service}-{chance.randrange(16**4, 16**5):x}", "namespace": namespace},
             "status": chance.choice((
                 {"phase": "Running", "restartCount": chance.randrange(0, 3)},
                 {"phase": "Waiting", "reason": "CrashLoopBackOff", "restartCount": chance.randrange(4, 30)},
                 {"phase": "Waiting", "reason": "ImagePullBackOff", "restartCount": 0}))}
            for service in self.some(chance, SERVICES)]}  # fmt: skip

    def list_deploys(self, service: str) -> dict[str, Any]:
        chance = self.pick("deploys", service)
        minor = chance.randrange(20, 60)
        return {"service": service, "deploys": [
            {"id": chance.randrange(10**4, 10**5), "version": f"v1.{minor - back}.{chance.randrange(9)}",
             "status": "live" if back == 0 else "superseded", "by": chance.choice(PEOPLE),
             "at": f"{(TODAY - timedelta(days=3 * back)).isoformat()}T11:00:00Z"}
            for back in range(2 + self.size(chance))]}  # fmt: skip

    def list_alerts(self, service: str, state: str) -> dict[str, Any]:
        chance = self.pick("alerts", service)
        return {"alerts": [
            {"fingerprint": f"{chance.randrange(16**6, 16**7):x}", "status": {"state": state},
             "labels": {"alertname": chance.choice(("HighLatency", "ErrorBudget", "QueueFull")),
                        "severity": chance.choice(("critical", "warning")), "service": service}}
            for _ in range(self.size(chance))]}  # fmt: skip

    def get_oncall(self, service: str) -> dict[str, Any]:
        person = self.pick("oncall", service).choice(PEOPLE)
        return {"schedule": f"{service}-primary", "user": {"name": person,
         "handle": person.split()[0].lower()},
                "until": f"{TODAY.isoformat()}T18:00:00Z"}  # fmt: skip

    def list_hosts(self, cluster: str) -> list[dict[str, Any]]:
        chance = self.pick("hosts", cluster)
        return [{"host": f"{cluster}-{number:02}", "role": "worker", "zone": chance.choice("abc")}
                for number in range(1, 1 + self.size(chance))]  # fmt: skip

    def get_metrics(self, host: str) -> dict[str, Any]:
        if "." in host:
            raise ToolFailed(f"unknown host {host}")
        chance = self.pick("metrics", host)
        return {"host": host, "cpu": chance.randrange(5, 95), "disk": {
            "size_gb": chance.randrange(2, 12) * 20, "used_percent": chance.randrange(30, 99)}}  # fmt: skip

    def list_keys(self, service: str) -> dict[str, Any]:
        chance = self.pick("keys", service)
        return {"keys": [
            {"key_id": f"AK{chance.randrange(10**7, 10**8)}",
             "name": f"{service}-{person.split()[0].lower()}",
             "created_at": day_near(chance, -200, -5), "last_used": day_near(chance, -5, 0)}
            for person in self.some(chance, PEOPLE)]}  # fmt: skip

    def search_products(self, query: str, offset: int = 0) -> dict[str, Any]:
        chance = self.pick("products", query)
        prices = chance.sample(range(15, 120), 9)
        found = [
            {
                "sku": f"{query[:2].upper()}{chance.randrange(10**4, 10**5)}",
                "title": f"{chance.choice(('Nordic', 'Basic', 'Ultra', 'Eco'))} {query}",
                "price": {"amount": prices[place] + 0.99, "currency": "EUR"},
                "rating": {"average": chance.randrange(30, 50) / 10, "count": chance.randrange(5, 900)},
            }
            for place in range(max(1, self.size(chance)))
        ]
        more = offset + 4 < len(found)
        return {
            "results": found[offset : offset + 4],
            "total": len(found),
            "next_offset": offset + 4 if more else None,
        }

    def get_delivery(self, sku: str) -> str:
        chance = self.pick("delivery", sku)
        place, day = chance.choice(PLACES), day_near(chance, 1, 12)
        return f"Item {sku} ships from {place}. Arrives by {day}. Shipping is free."

    def list_orders(self, shop: str) -> dict[str, Any]:
        chance = self.pick("orders", shop)
        days = sorted(chance.sample(range(5, 300), 1 + self.size(chance)), reverse=True)
        orders = [{"order_id": f"{chance.randrange(100, 999)}-{chance.randrange(10**4, 10**5)}", "shop": shop,
                   "placed": (TODAY - timedelta(days=day)).isoformat(), "status": "delivered"}
                  for day in days]  # fmt: skip
        return {"orders": orders}

    def get_order(self, order_id: str) -> dict[str, Any]:
        chance = self.pick("order", order_id)
        names = chance.sample(PRODUCTS, 3 if self.seed != 902 else len(PRODUCTS))
        return {"order": {"id": order_id, "lines": [
            {"line_id": number, "sku": f"{name[:2].upper()}{chance.randrange(10**4, 10**5)}", "name": name,
             "quantity": chance.randrange(1, 5), "unit_price": chance.randrange(10, 90) + 0.5}
            for number, name in enumerate(names, 1)]}}  # fmt: skip

    def get_cart(self) -> dict[str, Any]:
        chance = self.pick("cart")
        return {"items": chance.randrange(2, 6), "subtotal": chance.randrange(60, 200), "currency": "EUR"}

    def list_vouchers(self, shop: str) -> list[dict[str, Any]]:
        chance = self.pick("vouchers", shop)
        values = chance.sample(range(3, 60), 9)
        return [{"code": f"{chance.choice(('SPRING', 'HELLO', 'VIP'))}{chance.randrange(100, 999)}",
                 "value_off": values[place], "minimum": chance.choice((20, 50, 150)),
                  "expires": day_near(chance, 3, 50)}
                for place in range(1 + self.size(chance))]  # fmt: skip

    def search_flights(self, origin: str, destination: str, date: str) -> dict[str, Any]:
        chance = self.pick("flights", origin, destination, date)
        hours = chance.sample(range(5, 22), 2 + self.size(chance))
        offers = [
            {
                "id": f"off_{chance.randrange(10**5, 10**6)}",
                "total_amount": f"{chance.randrange(60, 400)}.00",
                "slices": [{"origin": origin, "destination": destination,
                 "stops": 0 if not place else chance.randrange(2),
                            "departing_at": f"{date}T{hour:02}:{chance.randrange(10, 60)}:00"}],
            }
            for place, hour in enumerate(hours)
        ]  # fmt: skip
        chance.shuffle(offers)
        return {"data": {"offers": offers, "passengers": 1}}

    def get_traveller(self, name: str) -> dict[str, Any]:
        chance = self.pick("traveller", name)
        return {
            "traveller": {
                "id": f"trv_{chance.randrange(1000, 9999)}",
                "name": name,
                "seat": chance.choice("aw"),
            }
        }

    def search_hotels(self, city: str, check_in: str, check_out: str) -> dict[str, Any]:
        chance = self.pick("hotels", city, check_in)
        rates = chance.sample(range(60, 220), 9)
        return {"city": city, "hotels": [
            {"hotel_id": chance.randrange(1000, 9999),
             "name": f"{chance.choice(('Park', 'Grand', 'City'))} {city}",
             "rate": {"per_night": rates[place], "currency": "EUR"},
              "breakfast": place == 0 or chance.random() < 0.5,
             "score": chance.randrange(60, 98) / 10} for place in range(1 + self.size(chance))]}  # fmt: skip

    def get_trip(self, code: str) -> dict[str, Any]:
        chance = self.pick("trip", code)
        stops = chance.sample(PLACES, max(2, min(len(PLACES), self.size(chance))))
        return {"booking": {"code": code, "segments": [
            {"flight": f"{chance.choice(('LX', 'OS', 'SK'))}{chance.randrange(100, 999)}",
             "from": {"city": start, "terminal": chance.choice("12")}, "to": {"city": end, "terminal": "1"},
             "departs": f"{day_near(chance, 5 + number, 6 + number)}T0{chance.randrange(6, 10)}:40:00Z",
             "arrives": f"{day_near(chance, 5 + number, 6 + number)}T1{chance.randrange(0, 9)}:05:00Z"}
            for number, (start, end) in enumerate(pairwise(stops))],
            "passengers": [{"name": person, "contact": {"phone": f"+43 660 {chance.randrange(10**5, 10**6)}"}}
                           for person in self.some(chance, PEOPLE)]}}  # fmt: skip

    def get_flight_status(self, flight: str) -> str:
        chance = self.pick("status", flight)
        gate = f"{chance.choice('ABCD')}{chance.randrange(1, 40)}"
        return f"{flight} is on time. Boarding at gate {gate}, terminal {chance.randrange(1, 4)}."

    def list_issues(self, repo: str, state: str, page: int = 1) -> list[dict[str, Any]]:
        chance = self.pick("issues", repo)
        found: list[dict[str, Any]] = [
            {
                "number": number,
                "title": f"{chance.choice(SERVICES)} is slow",
                "body": f"Since the last {chance.choice(SUBJECTS)} the {chance.choice(PRODUCTS[:3])} fails.",
                "user": {"login": chance.choice(PEOPLE).split()[0].lower()},
                "labels": [],
                "updated_at": f"{day_near(chance, -120, 0)}T10:00:00Z",
            }
            for number in sorted(chance.sample(range(10, 900), self.size(chance)), reverse=True)
        ]
        return found[4 * page - 4 : 4 * page]

    def get_file_contents(self, repo: str, path: str, ref: str) -> dict[str, Any]:
        chance = self.pick("contents", repo, path)
        version = f"1.{chance.randrange(20)}.{chance.randrange(9)}"
        text = f'[project]\nname = "{repo.split("/")[1]}"\nversion = "{version}"\n'
        return {
            "type": "file",
            "path": path,
            "sha": f"{chance.randrange(16**9, 16**10):x}",
            "content": text + "\n",
        }

    def get_repository(self, repo: str) -> dict[str, Any]:
        chance = self.pick("repository", repo)
        return {"full_name": repo, "default_branch": chance.choice(("main", "master", "trunk")),
         "private": False,
                "head": {"sha": f"{chance.randrange(16**9, 16**10):x}"}}  # fmt: skip

    def list_pull_requests(self, repo: str, state: str) -> list[dict[str, Any]]:
        chance = self.pick("pulls", repo)
        return [{"number": number, "title": f"{chance.choice(SUBJECTS)} page", "state": state, "draft": False,
                 "user": {"login": chance.choice(("jonas", "jonas", "elif"))},
                 "head": {"sha": f"{chance.randrange(16**7, 16**8):x}", "ref": f"topic-{number}"}}
                for number in chance.sample(range(10, 900), self.size(chance))]  # fmt: skip

    def get_checks(self, repo: str, sha: str) -> dict[str, Any]:
        chance = self.pick("checks", repo, sha)
        return {"sha": sha, "state": chance.choice(("success", "success", "failure")), "total_count": 4}

    def list_commits(self, repo: str, since: str) -> dict[str, Any]:
        chance = self.pick("commits", repo, since)
        return {"commits": [
            {"sha": f"{chance.randrange(16**7, 16**8):x}", "author": {"name": chance.choice(PEOPLE)},
             "message": f"{chance.choice(('Fix', 'Add', 'Drop'))} the {chance.choice(SUBJECTS)} of {service}"}
            for service in self.some(chance, SERVICES)]}  # fmt: skip

    def list_devices(self, kind: str) -> list[dict[str, Any]]:
        chance = self.pick("devices", kind)
        return [{"entity_id": f"{kind}.{room}_{chance.randrange(1, 4)}", "state": chance.choice(("on", "on",
         "off")),
                 "attributes": {"friendly_name": f"{room.title()} {kind}", "room": room}}
                for room in self.some(chance, ROOMS)]  # fmt: skip

    def get_presence(self, room: str) -> dict[str, Any]:
        chance = self.pick("presence", room)
        return {"room": room, "occupied": chance.random() < 0.4, "since": "08:10"}

    def get_recipe(self, name: str) -> dict[str, Any]:
        chance = self.pick("recipe", name)
        return {"recipe": {"title": name, "serves": 4, "ingredients": [
            {"name": food, "amount": chance.randrange(1, 9) * 50, "unit": "g"}
            for food in self.some(chance, FOODS)]}}  # fmt: skip

    def list_pantry(self) -> dict[str, Any]:
        return {"items": [{"name": food, "left": "some"} for food in self.pick("pantry").sample(FOODS, 4)]}
