"""Twenty jobs of operations (pipelines, devices, loans, bookings, shifts) for `distilling.py`.

Written by the developer of the distiller after all mending that the other sets led to, and measured before
any that it led to itself. Some agents spare what no word of the user spares, choose without a reason that the
record shows, or compare two fields.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

PEOPLE = ("anouk", "bruno", "carla", "david", "elena", "fabio", "gisela", "henrik")
THINGS = ("compass", "kettle", "ladder", "mirror", "hammer", "pillow", "bottle", "basket")
FIELDS = {
    "get_pipeline": ("pipeline",),
    "list_jobs": ("pipeline",),
    "get_latest_build": ("service",),
    "get_schedule": ("team",),
    "list_articles": ("warehouse",),
    "list_loans": ("reader",),
    "list_overdue": ("branch",),
    "list_grades": ("group",),
    "list_devices": ("room",),
    "list_episodes": ("show",),
    "list_requests": ("team",),
    "list_bookings": ("hotel",),
    "list_shifts": ("day",),
    "search_albums": ("name",),
    "list_tracks": ("album_id",),
    "list_parcels": ("depot",),
    "read_text": ("path",),
    "list_branches": ("repo",),
    "list_members": ("team",),
    "retry_job": ("job_id",),
    "deploy": ("service", "build", "environment"),
    "page": ("user_id", "message"),
    "order_article": ("article", "quantity"),
    "extend_loan": ("loan_id", "until"),
    "remind": ("reader", "text"),
    "write_text": ("path", "text"),
    "set_power": ("device_id", "on"),
    "set_temperature": ("device_id", "degrees"),
    "publish": ("episode_id", "at"),
    "send": ("to", "text"),
    "approve": ("request_id",),
    "cancel_booking": ("booking_id",),
    "assign_shift": ("shift_id", "person"),
    "add_track": ("playlist", "track_id"),
    "delete_branch": ("repo", "branch"),
    "create_task": ("assignee", "title"),
}


class Operations(World):
    """Jobs, builds, articles, loans, devices, episodes, bookings and shifts made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"done": True, "audit": f"{tool[:2]}-{90 + len(self.done)}"}

    def several(self, *key: str, things: tuple[str, ...] = THINGS) -> tuple[random.Random, list[str]]:
        """Some things, and the chance that belongs to them."""
        chance = self.pick(*key)
        return chance, self.some(chance, things)

    def get_pipeline(self, pipeline: str) -> dict[str, Any]:
        chance = self.pick("pipeline", pipeline)
        return {
            "pipeline": pipeline,
            "branch": f"topic-{chance.randrange(99)}",
            "minutes": chance.randrange(2, 50),
        }

    def list_jobs(self, pipeline: str) -> dict[str, Any]:
        chance, names = self.several("jobs", pipeline)
        status = ("failed", "passed", "failed", "skipped")
        return {
            "jobs": [
                {
                    "job_id": chance.randrange(10_000, 99_999),
                    "name": f"test-{name}",
                    "status": chance.choice(status),
                }
                for name in names
            ]
        }

    def get_latest_build(self, service: str) -> dict[str, Any]:
        chance = self.pick("build", service)
        return {"build": f"b{chance.randrange(1000, 9999)}", "passed": chance.random() < 0.7, "size": 120}

    def get_schedule(self, team: str) -> dict[str, Any]:
        chance = self.pick("schedule", team)
        now, then = chance.sample(PEOPLE, 2)
        return {
            "team": team,
            "current": {"user": {"id": f"u-{now}", "name": now.title()}, "until": "18:00"},
            "next": {"user": {"id": f"u-{then}", "name": then.title()}, "until": "06:00"},
        }

    def list_articles(self, warehouse: str) -> list[dict[str, Any]]:
        chance, names = self.several("articles", warehouse)
        return [
            {"article": f"a-{name}", "stock": chance.randrange(50), "minimum": chance.randrange(10, 40)}
            for name in names
        ]

    def list_loans(self, reader: str) -> list[dict[str, Any]]:
        chance, names = self.several("loans", reader)
        return [
            {
                "loan_id": f"L{chance.randrange(1000, 9999)}",
                "title": f"The {name}",
                "due": f"2026-10-{chance.randrange(10, 30)}",
            }
            for name in names
        ]

    def list_overdue(self, branch: str) -> list[dict[str, Any]]:
        chance, names = self.several("overdue", branch, things=PEOPLE)
        return [
            {"reader": name, "days": chance.randrange(1, 40), "warned": chance.random() < 0.4}
            for name in names
        ]

    def list_grades(self, group: str) -> list[dict[str, Any]]:
        chance, names = self.several("grades", group, things=PEOPLE)
        return [{"name": name.title(), "grade": chance.randrange(1, 6)} for name in names]

    def list_devices(self, room: str) -> dict[str, Any]:
        chance, names = self.several("devices", room)
        kinds = ("lamp", "lamp", "heater", "speaker")
        return {
            "devices": [
                {"device_id": f"d-{name}", "kind": chance.choice(kinds), "on": chance.random() < 0.6}
                for name in names
            ]
        }

    def list_episodes(self, show: str) -> dict[str, Any]:
        chance = self.pick("episodes", show)
        numbers = chance.sample(range(1_000, 9_000), len(THINGS))
        titles = [f"about the {thing}" for thing in chance.sample(THINGS, len(THINGS))]
        return {
            "episodes": [
                {"episode_id": f"e{number}", "title": title, "downloads": number * 3}
                for number, title in zip(numbers, titles, strict=True)
            ]
        }

    def list_requests(self, team: str) -> list[dict[str, Any]]:
        chance, names = self.several("requests", team, things=PEOPLE)
        return [
            {"request_id": f"r-{chance.randrange(999)}", "person": name, "days": chance.randrange(1, 15)}
            for name in names
        ]

    def list_bookings(self, hotel: str) -> list[dict[str, Any]]:
        if not hotel.startswith("Hotel"):
            raise ToolFailed(f"no hotel {hotel}")
        chance, names = self.several("bookings", hotel)
        return [
            {"booking_id": f"bk-{name}", "guest": chance.choice(PEOPLE[:3]), "nights": chance.randrange(1, 9)}
            for name in names
        ]

    def list_shifts(self, day: str) -> list[dict[str, Any]]:
        chance = self.pick("shifts", day)
        order = chance.sample(PEOPLE, len(PEOPLE))
        return [
            {"shift_id": f"s{chance.randrange(1000, 9999)}", "person": name, "hours": "8-16"}
            for name in order
        ]

    def search_albums(self, name: str) -> dict[str, Any]:
        chance, found = self.several("albums", name)
        return {
            "albums": [
                {"album_id": f"al-{chance.randrange(9999)}", "name": name, "label": one}
                for one in (*found, "own")
            ]
        }

    def list_tracks(self, album_id: str) -> list[dict[str, Any]]:
        chance, names = self.several("tracks", album_id)
        return [{"track_id": f"t-{chance.randrange(99_999)}", "title": f"{name} song"} for name in names]

    def list_parcels(self, depot: str) -> list[dict[str, Any]]:
        chance, names = self.several("parcels", depot)
        return [
            {
                "parcel": f"p-{name}",
                "city": chance.choice(("Ghent", "Turku")),
                "weight": chance.randrange(5, 60),
            }
            for name in names
        ]

    def read_text(self, path: str) -> str:
        chance = self.pick("text", path)
        return (
            "".join(f"{chance.choice(THINGS)} costs {chance.randrange(9)}\n" for _ in range(6))
            + "kettle, ladder and mirror\n"
        )

    def list_branches(self, repo: str) -> list[dict[str, Any]]:
        chance, names = self.several("branches", repo)
        return [
            {"name": f"feature/{name}", "merged": chance.random() < 0.6, "protected": chance.random() < 0.2}
            for name in names
        ]

    def list_members(self, team: str) -> dict[str, Any]:
        _, names = self.several("members", team, things=PEOPLE)
        return {"team": team, "members": [{"login": name, "email": f"{name}@ops.example"} for name in names]}


def retry_failed(call: Call, given: dict[str, Any]) -> None:
    call("get_pipeline", pipeline=given["pipeline"])
    for job in call("list_jobs", pipeline=given["pipeline"])["jobs"]:
        if job["status"] == "failed":
            call("retry_job", job_id=job["job_id"])


def deploy_build(call: Call, given: dict[str, Any]) -> None:
    build = call("get_latest_build", service=given["service"])
    if build["passed"]:
        call("deploy", service=given["service"], build=build["build"], environment=given["environment"])


def page_current(call: Call, given: dict[str, Any]) -> None:
    schedule = call("get_schedule", team=given["team"])
    call("page", user_id=schedule["current"]["user"]["id"], message=given["text"])


def order_low(call: Call, given: dict[str, Any]) -> None:
    for article in call("list_articles", warehouse=given["warehouse"]):
        if article["stock"] < article["minimum"]:
            call("order_article", article=article["article"], quantity=article["minimum"] - article["stock"])


def extend_early(call: Call, given: dict[str, Any]) -> None:
    for loan in call("list_loans", reader=given["person"]):
        if loan["due"] < given["day"]:
            call("extend_loan", loan_id=loan["loan_id"], until=given["other_day"])


def remind_unwarned(call: Call, given: dict[str, Any]) -> None:
    for loan in call("list_overdue", branch=given["room"]):
        if not loan["warned"]:
            call("remind", reader=loan["reader"], text=given["text"])


def write_grades(call: Call, given: dict[str, Any]) -> None:
    lines = [f"{row['name']},{row['grade']}" for row in call("list_grades", group=given["team"])]
    call("write_text", path=given["path"], text="\n".join(["name,grade", *lines]))


def lamps_off(call: Call, given: dict[str, Any]) -> None:
    for device in call("list_devices", room=given["room"])["devices"]:
        if device["kind"] == "lamp" and device["on"]:
            call("set_power", device_id=device["device_id"], on=False)


def heat(call: Call, given: dict[str, Any]) -> None:
    heaters = [one for one in call("list_devices", room=given["room"])["devices"] if one["kind"] == "heater"]
    if heaters:
        call("set_temperature", device_id=heaters[0]["device_id"], degrees=given["degrees"])


def publish_one(call: Call, given: dict[str, Any]) -> None:
    episodes = call("list_episodes", show=given["show"])["episodes"]
    episode = next(one for one in episodes if one["title"] == given["title"])
    call("publish", episode_id=episode["episode_id"], at=f"{given['day']}T{given['time']}:00Z")


def send_top(call: Call, given: dict[str, Any]) -> None:
    episodes = call("list_episodes", show=given["show"])["episodes"]
    best = sorted(episodes, key=lambda one: -one["downloads"])[:3]
    call("send", to=given["address"], text="\n".join(f"{one['title']}: {one['downloads']}" for one in best))


def approve_short(call: Call, given: dict[str, Any]) -> None:
    for request in call("list_requests", team=given["team"]):
        if request["days"] < given["count"]:
            call("approve", request_id=request["request_id"])


def cancel_of_guest(call: Call, given: dict[str, Any]) -> None:
    tried(call, "list_bookings", hotel=given["guest"])
    for booking in call("list_bookings", hotel=given["hotel"]):
        if booking["guest"] == given["guest"]:
            call("cancel_booking", booking_id=booking["booking_id"])


def swap(call: Call, given: dict[str, Any]) -> None:
    shifts = {shift["person"]: shift["shift_id"] for shift in call("list_shifts", day=given["day"])}
    call("assign_shift", shift_id=shifts[given["person"]], person=given["second"])
    call("assign_shift", shift_id=shifts[given["second"]], person=given["person"])


def add_album(call: Call, given: dict[str, Any]) -> None:
    albums = call("search_albums", name=given["album"])["albums"]
    for track in call("list_tracks", album_id=albums[0]["album_id"]):
        call("add_track", playlist=given["playlist"], track_id=track["track_id"])


def send_weight(call: Call, given: dict[str, Any]) -> None:
    parcels = [one for one in call("list_parcels", depot=given["warehouse"]) if one["city"] == given["city"]]
    call("send", to=given["address"], text=f"{sum(one['weight'] for one in parcels)} kg to {given['city']}")


def replace_word(call: Call, given: dict[str, Any]) -> None:
    text = call("read_text", path=given["path"])
    call("write_text", path=given["path"], text=text.replace(given["old"], given["new"]))


def delete_merged(call: Call, given: dict[str, Any]) -> None:
    for branch in call("list_branches", repo=given["repo"]):
        if branch["merged"] and not branch["protected"]:
            call("delete_branch", repo=given["repo"], branch=branch["name"])


def give_tasks(call: Call, given: dict[str, Any]) -> None:
    for member in call("list_members", team=given["team"])["members"]:
        call("create_task", assignee=member["login"], title=f"Read {given['path']}")


def tell_failed(call: Call, given: dict[str, Any]) -> None:
    jobs = call("list_jobs", pipeline=given["pipeline"])["jobs"]
    failed = [job["name"] for job in jobs if job["status"] == "failed"]
    call("send", to=given["address"], text=f"Failed: {', '.join(failed)}" if failed else "Nothing failed")


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    thing, other, more = chance.sample(THINGS, 3)
    person, second, third = chance.sample(PEOPLE, 3)
    day, later = chance.sample(range(14, 29), 2)
    return {
        "pipeline": f"{thing}-{chance.randrange(100, 999)}",
        "service": f"{other}-service",
        "environment": chance.choice(("staging", "canary")),
        "team": f"{more}-crew",
        "text": f"have a look at the {more} before noon",
        "warehouse": f"{thing}-depot",
        "person": person,
        "second": second,
        "day": f"2026-10-{day}",
        "other_day": f"2027-02-{later}",
        "path": f"lists/{other}-{chance.randrange(10, 99)}.txt",
        "room": f"{other}-room",
        "degrees": chance.randrange(15, 28),
        "show": f"{thing} radio",
        "title": f"about the {other}",
        "time": f"{chance.randrange(10, 20)}:15",
        "address": f"{third}@ops.example",
        "count": chance.randrange(4, 10),
        "hotel": f"Hotel {more.title()}",
        "guest": chance.choice(PEOPLE[:3]),
        "album": f"{thing} ballads",
        "playlist": f"{more}-mix",
        "city": chance.choice(("Ghent", "Turku")),
        "old": thing,
        "new": f"{second}ware",
        "repo": f"ops/{other}",
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("retry the failed jobs of {pipeline}", retry_failed),
    ("deploy the latest build of {service} to {environment}", deploy_build),
    ('page who is on call in {team}: "{text}"', page_current),
    ("order the articles in {warehouse} that are below their minimum", order_low),
    ("extend the loans of {person} that are due before {day} until {other_day}", extend_early),
    ('remind the readers with overdue loans in {room}: "{text}"', remind_unwarned),
    ("write the grades of {team} as a table to {path}", write_grades),
    ("turn off the lamps in {room} that are on", lamps_off),
    ("heat {room} to {degrees} degrees", heat),
    ("publish {title} of {show} on {day} at {time}", publish_one),
    ("send {address} the titles of the three episodes of {show} with the most downloads", send_top),
    ("approve the requests in {team} for less than {count} days", approve_short),
    ("cancel the bookings of {guest} in {hotel}", cancel_of_guest),
    ("swap the shifts of {person} and {second} on {day}", swap),
    ("add the tracks of {album} to {playlist}", add_album),
    ("tell {address} the total weight of the parcels to {city} in {warehouse}", send_weight),
    ("replace {old} by {new} in {path}", replace_word),
    ("delete the merged branches of {repo}", delete_merged),
    ("give each member of {team} the task to read {path}", give_tasks),
    ("tell {address} which jobs of {pipeline} have failed", tell_failed),
)
