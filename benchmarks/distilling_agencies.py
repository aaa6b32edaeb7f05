"""Fifteen jobs of a clinic, an accountant, a library, a laboratory and others for `distilling.py`.

Written before their author had read the distiller, and first run when all mending for other sets was done.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

from benchmarks.distilling_world import Agent, Call, World

from callsheet.ports.calls import ToolFailed

PEOPLE = ("Ines Duarte", "Jakob Stern", "Kirsten Moe", "Luca Ferri", "Mina Sato", "Noor Aziz", "Oleg Tarasov")
DOCTORS = ("Brandt", "Silva", "Novak", "Eriksen")
BOOKS = ("Dune", "Emma", "Solaris", "Ulysses", "Beloved", "Middlemarch", "Persuasion", "Kindred")
SONGS = ("Harbour", "Paper Moon", "Northbound", "Velvet", "Static", "Embers", "Halcyon", "Tidal")
TODAY = date(2026, 9, 7)
FIELDS = {
    "list_appointments": ("doctor", "date"),
    "get_patient": ("patient_id",),
    "list_transactions": ("account", "month", "cursor"),
    "find_invoice": ("reference",),
    "get_team": ("name",),
    "list_groups": ("team",),
    "list_loans": ("card",),
    "list_samples": ("batch",),
    "get_measurement": ("sample_id", "kind"),
    "list_applicants": ("job", "page"),
    "get_ticket": ("number",),
    "get_purchase": ("order",),
    "search_artists": ("query",),
    "list_top_tracks": ("artist_id",),
    "search_flats": ("district",),
    "list_members": ("club", "offset"),
    "get_fees": ("club",),
    "query_table": ("sql",),
    "find_account": ("company",),
    "list_parcels": ("customer",),
    "list_drafts": ("section",),
    "list_meters": ("building",),
    "get_readings": ("meter_id", "month"),
    "list_pupils": ("class_name",),
    "get_grades": ("pupil_id", "term"),
    "list_rooms": ("day",),
    "get_current_time": (),
    "send_sms": ("phone", "text"),
    "mark_paid": ("invoice_id", "paid_on"),
    "create_account": ("name", "email"),
    "add_to_group": ("group_id", "email"),
    "send_email": ("to", "subject", "body"),
    "renew_loan": ("loan_id",),
    "flag_sample": ("sample_id", "note"),
    "move_applicant": ("applicant_id", "stage"),
    "refund": ("order", "amount"),
    "add_comment": ("ticket", "text"),
    "create_playlist": ("title", "track_ids"),
    "create_charge": ("member_id", "amount", "note"),
    "update_row": ("table", "row_id", "email"),
    "reroute_parcel": ("tracking", "depot"),
    "publish_draft": ("draft_id",),
    "post_message": ("channel", "text"),
    "create_letter": ("to", "subject"),
    "book_room": ("room_id", "day", "title"),
}


def _day(chance: random.Random, first: int, last: int) -> str:
    return (TODAY + timedelta(days=chance.randrange(first, last))).isoformat()


def _mail(person: str) -> str:
    return f"{person.split(maxsplit=1)[0].lower()}@mail.example"


class Agencies(World):
    """Patients, payments, loans, samples, songs, flats and parcels made of a seed."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {
            "success": True,
            "record": {"uid": f"R{700 + 3 * len(self.done) + self.seed % 11}", "version": 1},
        }

    def list_appointments(self, doctor: str, date: str) -> dict[str, Any]:
        chance = self.pick("appointments", doctor, date)
        return {"doctor": doctor, "date": date, "appointments": [
            {"slot": f"{hour:02}:20", "patient": {"patient_id": chance.randrange(10**4, 10**5)},
             "status": chance.choice(("confirmed", "pending", "pending"))}
            for hour in range(8, 8 + self.size(chance))]}  # fmt: skip

    def get_patient(self, patient_id: int) -> dict[str, Any]:
        chance = self.pick("patient", patient_id)
        return {"id": patient_id, "name": {"first": chance.choice(PEOPLE).split()[0],
         "last": chance.choice(DOCTORS)},
                "mobile": f"+47 4{chance.randrange(10**6, 10**7)}", "insured": True}  # fmt: skip

    def list_transactions(self, account: str, month: str, cursor: str = "") -> dict[str, Any]:
        chance = self.pick("transactions", account, month)
        found = [
            {"id": f"tx_{chance.randrange(10**6, 10**7)}", "booked": f"{month}-{day:02}",
             "amount": {"value": chance.randrange(30, 900), "currency": "NOK"},
             "text": f"Payment of {chance.choice(PEOPLE)}, ref INV-{chance.randrange(1000, 9999)}"}
            for day in sorted(chance.sample(range(1, 29), self.size(chance)))
        ]  # fmt: skip
        start = int(cursor or 0)
        more = start + 3 < len(found)
        return {"transactions": found[start : start + 3], "next": str(start + 3) if more else None}

    def find_invoice(self, reference: str) -> dict[str, Any]:
        chance = self.pick("invoice", reference)
        return {"invoice": {"uid": chance.randrange(10**5, 10**6), "reference": reference, "state": "open"}}

    def get_team(self, name: str) -> dict[str, Any]:
        chance = self.pick("team", name)
        lead = chance.choice(PEOPLE)
        return {"team": name, "lead": {"name": lead, "mail": _mail(lead)}, "floor": chance.randrange(1, 9)}

    def list_groups(self, team: str) -> list[dict[str, Any]]:
        chance = self.pick("groups", team)
        return [{"group_id": f"g{chance.randrange(100, 999)}", "kind": kind, "visibility": "private"}
                for kind in self.some(chance, ("chat", "mail", "drive", "code", "wiki", "vpn"))]  # fmt: skip

    def list_loans(self, card: str) -> dict[str, Any]:
        chance = self.pick("loans", card)
        return {"card": {"number": card, "blocked": False}, "loans": [
            {"loan_id": chance.randrange(10**5, 10**6), "title": title, "due": _day(chance, -5, 40),
             "reserved_by_others": chance.choice((0, 0, 1, 2))} for title in self.some(chance,
              BOOKS)]}  # fmt: skip

    def list_samples(self, batch: str) -> dict[str, Any]:
        chance = self.pick("samples", batch)
        return {
            "batch": batch,
            "samples": [
                {"id": f"{batch}-{letter}", "taken": _day(chance, -9, 0)}
                for letter in "ABCDEFGHI"[: self.size(chance)]
            ],
        }

    def get_measurement(self, sample_id: str, kind: str) -> dict[str, Any]:
        chance = self.pick("measurement", sample_id, kind)
        if kind != kind.lower():
            raise ToolFailed(f"unknown kind {kind}")
        return {
            "sample": sample_id,
            "kind": kind,
            "result": {"value": chance.randrange(40, 99) / 10, "unit": ""},
        }

    def list_applicants(self, job: str, page: int = 1) -> dict[str, Any]:
        chance = self.pick("applicants", job)
        found = [
            {"applicant_id": chance.randrange(1000, 9999), "name": person, "email": _mail(person),
             "scores": {"test": chance.randrange(20, 99), "letter": chance.randrange(1, 6)}}
            for person in self.some(chance, PEOPLE)
        ]  # fmt: skip
        return {
            "data": found[4 * page - 4 : 4 * page],
            "meta": {"page": page, "has_next": 4 * page < len(found)},
        }

    def get_ticket(self, number: int) -> str:
        chance = self.pick("ticket", number)
        who = chance.choice(PEOPLE)
        return (
            f"Ticket {number} from {_mail(who)}\nHello,\nmy order ORD{chance.randrange(10**4, 10**5)} came "
            f"broken. I would like my money back.\n{who}"
        )

    def get_purchase(self, order: str) -> dict[str, Any]:
        chance = self.pick("purchase", order)
        return {
            "order": order,
            "payment": {"method": "card", "total": chance.randrange(10, 300) + 0.25, "currency": "EUR"},
        }

    def search_artists(self, query: str) -> dict[str, Any]:
        chance = self.pick("artists", query)
        return {"artists": {"items": [
            {"id": f"ar{chance.randrange(10**5, 10**6)}", "name": name, "followers": chance.randrange(100,
             9000)}
            for name in (f"{query} Tribute", query, f"The {query}s")]}}  # fmt: skip

    def list_top_tracks(self, artist_id: str) -> dict[str, Any]:
        chance = self.pick("tracks", artist_id)
        plays = chance.sample(range(1000, 90000), 8)
        return {"tracks": [{"id": f"tr{chance.randrange(10**5, 10**6)}", "name": song, "plays": plays[place]}
                           for place, song in enumerate(chance.sample(SONGS, 8))]}  # fmt: skip

    def search_flats(self, district: str) -> dict[str, Any]:
        chance = self.pick("flats", district)
        return {"count": 0, "flats": [
            {"ref": f"FL{chance.randrange(100, 999)}",
             "street": f"{chance.choice(SONGS)} Street {chance.randrange(1, 90)}",
             "rent": {"cold": chance.randrange(500, 1800), "currency": "EUR"}, "features": {
                 "balcony": chance.random() < 0.6, "rooms": chance.randrange(1, 5)}}
            for _ in range(self.size(chance))]}  # fmt: skip

    def list_members(self, club: str, offset: int = 0) -> dict[str, Any]:
        chance = self.pick("members", club)
        found = [
            {"member_id": f"M{chance.randrange(100, 999)}", "name": person,
             "category": chance.choice(("adult", "youth")), "last_paid_year": chance.choice((2025, 2025,
              2026))}
            for person in self.some(chance, PEOPLE)
        ]  # fmt: skip
        return {"members": found[offset : offset + 3], "total": len(found)}

    def get_fees(self, club: str) -> dict[str, Any]:
        chance = self.pick("fees", club)
        return {"club": club, "fees": {"adult": chance.randrange(80, 160), "youth": chance.randrange(20, 70)}}

    def query_table(self, sql: str) -> dict[str, Any]:
        chance = self.pick("query", sql)
        return {"rows": [
            {"id": number, "company": person.split()[1] + " Ltd", "email": None}
            for number, person in zip(sorted(chance.sample(range(1, 999), 9)), self.some(chance, PEOPLE),
             strict=False)]}  # fmt: skip

    def find_account(self, company: str) -> dict[str, Any]:
        chance = self.pick("account", company)
        who = chance.choice(PEOPLE)
        return {"account": {"company": company, "contacts": [
            {"name": who, "email": _mail(who), "primary": True}]}, "owner": "sales"}  # fmt: skip

    def list_parcels(self, customer: str) -> dict[str, Any]:
        chance = self.pick("parcels", customer)
        return {"shipments": [
            {"tracking": f"JD{chance.randrange(10**7, 10**8)}", "events": [
                {"at": _day(chance, -9, -4), "depot": chance.choice(("Bern", "Metz")), "what": "arrived"},
                {"at": _day(chance, -3, 0), "depot": chance.choice(("Bern", "Metz", "Graz")),
                 "what": chance.choice(("held", "held", "departed"))}]}
                  for _ in range(self.size(chance))]}  # fmt: skip

    def list_drafts(self, section: str) -> list[dict[str, Any]]:
        chance = self.pick("drafts", section)
        return [{"draft_id": chance.randrange(100, 999), "headline": f"{song} in {section}",
         "slug": song.lower().replace(" ", "-"),
                 "publish_at": _day(chance, -10, 10), "author": {"name": chance.choice(PEOPLE)}}
                for song in self.some(chance, SONGS)]  # fmt: skip

    def list_meters(self, building: str) -> dict[str, Any]:
        chance = self.pick("meters", building)
        return {"building": building, "meters": [
            {"meter_id": f"E-{chance.randrange(1000, 9999)}", "floor": floor, "type": "electricity"}
            for floor in range(self.size(chance))]}  # fmt: skip

    def get_readings(self, meter_id: str, month: str) -> dict[str, Any]:
        chance = self.pick("readings", meter_id, month)
        start = chance.randrange(1000, 9000)
        return {
            "meter_id": meter_id,
            "month": month,
            "start": start,
            "end": start + chance.randrange(50, 600),
            "unit": "kWh",
        }

    def list_pupils(self, class_name: str) -> dict[str, Any]:
        chance = self.pick("pupils", class_name)
        return {"class": class_name, "pupils": [
            {"pupil_id": chance.randrange(100, 999), "name": person,
             "parents": {"email": f"parents.{_mail(person)}"}}
            for person in self.some(chance, PEOPLE)]}  # fmt: skip

    def get_grades(self, pupil_id: int, term: str) -> dict[str, Any]:
        chance = self.pick("grades", pupil_id, term)
        return {"pupil_id": pupil_id, "term": term, "average": chance.randrange(25, 60) / 10, "subjects": 9}

    def list_rooms(self, day: str) -> dict[str, Any]:
        chance = self.pick("rooms", day)
        seats = chance.sample(range(4, 60), 9)
        return {"day": day, "rooms": [
            {"room_id": f"RM{chance.randrange(10, 99)}", "seats": seats[place],
             "booked": place > 0 and chance.random() < 0.4}
            for place in range(2 + self.size(chance))]}  # fmt: skip

    def get_current_time(self) -> dict[str, Any]:
        return {"now": f"{TODAY.isoformat()}T08:00:00Z", "weekday": "Monday"}


def remind(call: Call, said: dict[str, Any]) -> None:
    found = call("list_appointments", doctor=said["doctor"], date=said["date"])["appointments"]
    pending = [one for one in found if one["status"] == "pending"]
    patients = [call("get_patient", patient_id=one["patient"]["patient_id"]) for one in pending]
    for one, patient in zip(pending, patients, strict=True):
        text = (
            f"Dear {patient['name']['first']}, please confirm your visit on {said['date']} at {one['slot']}."
        )
        call("send_sms", phone=patient["mobile"], text=text)


def match_payments(call: Call, said: dict[str, Any]) -> None:
    page = call("list_transactions", account=said["account"], month=said["month"])
    found = list(page["transactions"])
    while page["next"]:
        page = call("list_transactions", account=said["account"], month=said["month"], cursor=page["next"])
        found += page["transactions"]
    for one in found:
        invoice = call("find_invoice", reference=one["text"].split("ref ")[1])
        call("mark_paid", invoice_id=invoice["invoice"]["uid"], paid_on=one["booked"])


def onboard(call: Call, said: dict[str, Any]) -> None:
    team = call("get_team", name=said["team"])
    groups = call("list_groups", team=said["team"])
    email = f"{said['person'].lower().replace(' ', '.')}@corp.example"
    call("create_account", name=said["person"], email=email)
    for group in groups:
        call("add_to_group", group_id=group["group_id"], email=email)
    body = f"{said['person']} joins {said['team']} on {said['date']}."
    call("send_email", to=team["lead"]["mail"], subject=f"New: {said['person']}", body=body)


def renew(call: Call, said: dict[str, Any]) -> None:
    for loan in call("list_loans", card=said["card"])["loans"]:
        if loan["due"] < said["date"] and loan["reserved_by_others"] == 0:
            call("renew_loan", loan_id=loan["loan_id"])


def flag(call: Call, said: dict[str, Any]) -> None:
    samples = call("list_samples", batch=said["batch"])["samples"]
    got = [call("get_measurement", sample_id=one["id"], kind="ph") for one in samples]
    for one in got:
        if one["result"]["value"] > said["limit"]:
            call(
                "flag_sample",
                sample_id=one["sample"],
                note=f"ph {one['result']['value']} is above {said['limit']}",
            )


def select(call: Call, said: dict[str, Any]) -> None:
    page = call("list_applicants", job=said["job"], page=1)
    found = list(page["data"])
    while page["meta"]["has_next"]:
        page = call("list_applicants", job=said["job"], page=page["meta"]["page"] + 1)
        found += page["data"]
    for one in found:
        if one["scores"]["test"] >= said["points"]:
            call("move_applicant", applicant_id=one["applicant_id"], stage="interview")
        else:
            call("move_applicant", applicant_id=one["applicant_id"], stage="rejected")
            call("send_email", to=one["email"], subject=f"Your application as {said['job']}",
                 body=f"Dear {one['name']}, we have chosen others.")  # fmt: skip


def pay_back(call: Call, said: dict[str, Any]) -> None:
    text = call("get_ticket", number=said["ticket"])
    order = text.split("my order ")[1].split(" ")[0]
    total = call("get_purchase", order=order)["payment"]["total"]
    call("refund", order=order, amount=total)
    call("add_comment", ticket=said["ticket"], text=f"We have paid back {total} EUR for {order}.")


def playlist(call: Call, said: dict[str, Any]) -> None:
    found = call("search_artists", query=said["artist"])["artists"]["items"]
    artist = next(one for one in found if one["name"] == said["artist"])
    tracks = call("list_top_tracks", artist_id=artist["id"])["tracks"]
    best = sorted(tracks, key=lambda one: -one["plays"])[: said["count"]]
    call("create_playlist", title=said["title"], track_ids=[one["id"] for one in best])


def offer_flats(call: Call, said: dict[str, Any]) -> None:
    flats = call("search_flats", district=said["district"])["flats"]
    fit = [one for one in flats if one["rent"]["cold"] <= said["rent"] and one["features"]["balcony"]]
    lines = "\n".join(f"{one['ref']}: {one['street']}, {one['rent']['cold']} EUR" for one in fit)
    call("send_email", to=said["mail"], subject=f"Flats in {said['district']}", body=lines)


def charge(call: Call, said: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []
    total = 1
    while len(found) < total:
        page = call("list_members", club=said["club"], offset=len(found))
        total = page["total"]
        found += page["members"]
    fees = call("get_fees", club=said["club"])["fees"]
    for one in found:
        if one["last_paid_year"] != 2026:
            call("create_charge", member_id=one["member_id"], amount=fees[one["category"]], note="fee 2026")


def fill_emails(call: Call, said: dict[str, Any]) -> None:
    table = said["table"]
    for row in call("query_table", sql=f"SELECT id, company, email FROM {table} WHERE email IS NULL")["rows"]:
        account = call("find_account", company=row["company"])["account"]
        call("update_row", table=table, row_id=row["id"], email=account["contacts"][0]["email"])


def reroute(call: Call, said: dict[str, Any]) -> None:
    moved = 0
    for one in call("list_parcels", customer=said["customer"])["shipments"]:
        if one["events"][-1]["what"] == "held":
            call("reroute_parcel", tracking=one["tracking"], depot=said["depot"])
            moved += 1
    call(
        "post_message",
        channel=said["channel"],
        text=f"{moved} parcels of {said['customer']} go to {said['depot']}",
    )


def publish(call: Call, said: dict[str, Any]) -> None:
    today = call("get_current_time")["now"][:10]
    due = [one for one in call("list_drafts", section=said["section"]) if one["publish_at"] <= today]
    for one in due:
        call("publish_draft", draft_id=one["draft_id"])
        call(
            "post_message",
            channel=said["channel"],
            text=f"Online: {one['headline']} https://news.example/{one['slug']}",
        )


def consumption(call: Call, said: dict[str, Any]) -> None:
    meters = call("list_meters", building=said["building"])["meters"]
    got = [call("get_readings", meter_id=one["meter_id"], month=said["month"]) for one in meters]
    total = sum(one["end"] - one["start"] for one in got)
    call("send_email", to=said["mail"], subject=f"{said['building']} in {said['month']}", body=f"{total} kWh")


def warn_parents(call: Call, said: dict[str, Any]) -> None:
    pupils = call("list_pupils", class_name=said["class"])["pupils"]
    for one in pupils:
        grades = call("get_grades", pupil_id=one["pupil_id"], term=said["term"])
        if grades["average"] > said["worst"]:
            call(
                "create_letter",
                to=one["parents"]["email"],
                subject=f"{one['name']} has an average of {grades['average']}",
            )


def given(chance: random.Random) -> dict[str, Any]:
    """What the user says for one session, of which each job uses some."""
    return {
        "doctor": chance.choice(DOCTORS),
        "date": _day(chance, 1, 40),
        "account": f"NO{chance.randrange(10**5, 10**6)}",
        "month": f"2026-{chance.randrange(1, 9):02}",
        "person": chance.choice(PEOPLE),
        "team": chance.choice(("Payments", "Growth", "Support", "Legal")),
        "card": f"{chance.randrange(1000, 9999)}-{chance.randrange(10, 99)}",
        "batch": f"B{chance.randrange(100, 999)}",
        "limit": chance.randrange(50, 85) / 10,
        "job": chance.choice(("baker", "welder", "nurse", "clerk")),
        "points": chance.randrange(40, 75),
        "ticket": chance.randrange(1000, 9999),
        "artist": chance.choice(("Lantern", "Osprey", "Cobra", "Meteor")),
        "title": chance.choice(("Road trip", "Dinner", "Focus", "Rainy days")),
        "count": chance.randrange(2, 6),
        "district": chance.choice(("Altona", "Wedding", "Kalk", "Sendling")),
        "rent": chance.randrange(9, 16) * 100,
        "mail": f"{chance.choice(('ruiz', 'chen', 'adler', 'byrne'))}@client.example",
        "club": chance.choice(("rowing", "chess", "judo", "choir")),
        "table": chance.choice(("leads", "partners", "vendors", "donors")),
        "customer": chance.choice(("Contoso", "Fabrikam", "Northwind", "Tailspin")),
        "depot": chance.choice(("Linz", "Ulm", "Brno", "Nancy")),
        "channel": f"#{chance.choice(('news', 'floor', 'desk', 'dispatch'))}",
        "section": chance.choice(("sports", "culture", "science", "city")),
        "building": chance.choice(("Tower A", "Mill", "Annex", "Depot 4")),
        "class": f"{chance.randrange(5, 11)}{chance.choice('abc')}",
        "term": chance.choice(("autumn", "spring")),
        "worst": chance.randrange(35, 50) / 10,
    }


JOBS: tuple[tuple[str, Agent], ...] = (
    ("Text the patients of Dr {doctor} on {date} whose appointments are pending to confirm", remind),
    ("Mark the invoices paid that the payments of {month} on account {account} refer to", match_payments),
    ("{person} starts in team {team} on {date}: account, all groups of the team, and tell the lead", onboard),
    ("Renew the loans of card {card} that are due before {date} unless somebody reserved them", renew),
    ("Flag the samples of batch {batch} whose ph is above {limit}", flag),
    ("Invite the applicants as {job} with at least {points} test points, reject the others by mail", select),
    ("Pay back what ticket {ticket} asks for and say so in the ticket", pay_back),
    ("Make a playlist {title} of the {count} most played songs of {artist}", playlist),
    ("Send {mail} a list of the flats in {district} with a balcony for at most {rent} EUR", offer_flats),
    ("Charge the fee of 2026 to the members of the {club} club who have not paid it", charge),
    ("Fill the missing emails of the table {table} from the accounts of their companies", fill_emails),
    ("Reroute the parcels of {customer} that are held to {depot} and tell {channel} how many", reroute),
    ("Publish the drafts in {section} that are due by today and post their links to {channel}", publish),
    ("Mail {mail} what {building} used in {month} altogether", consumption),
    (
        "Write to the parents of those in class {class} whose {term} average is worse than {worst}",
        warn_parents,
    ),
)
