"""Six jobs of a housing office for `distilling.py`, done by distracted agents.

Written before its author had read the distiller, and measured before it was mended.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.distilling_world import Agent, Call, World, tried

from callsheet.ports.calls import ToolFailed

STREETS = ("Elm Street", "Mill Lane", "Harbour Road", "Station Square", "Park Row", "Bishop Hill")
FIRST = ("Anna", "Boris", "Chloe", "Derek", "Elif", "Femke", "Goran", "Hilde", "Imran", "Joana")
LAST = ("Novak", "Petit", "Okoro", "Lind", "Sato", "Marek", "Costa", "Weber", "Quinn", "Haas")
DEFECTS = ("the tap drips", "no hot water", "the window jams", "the bell is silent", "mould in the bath")
TRADES = ("plumber", "electrician", "carpenter")
MONTHS = ("2026-08", "2026-09", "2026-10", "2026-11", "2026-12")
FIELDS = {
    "list_flats": ("building",),
    "get_tenant": ("tenant_id",),
    "list_payments": ("tenant_id", "month"),
    "get_repair": ("repair_id",),
    "search_repairs": ("building",),
    "find_contractors": ("trade",),
    "read_meter": ("flat", "date"),
    "send_letter": ("to", "subject", "body"),
    "schedule_visit": ("contractor_id", "flat", "date", "note"),
    "update_repair": ("repair_id", "status"),
    "post_notice": ("building", "text"),
    "create_invoice": ("tenant_id", "amount", "reason"),
}


class Housing(World):
    """Flats, tenants, payments, repairs, contractors and meters made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"status": "ok", "reference": f"{tool[:3].upper()}{4000 + 7 * len(self.done)}"}

    def list_flats(self, building: str) -> dict[str, Any]:
        chance = self.pick("flats", building)
        flats: list[dict[str, Any]] = []
        for floor in range(1, self.size(chance) + 1):
            is_empty = chance.random() < 0.25
            flats.append(
                {
                    "flat": f"{building[0]}{floor}0{chance.randrange(1, 5)}",
                    "floor": floor,
                    "rent": chance.randrange(600, 1400),
                    "tenant_id": None if is_empty else f"t{chance.randrange(1000, 9999)}",
                }
            )
        return {"building": building, "flats": flats}

    def get_tenant(self, tenant_id: str) -> dict[str, Any]:
        chance = self.pick("tenant", tenant_id)
        first, last = chance.choice(FIRST), chance.choice(LAST)
        return {
            "tenant_id": tenant_id,
            "name": f"{first} {last}",
            "email": f"{first}.{last}{chance.randrange(1, 99)}@mail.example".lower(),
            "since": f"20{chance.randrange(10, 26)}-0{chance.randrange(1, 10)}-01",
        }

    def list_payments(self, tenant_id: str, month: str) -> list[dict[str, Any]]:
        chance = self.pick("payments", tenant_id, month)
        if chance.random() < 0.5:
            return []
        return [{"amount": chance.randrange(600, 1400), "received": f"{month}-0{chance.randrange(1, 9)}"}]

    def get_repair(self, repair_id: str) -> dict[str, Any]:
        chance = self.pick("repair", repair_id)
        return {
            "repair_id": repair_id,
            "flat": f"{chance.choice(STREETS)[0]}{chance.randrange(1, 6)}0{chance.randrange(1, 5)}",
            "description": chance.choice(DEFECTS),
            "trade": chance.choice(TRADES),
            "status": "reported",
        }

    def search_repairs(self, building: str) -> dict[str, Any]:
        chance = self.pick("repairs", building)
        found: list[dict[str, Any]] = []
        for _ in range(self.size(chance)):
            is_done = chance.random() < 0.6
            found.append(
                {
                    "repair_id": f"R-{chance.randrange(10_000, 99_999)}",
                    "flat": f"{building[0]}{chance.randrange(1, 6)}0{chance.randrange(1, 5)}",
                    "description": chance.choice(DEFECTS),
                    "status": "finished" if is_done else "open",
                    "finished_on": f"2026-11-{chance.randrange(10, 29)}" if is_done else None,
                }
            )
        return {"count": len(found), "repairs": found}

    def find_contractors(self, trade: str) -> list[dict[str, Any]]:
        if trade not in TRADES:
            raise ToolFailed(f"unknown trade {trade!r}, one of: {', '.join(TRADES)}")
        chance = self.pick("contractors", trade)
        return [
            {
                "contractor_id": f"c{chance.randrange(100, 999)}",
                "name": f"{chance.choice(LAST)} & {chance.choice(LAST)}",
                "hourly_rate": chance.randrange(35, 90),
                "certified": chance.random() < 0.6,
            }
            for _ in range(self.size(chance))
        ]

    def read_meter(self, flat: str, date: str) -> dict[str, Any]:
        days = 31 * int(date[5:7]) + int(date[8:10])
        rate = self.pick("meter", flat).randrange(2, 9)
        return {"flat": flat, "date": date, "cubic_metres": 400 + rate * days}


def remind_of_rent(call: Call, given: dict[str, Any]) -> None:
    for flat in call("list_flats", building=given["building"])["flats"]:
        if flat["tenant_id"] is None:
            continue
        if not call("list_payments", tenant_id=flat["tenant_id"], month=given["month"]):
            tenant = call("get_tenant", tenant_id=flat["tenant_id"])
            call(
                "send_letter",
                to=tenant["email"],
                subject=f"Rent for {given['month']}",
                body=f"Dear {tenant['name']}, we have not received your rent of {flat['rent']} EUR "
                f"for {given['month']} yet.",
            )


def send_somebody(call: Call, given: dict[str, Any]) -> None:
    repair = call("get_repair", repair_id=given["repair"])
    certified = [one for one in call("find_contractors", trade=repair["trade"]) if one["certified"]]
    if certified:
        best = min(certified, key=lambda one: one["hourly_rate"])
        call(
            "schedule_visit",
            contractor_id=best["contractor_id"],
            flat=repair["flat"],
            date=given["date"],
            note=repair["description"],
        )
        call("update_repair", repair_id=given["repair"], status="scheduled")


def bill_water(call: Call, given: dict[str, Any]) -> None:
    before = call("read_meter", flat=given["flat"], date=given["start"])
    after = call("read_meter", flat=given["flat"], date=given["end"])
    used = after["cubic_metres"] - before["cubic_metres"]
    call(
        "create_invoice",
        tenant_id=given["tenant"],
        amount=round(used * given["price"], 2),
        reason=f"Water from {given['start']} to {given['end']}: {used} cubic metres",
    )


def announce(call: Call, given: dict[str, Any]) -> None:
    call("post_notice", building=given["building"], text=given["text"])
    for flat in call("list_flats", building=given["building"])["flats"]:
        if flat["tenant_id"]:
            tenant = call("get_tenant", tenant_id=flat["tenant_id"])
            call(
                "send_letter",
                to=tenant["email"],
                subject=f"Notice for {given['building']}",
                body=f"Dear {tenant['name']}, {given['text']}.",
            )


def close_finished(call: Call, given: dict[str, Any]) -> None:
    tried(call, "get_repair", repair_id=given["repair"])
    for repair in call("search_repairs", building=given["building"])["repairs"]:
        if repair["status"] == "finished" and repair["finished_on"] < given["date"]:
            call("update_repair", repair_id=repair["repair_id"], status="closed")


def post_open(call: Call, given: dict[str, Any]) -> None:
    found = call("search_repairs", building=given["building"])["repairs"]
    still = [one for one in found if one["status"] == "open"]
    if still:
        lines = [f"{one['flat']}: {one['description']}" for one in still]
        text = f"Open repairs ({len(still)}):\n" + "\n".join(lines)
        call("post_notice", building=given["building"], text=text)


def given(chance: random.Random) -> dict[str, Any]:
    """What a user says of each kind of thing."""
    month = chance.randrange(2, 9)
    return {
        "building": chance.choice(STREETS),
        "month": chance.choice(MONTHS),
        "repair": f"R-{chance.randrange(10_000, 99_999)}",
        "date": f"2026-11-{chance.randrange(15, 27)}",
        "flat": f"{chance.choice(STREETS)[0]}{chance.randrange(1, 6)}0{chance.randrange(1, 5)}",
        "tenant": f"t{chance.randrange(1000, 9999)}",
        "start": f"2026-0{month}-01",
        "end": f"2026-{month + chance.randrange(1, 4):02}-01",
        "price": chance.randrange(150, 480) / 100,
        "text": f"the {chance.choice(('lift', 'heating', 'water'))} is off on {chance.choice(MONTHS)}-14",
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("remind every tenant in {building} who has not paid the rent for {month}", remind_of_rent),
    (
        "send the cheapest certified contractor for repair {repair} on {date} and mark it scheduled",
        send_somebody,
    ),
    (
        "bill tenant {tenant} for the water used in {flat} from {start} to {end} at {price} EUR per m3",
        bill_water,
    ),
    ('tell all tenants in {building}: "{text}", and put up a notice', announce),
    ("close the repairs in {building} that were finished before {date}", close_finished),
    ("put up a notice in {building} that lists the open repairs", post_open),
)
