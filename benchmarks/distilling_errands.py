"""Twenty-five jobs of an office, operations, shops, travel, repositories and a home for `distilling.py`.

Written before their author had read the distiller. Their sessions are recorded with distractions (see
`distilling_world`): looks that nothing follows from, repetitions, attempts that fail, calls made at once.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

from benchmarks.distilling_errands_world import (
    PEOPLE,
    PLACES,
    PRODUCTS,
    REPOS,
    SERVICES,
    SUBJECTS,
    Errands,
    address_of,
    day_near,
)
from benchmarks.distilling_world import Agent, Call

WORLD = Errands


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
            call("forward_file", file_id=one["id"], to=address_of(said["person"]))


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
        "date": day_near(chance, 3, 30),
        "since": day_near(chance, -80, -20),
        "person": person,
        "title": f"{chance.choice(('Talk', 'Review', 'Lunch'))} about the {chance.choice(SUBJECTS)}",
        "folder": "/".join(
            (chance.choice(("finance", "sales", "travel")), chance.choice(("april", "may", "june")))
        ),
        "minutes": f"minutes/{day_near(chance, -60, -1)}.md",
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
