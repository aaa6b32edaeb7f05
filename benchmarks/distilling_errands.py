"""Twenty-five jobs of an office, operations, shops, travel, repositories and a home for `distilling.py`.

Written before their author had read the distiller, over tools as MCP servers have them: records within
records, ids, dates, prose, pages. Their sessions are recorded with distractions (see `distilling_world`).
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

from benchmarks.distilling_world import Agent, Call, World

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


def _day(chance: random.Random, first: int, last: int) -> str:
    return (TODAY + timedelta(days=chance.randrange(first, last))).isoformat()


def _address(person: str) -> str:
    return f"{person.lower().replace(' ', '.')}@firm.example"


class Errands(World):
    """Mails, hosts, shops, flights, repositories and lamps made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        number = 40 + 7 * len(self.done) + self.seed % 13
        return {"status": "created", "data": {"id": f"{tool.split('_')[-1][:3].upper()}-{number}"}}

    def search_messages(self, query: str, page_token: str = "") -> dict[str, Any]:
        chance = self.pick("messages", query)
        found = [
            {
                "id": f"18f{chance.randrange(10**5, 10**6):x}",
                "threadId": f"t{chance.randrange(10**5, 10**6):x}",
                "from": {"name": person, "email": _address(person)},
                "snippet": f"Hi, when do we talk about the {query}? Best, {person.split()[0]}",
                "date": f"{_day(chance, -6, 0)}T{chance.randrange(8, 18):02}:12:00Z",
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
             "emails": [{"value": _address(name), "type": "work"}],
             "github": name.split()[0].lower() + str(chance.randrange(10, 99)),
             "phone": f"+44 20 {chance.randrange(1000, 9999)} {chance.randrange(1000, 9999)}"}]}  # fmt: skip

    def find_free_slots(self, email: str, date: str) -> dict[str, Any]:
        chance = self.pick("slots", email, date)
        hours = sorted(chance.sample(range(8, 18), 6))
        return {"calendar": email, "timeZone": "UTC", "free": [
            {"start": f"{date}T{hour:02}:00:00Z", "end": f"{date}T{hour:02}:30:00Z"} for hour in hours]}  # fmt: skip

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
                f"- [{chance.choice('  x')}] {person.split()[0]}: {chance.choice(('call', 'check', 'order'))} the "
                f"{chance.choice(PRODUCTS)}"
                for person in self.some(chance, PEOPLE)
            ]
            return "\n".join(
                ["# Minutes", "", "We met in the study and talked for an hour.", "", "## Actions", *lines]
            )
        return (
            f"INVOICE {path.split('-')[-1][:-4]}\nCustomer: {chance.choice(PEOPLE)}\n"
            f"Due: {_day(chance, -40, 40)}\nAmount: EUR {chance.randrange(40, 900)}.00\n"
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
        return {"schedule": f"{service}-primary", "user": {"name": person, "handle": person.split()[0].lower()},
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
            {"key_id": f"AK{chance.randrange(10**7, 10**8)}", "name": f"{service}-{person.split()[0].lower()}",
             "created_at": _day(chance, -200, -5), "last_used": _day(chance, -5, 0)}
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
        return f"Item {sku} ships from {chance.choice(PLACES)}. Arrives by {_day(chance, 1, 12)}. Shipping is free."

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
                 "value_off": values[place], "minimum": chance.choice((20, 50, 150)), "expires": _day(chance, 3, 50)}
                for place in range(1 + self.size(chance))]  # fmt: skip

    def search_flights(self, origin: str, destination: str, date: str) -> dict[str, Any]:
        chance = self.pick("flights", origin, destination, date)
        hours = chance.sample(range(5, 22), 2 + self.size(chance))
        offers = [
            {
                "id": f"off_{chance.randrange(10**5, 10**6)}",
                "total_amount": f"{chance.randrange(60, 400)}.00",
                "slices": [{"origin": origin, "destination": destination, "stops": 0 if not place else chance.randrange(2),
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
            {"hotel_id": chance.randrange(1000, 9999), "name": f"{chance.choice(('Park', 'Grand', 'City'))} {city}",
             "rate": {"per_night": rates[place], "currency": "EUR"}, "breakfast": place == 0 or chance.random() < 0.5,
             "score": chance.randrange(60, 98) / 10} for place in range(1 + self.size(chance))]}  # fmt: skip

    def get_trip(self, code: str) -> dict[str, Any]:
        chance = self.pick("trip", code)
        stops = chance.sample(PLACES, max(2, min(len(PLACES), self.size(chance))))
        return {"booking": {"code": code, "segments": [
            {"flight": f"{chance.choice(('LX', 'OS', 'SK'))}{chance.randrange(100, 999)}",
             "from": {"city": start, "terminal": chance.choice("12")}, "to": {"city": end, "terminal": "1"},
             "departs": f"{_day(chance, 5 + number, 6 + number)}T0{chance.randrange(6, 10)}:40:00Z",
             "arrives": f"{_day(chance, 5 + number, 6 + number)}T1{chance.randrange(0, 9)}:05:00Z"}
            for number, (start, end) in enumerate(zip(stops, stops[1:], strict=False))],
            "passengers": [{"name": person, "contact": {"phone": f"+43 660 {chance.randrange(10**5, 10**6)}"}}
                           for person in self.some(chance, PEOPLE)]}}  # fmt: skip

    def get_flight_status(self, flight: str) -> str:
        chance = self.pick("status", flight)
        gate = f"{chance.choice('ABCD')}{chance.randrange(1, 40)}"
        return f"{flight} is on time. Boarding at gate {gate}, terminal {chance.randrange(1, 4)}."

    def list_issues(self, repo: str, state: str, page: int = 1) -> list[dict[str, Any]]:
        chance = self.pick("issues", repo)
        found = [
            {
                "number": number,
                "title": f"{chance.choice(SERVICES)} is slow",
                "body": f"Since the last {chance.choice(SUBJECTS)} the {chance.choice(PRODUCTS[:3])} fails for me.",
                "user": {"login": chance.choice(PEOPLE).split()[0].lower()},
                "labels": [],
                "updated_at": f"{_day(chance, -120, 0)}T10:00:00Z",
            }
            for number in sorted(chance.sample(range(10, 900), self.size(chance)), reverse=True)
        ]
        return found[4 * page - 4 : 4 * page]

    def get_file_contents(self, repo: str, path: str, ref: str) -> dict[str, Any]:
        chance = self.pick("contents", repo, path)
        text = f'[project]\nname = "{repo.split("/")[1]}"\nversion = "1.{chance.randrange(20)}.{chance.randrange(9)}"\n'
        return {
            "type": "file",
            "path": path,
            "sha": f"{chance.randrange(16**9, 16**10):x}",
            "content": text + "\n",
        }

    def get_repository(self, repo: str) -> dict[str, Any]:
        chance = self.pick("repository", repo)
        return {"full_name": repo, "default_branch": chance.choice(("main", "master", "trunk")), "private": False,
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
        return [{"entity_id": f"{kind}.{room}_{chance.randrange(1, 4)}", "state": chance.choice(("on", "on", "off")),
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


def reply_all(call: Call, said: dict[str, Any]) -> None:
    page = call("search_messages", query=said["subject"])
    messages = list(page["messages"])
    while "nextPageToken" in page:
        page = call("search_messages", query=said["subject"], page_token=page["nextPageToken"])
        messages += page["messages"]
    for one in messages:
        text = f"Hi {one['from']['name'].split()[0]}, we talk about the {said['subject']} on {said['date']}."
        call("send_reply", thread_id=one["threadId"], body=text)


def meet(call: Call, said: dict[str, Any]) -> None:
    contact = call("find_contact", name=said["person"])["contacts"][0]
    theirs = call("find_free_slots", email=contact["emails"][0]["value"], date=said["date"])
    slot = theirs["free"][0]
    call("create_event", title=said["title"], start=slot["start"], end=slot["end"],
         attendees=[contact["emails"][0]["value"]])  # fmt: skip


def forward_overdue(call: Call, said: dict[str, Any]) -> None:
    today = call("get_current_time")["date"]
    files = call("list_files", folder=said["folder"])["entries"]
    texts = [call("read_file", path=one["path"]) for one in files]
    for one, text in zip(files, texts, strict=True):
        if text.split("Due: ")[1].split("\n")[0] < today:
            call("forward_file", file_id=one["id"], to=_address(said["person"]))


def actions(call: Call, said: dict[str, Any]) -> None:
    for line in call("read_file", path=said["minutes"]).split("\n"):
        if line.startswith("- [ ] "):
            who, what = line[6:].split(": ")
            call("create_task", list=said["list"], title=what, assignee=who)


def report_tickets(call: Call, said: dict[str, Any]) -> None:
    page = call("list_tickets", project=said["project"], page=1)
    tickets = list(page["issues"])
    for number in range(2, page["pages"] + 1):
        tickets += call("list_tickets", project=said["project"], page=number)["issues"]
    done = sum(one["fields"]["status"]["name"] == "Done" for one in tickets)
    text = f"{said['project']}: {done} done, {len(tickets) - done} open"
    call("post_message", channel=said["channel"], text=text)


def restart_pods(call: Call, said: dict[str, Any]) -> None:
    for pod in call("list_pods", namespace=said["namespace"])["items"]:
        if pod["status"].get("reason") == "CrashLoopBackOff":
            call("delete_pod", namespace=said["namespace"], name=pod["metadata"]["name"])


def roll_back(call: Call, said: dict[str, Any]) -> None:
    deploys = call("list_deploys", service=said["service"])["deploys"]
    call("rollback", service=said["service"], version=deploys[1]["version"])
    text = f"{said['service']} is back on {deploys[1]['version']}"
    call("post_message", channel=said["channel"], text=text)


def open_incidents(call: Call, said: dict[str, Any]) -> None:
    alerts = call("list_alerts", service=said["service"], state="active")["alerts"]
    critical = [one for one in alerts if one["labels"]["severity"] == "critical"]
    oncall = call("get_oncall", service=said["service"])
    for one in critical:
        title = f"{one['labels']['alertname']} in {said['service']}"
        made = call("create_incident", title=title, service=said["service"], severity="critical")
        call("page_person", user=oncall["user"]["handle"], incident_id=made["data"]["id"], message=title)


def grow_disks(call: Call, said: dict[str, Any]) -> None:
    hosts = call("list_hosts", cluster=said["cluster"])
    metrics = [call("get_metrics", host=one["host"]) for one in hosts]
    for one in metrics:
        if one["disk"]["used_percent"] > said["limit"]:
            call("resize_disk", host=one["host"], size_gb=one["disk"]["size_gb"] + 20)


def rotate_keys(call: Call, said: dict[str, Any]) -> None:
    today = date.fromisoformat(call("get_current_time")["date"])
    for key in call("list_keys", service=said["service"])["keys"]:
        if (today - date.fromisoformat(key["created_at"])).days > 90:
            call("create_key", service=said["service"], name=key["name"])
            call("revoke_key", key_id=key["key_id"], reason="older than 90 days")


def buy_cheapest(call: Call, said: dict[str, Any]) -> None:
    page = call("search_products", query=said["product"], offset=0)
    found = list(page["results"])
    while page["next_offset"] is not None:
        page = call("search_products", query=said["product"], offset=page["next_offset"])
        found += page["results"]
    good = [one for one in found if one["rating"]["average"] >= 4]
    if good:
        call(
            "add_to_cart",
            sku=min(good, key=lambda one: one["price"]["amount"])["sku"],
            quantity=said["count"],
        )


def buy_again(call: Call, said: dict[str, Any]) -> None:
    orders = call("list_orders", shop=said["shop"])["orders"]
    newest = max(orders, key=lambda one: one["placed"])
    for line in call("get_order", order_id=newest["order_id"])["order"]["lines"]:
        call("add_to_cart", sku=line["sku"], quantity=line["quantity"])


def send_back(call: Call, said: dict[str, Any]) -> None:
    for order in call("list_orders", shop=said["shop"])["orders"]:
        lines = call("get_order", order_id=order["order_id"])["order"]["lines"]
        line = next((one for one in lines if one["name"] == said["product"]), None)
        if line:
            call("create_return", order_id=order["order_id"], line_id=line["line_id"], reason=said["reason"])
            return


def best_voucher(call: Call, said: dict[str, Any]) -> None:
    cart = call("get_cart")
    usable = [one for one in call("list_vouchers", shop=said["shop"]) if one["minimum"] <= cart["subtotal"]]
    if usable:
        call("apply_voucher", code=max(usable, key=lambda one: one["value_off"])["code"])


def fly_early(call: Call, said: dict[str, Any]) -> None:
    found = call("search_flights", origin=said["city"], destination=said["other"], date=said["date"])
    direct = [one for one in found["data"]["offers"] if one["slices"][0]["stops"] == 0]
    first = min(direct, key=lambda one: one["slices"][0]["departing_at"])
    traveller = call("get_traveller", name=said["person"])
    call("book_flight", offer_id=first["id"], traveller_id=traveller["traveller"]["id"])


def hold_hotel(call: Call, said: dict[str, Any]) -> None:
    until = (date.fromisoformat(said["date"]) + timedelta(days=said["nights"])).isoformat()
    hotels = call("search_hotels", city=said["city"], check_in=said["date"], check_out=until)["hotels"]
    cheapest = min((one for one in hotels if one["breakfast"]), key=lambda one: one["rate"]["per_night"])
    call("hold_room", hotel_id=cheapest["hotel_id"], check_in=said["date"], check_out=until)


def note_legs(call: Call, said: dict[str, Any]) -> None:
    for leg in call("get_trip", code=said["trip"])["booking"]["segments"]:
        title = f"{leg['flight']}: {leg['from']['city']} to {leg['to']['city']}"
        call("create_event", title=title, start=leg["departs"], end=leg["arrives"], attendees=[])


def tell_gate(call: Call, said: dict[str, Any]) -> None:
    trip = call("get_trip", code=said["trip"])["booking"]
    flight = trip["segments"][0]["flight"]
    gate = call("get_flight_status", flight=flight).split("gate ")[1].split(",")[0]
    for one in trip["passengers"]:
        text = f"Dear {one['name']}, {flight} leaves from gate {gate}."
        call("send_sms", phone=one["contact"]["phone"], text=text)


def _issues(call: Call, repo: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for page in range(1, 9):
        got = call("list_issues", repo=repo, state="open", page=page)
        found += got
        if len(got) < 4:
            break
    return found


def label_issues(call: Call, said: dict[str, Any]) -> None:
    for one in _issues(call, said["repo"]):
        if said["thing"] in one["body"]:
            call("add_labels", repo=said["repo"], issue_number=one["number"], labels=[said["label"]])


def close_stale(call: Call, said: dict[str, Any]) -> None:
    for one in _issues(call, said["repo"]):
        if one["updated_at"][:10] < said["since"]:
            text = "Closed as nobody has written here for long."
            call("add_comment", repo=said["repo"], issue_number=one["number"], body=text)
            call("close_issue", repo=said["repo"], issue_number=one["number"])


def bump(call: Call, said: dict[str, Any]) -> None:
    repo, version = said["repo"], said["version"]
    about = call("get_repository", repo=repo)
    base, branch = about["default_branch"], f"bump-{version}"
    got = call("get_file_contents", repo=repo, path="pyproject.toml", ref=base)
    old = got["content"].split('version = "')[1].split('"')[0]
    call("create_branch", repo=repo, branch=branch, from_sha=about["head"]["sha"])
    call("update_file", repo=repo, path="pyproject.toml", sha=got["sha"], branch=branch,
         content=got["content"].replace(f'"{old}"', f'"{version}"'))  # fmt: skip
    call("create_pull_request", repo=repo, title=f"Version {version}", head=branch, base=base)


def ask_review(call: Call, said: dict[str, Any]) -> None:
    me = call("get_current_user")["login"]
    reviewer = call("find_contact", name=said["person"])["contacts"][0]["github"]
    for one in call("list_pull_requests", repo=said["repo"], state="open"):
        if one["user"]["login"] != me:
            continue
        if call("get_checks", repo=said["repo"], sha=one["head"]["sha"])["state"] == "success":
            call("request_reviewers", repo=said["repo"], number=one["number"], reviewers=[reviewer])


def release(call: Call, said: dict[str, Any]) -> None:
    commits = call("list_commits", repo=said["repo"], since=said["since"])["commits"]
    body = "\n".join(f"- {one['message']} ({one['author']['name']})" for one in commits)
    call("create_release", repo=said["repo"], tag_name=f"v{said['version']}", body=body)


def lights_off(call: Call, said: dict[str, Any]) -> None:
    for lamp in call("list_devices", kind=said["kind"]):
        if lamp["state"] == "on" and not call("get_presence", room=lamp["attributes"]["room"])["occupied"]:
            call("set_state", entity_id=lamp["entity_id"], state="off")


def shop_for(call: Call, said: dict[str, Any]) -> None:
    recipe = call("get_recipe", name=said["dish"])["recipe"]
    have = {one["name"] for one in call("list_pantry")["items"]}
    for one in recipe["ingredients"]:
        if one["name"] not in have:
            call("add_to_list", list=said["list"], item=f"{one['amount']} {one['unit']} {one['name']}")


def given(chance: random.Random) -> dict[str, Any]:
    """What the user says for one session, of which each job uses some."""
    person = chance.choice(PEOPLE)
    city, other = chance.sample(PLACES, 2)
    return {
        "subject": chance.choice(SUBJECTS),
        "date": _day(chance, 3, 30),
        "since": _day(chance, -80, -20),
        "person": person,
        "title": f"{chance.choice(('Talk', 'Review', 'Lunch'))} about the {chance.choice(SUBJECTS)}",
        "folder": f"{chance.choice(('finance', 'sales', 'travel'))}/{chance.choice(('april', 'may', 'june'))}",
        "minutes": f"minutes/{_day(chance, -60, -1)}.md",
        "list": chance.choice(("Follow-ups", "Errands", "Sprint", "Week")),
        "project": chance.choice(("Apollo", "Borealis", "Cobalt", "Delta")),
        "channel": f"#{chance.choice(('general', 'platform', 'status', 'ops'))}",
        "namespace": chance.choice(("prod", "staging", "shop", "billing")),
        "service": chance.choice(SERVICES),
        "cluster": chance.choice(("blue", "green", "edge", "batch")),
        "limit": chance.randrange(50, 85),
        "product": chance.choice(PRODUCTS),
        "count": chance.randrange(1, 6),
        "shop": chance.choice(("Globex", "Initech", "Hooli", "Umbra")),
        "reason": chance.choice(("wrong size", "arrived broken", "changed my mind")),
        "city": city,
        "other": other,
        "nights": chance.randrange(2, 7),
        "trip": "".join(chance.choice("BCDFGHJKLM") for _ in range(6)),
        "repo": chance.choice(REPOS),
        "thing": chance.choice(PRODUCTS[:3]),
        "label": chance.choice(("bug", "triage", "hardware", "question")),
        "version": f"2.{chance.randrange(9)}.{chance.randrange(9)}",
        "kind": chance.choice(("light", "fan", "heater")),
        "dish": chance.choice(("risotto", "shakshuka", "pancakes", "dal", "quiche")),
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("Reply to everyone who wrote about the {subject} that we talk about it on {date}", reply_all),
    ('Book half an hour with {person} on {date} in their first free slot, title "{title}"', meet),
    ("Forward the invoices in {folder} that are overdue today to {person}", forward_overdue),
    ("Put the open action items of {minutes} on the list {list}, assigned to whom they name", actions),
    ("Count the done and the open tickets of {project} and post that to {channel}", report_tickets),
    ("Delete the pods in {namespace} that are in CrashLoopBackOff so that they start again", restart_pods),
    ("Roll {service} back to the version before the live one and tell {channel}", roll_back),
    ("Open an incident for each active critical alert of {service} and page who is on call", open_incidents),
    ("Give every host of {cluster} whose disk is more than {limit} % full 20 GB more", grow_disks),
    ("Rotate the keys of {service} that are older than 90 days", rotate_keys),
    ("Put {count} of the cheapest {product} with at least 4 stars into my cart", buy_cheapest),
    ("Order everything of my latest order from {shop} again", buy_again),
    ("Send back the {product} from the latest order from {shop} that has one: {reason}", send_back),
    ("Use the voucher of {shop} that takes most off my cart", best_voucher),
    ("Book the earliest direct flight from {city} to {other} on {date} for {person}", fly_early),
    ("Hold the cheapest hotel with breakfast in {city} for {nights} nights from {date}", hold_hotel),
    ("Put the flights of trip {trip} into my calendar", note_legs),
    ("Text every passenger of trip {trip} the gate of the first flight", tell_gate),
    ("Label the open issues in {repo} that mention the {thing} with {label}", label_issues),
    ("Close the open issues of {repo} that nobody has touched since {since}, with a comment", close_stale),
    ("Set the version of {repo} in pyproject.toml to {version} and open a pull request", bump),
    ("Ask {person} to review my open pull requests in {repo} whose checks passed", ask_review),
    ("Publish release {version} of {repo} with the commits since {since} as its notes", release),
    ("Turn off each {kind} that is on in a room where nobody is", lights_off),
    ("Put what the {dish} needs and the pantry does not have on the list {list}", shop_for),
)
