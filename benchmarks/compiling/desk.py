"""The desk of somebody who sells: mail, calendar, customers, tasks, an account and orders from a shop.

Its tools are declared as those of public sets of tasks are: with a section about each argument, times as one
text, fields that are chosen by name, lists of recipients. The goals were written before any prompt was looked
at; those with an odd number are looked at, those with an even one only counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, even_numbered, odd_numbered, tasks_of
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "desk.jsonl"
_TODAY = "2024-05-15"


class Email(TypedDict):
    email_id: str
    sender: str
    subject: str
    body: str
    date: str
    read: bool


class CalendarEvent(TypedDict):
    event_id: str
    title: str
    start_time: str
    end_time: str
    participants: list[str]
    location: str | None


class Customer(TypedDict):
    customer_id: str
    name: str
    email: str
    status: Literal["lead", "qualified", "won", "lost"]
    assigned_to_email: str
    product_interest: str
    last_contact_date: str


class Job(TypedDict):
    task_id: str
    name: str
    assigned_to_email: str
    list_name: Literal["Backlog", "In Progress", "Completed"]
    due_date: str


class Transaction(TypedDict):
    id: int
    date: str
    recipient: str
    amount: float
    subject: str
    recurring: bool


def _email(number: int, sender: str, subject: str, body: str, date: str) -> dict[str, Any]:
    return {
        "email_id": str(number), "sender": sender, "subject": subject, "body": body, "date": date,
        "read": number < 45,
    }  # fmt: skip


def _event(number: int, title: str, start: str, end: str, who: list[str], where: str | None) -> Any:
    return {
        "event_id": f"EV{number}", "title": title, "start_time": start, "end_time": end,
        "participants": who, "location": where,
    }  # fmt: skip


def _customer(number: int, name: str, status: str, owner: str, interest: str, last: str) -> dict[str, Any]:
    email = f"office@{name.partition(' ')[0].casefold()}.example"
    return {
        "customer_id": f"{number:08}", "name": name, "email": email, "status": status,
        "assigned_to_email": f"{owner}@corp.example", "product_interest": interest, "last_contact_date": last,
    }  # fmt: skip


def _job(number: int, name: str, owner: str, where: str, due: str) -> dict[str, Any]:
    return {
        "task_id": f"{number:08}", "name": name, "assigned_to_email": f"{owner}@corp.example",
        "list_name": where, "due_date": due,
    }  # fmt: skip


def _paid(number: int, date: str, recipient: str, amount: float, subject: str, again: bool) -> dict[str, Any]:
    return {
        "id": number, "date": date, "recipient": recipient, "amount": amount, "subject": subject,
        "recurring": again,
    }  # fmt: skip


def _item(number: int, name: str, price: float) -> dict[str, Any]:
    return {"item_id": str(number), "name": name, "price": price}


def _time(said: str) -> str:
    """A time as it is kept; raises ValueError for what is not YYYY-MM-DD HH:MM."""
    found = re.fullmatch(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(:00)?Z?", said.strip())
    if not found:
        raise ValueError(f"{said!r} is not a time YYYY-MM-DD HH:MM")
    return f"{found[1]} {found[2]}"


def _date(said: str) -> str:
    """A date as it is kept; raises ValueError for what is not YYYY-MM-DD."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", said.strip()):
        raise ValueError(f"{said!r} is not a date YYYY-MM-DD")
    return said.strip()


def _addresses(said: list[str]) -> list[str]:
    """Addresses in order, each once; raises ValueError for what is none."""
    bad = [one for one in said if not re.fullmatch(r"\S+@\S+\.\S+", one)]
    if bad or not said:
        raise ValueError(f"Invalid email address: {', '.join(bad)}")
    return sorted({one.casefold() for one in said})


class Desk(Place):
    """Everything that an assistant of one person works with."""

    @staticmethod
    def start() -> dict[str, Any]:
        lena, team = (
            "lena.fischer@brightline.example",
            ["raj.patel@corp.example", "nadia.haddad@corp.example"],
        )
        return {
            "emails": [
                _email(41, "win@prizes.example", "You have won", "Click here.", "2024-05-02"),
                _email(42, "newsletter@deals.example", "Deals of May", "All is cheap.", "2024-05-03"),
                _email(43, lena, "Contract draft", "Please find the draft of the contract.", "2024-05-06"),
                _email(44, "billing@brightline.example", "Invoice 2024-117", "1,840 is due.", "2024-05-07"),
                _email(45, "newsletter@deals.example", "Deals of the week", "Still cheap.", "2024-05-10"),
                _email(46, "raj.patel@corp.example", "Lunch?", "Are you free at noon?", "2024-05-13"),
                _email(47, lena, "Site visit", "We will come on the 28th of May.", "2024-05-14"),
            ],
            "sent": [],
            "invited": [],
            "events": [
                _event(1, "Team Sync", "2024-05-22 10:00", "2024-05-22 10:30", team, "Room Atlas"),
                _event(2, "Dentist", "2024-05-17 08:30", "2024-05-17 09:00", [], None),
                _event(3, "Budget Review", "2024-05-21 13:00", "2024-05-21 15:00",
                       ["akira.sato@corp.example", "carol.reyes@corp.example"], "Room Nile"),
                _event(4, "Call with Hargrove", "2024-05-17 11:00", "2024-05-17 11:30",
                       ["office@hargrove.example"], None),
            ],
            "customers": [
                _customer(11, "Delta Logistics", "lead", "raj.patel", "Hardware", "2024-04-22"),
                _customer(12, "Hargrove Ltd", "lead", "akira.sato", "Software", "2024-05-08"),
                _customer(13, "Moss and Sons", "qualified", "akira.sato", "Software", "2024-03-30"),
                _customer(14, "Pine Bakery", "lead", "akira.sato", "Software", "2024-05-13"),
                _customer(15, "Quarry One", "lead", "akira.sato", "Services", "2024-04-02"),
                _customer(16, "Rook Media", "lead", "raj.patel", "Software", "2024-05-01"),
                _customer(17, "Sable Optics", "won", "raj.patel", "Consulting", "2024-02-11"),
            ],
            "tasks": [
                _job(31, "Write offer for Moss", "nadia.haddad", "In Progress", "2024-05-20"),
                _job(32, "Clean up price list", "nadia.haddad", "Backlog", "2024-05-10"),
                _job(33, "Translate brochure", "nadia.haddad", "Backlog", "2024-06-02"),
                _job(34, "Order business cards", "raj.patel", "Backlog", "2024-05-08"),
                _job(35, "Renew certificate", "akira.sato", "Completed", "2024-05-01"),
            ],
            "colleagues": {
                "Raj Patel": "raj.patel@corp.example", "Akira Sato": "akira.sato@corp.example",
                "Nadia Haddad": "nadia.haddad@corp.example", "Carol Reyes": "carol.reyes@corp.example",
                "Tom Okafor": "tom.okafor@corp.example",
            },
            "balance": 1810.0,
            "transactions": [
                _paid(1, "2024-03-01", "SE3550000000054910000003", 12.5, "Spotify premium", True),
                _paid(2, "2024-04-01", "SE3550000000054910000003", 12.5, "Spotify premium", True),
                _paid(3, "2024-04-03", "US122000000121212121212", 49.0, "Gym", True),
                _paid(4, "2024-04-20", "GB29NWBK60161331926819", 1200.0, "Rent April", False),
                _paid(5, "2024-05-01", "SE3550000000054910000003", 14.0, "Spotify premium", True),
            ],
            "transfers": [],
            "users": {
                "mia_li_3668": {
                    "user_id": "mia_li_3668", "name": "Mia Li", "email": "mia.li@post.example",
                    "orders": ["#W2310", "#W4417", "#W5020"],
                    "payment_methods": ["credit_card_7713", "gift_card_2049"],
                },
                "omar_diaz_5512": {
                    "user_id": "omar_diaz_5512", "name": "Omar Diaz", "email": "omar.diaz@post.example",
                    "orders": ["#W6001"], "payment_methods": ["paypal_9901"],
                },
            },
            "orders": {
                "#W2310": {
                    "order_id": "#W2310", "user_id": "mia_li_3668", "status": "delivered",
                    "items": [_item(1151, "Desk Lamp", 39.9), _item(1267, "Bookshelf", 120.0)],
                    "payment_method_id": "credit_card_7713", "address": "4 Oak Road, Boise",
                },
                "#W4417": {
                    "order_id": "#W4417", "user_id": "mia_li_3668", "status": "pending",
                    "items": [_item(1402, "Air Purifier", 210.0)],
                    "payment_method_id": "gift_card_2049", "address": "4 Oak Road, Boise",
                },
                "#W5020": {
                    "order_id": "#W5020", "user_id": "mia_li_3668", "status": "delivered",
                    "items": [_item(1533, "Water Bottle", 18.0)],
                    "payment_method_id": "credit_card_7713", "address": "4 Oak Road, Boise",
                },
                "#W6001": {
                    "order_id": "#W6001", "user_id": "omar_diaz_5512", "status": "pending",
                    "items": [_item(1601, "Tent", 160.0), _item(1602, "Camping Stove", 55.0)],
                    "payment_method_id": "paypal_9901", "address": "9 Hill Street, Reno",
                },
            },
            "returns": [],
        }  # fmt: skip

    def get_current_day(self) -> str:
        """Returns the current day in ISO format, e.g. '2022-01-01'."""
        return _TODAY

    def find_email_address(self, name: str) -> str:
        """Finds the email address of a colleague in the company directory.

        Args:
            name: First name or full name of the colleague.
        """
        words = set(name.casefold().split())
        found = [
            mail for who, mail in self.state["colleagues"].items() if words <= set(who.casefold().split())
        ]
        if len(found) != 1 or not words:
            raise LookupError(f"No colleague named {name!r}")
        return found[0]

    def search_emails(self, query: str = "", sender: str | None = None) -> list[Email]:
        """Searches the inbox for emails that contain the query in their subject or body.

        Args:
            query: The text to look for. An empty text finds all emails.
            sender: Only emails from this address (optional).
        """
        return [
            one for one in self.state["emails"]
            if query.casefold() in f"{one['subject']} {one['body']}".casefold()
            and (sender or "").casefold() in one["sender"]
        ]  # fmt: skip

    def get_email(self, email_id: str) -> Email:
        """Returns one email of the inbox.

        Args:
            email_id: The ID of the email.
        """
        return self.one("emails", "email_id", email_id)  # type: ignore[return-value]

    def send_email(self, recipients: list[str], subject: str, body: str) -> dict[str, Any]:
        """Sends an email with the given subject and body to the recipients.

        Args:
            recipients: The email addresses of the recipients.
            subject: The subject of the email.
            body: The text of the email.
        """
        self.state["sent"] = sorted({*self.state["sent"], *(f"to {one}" for one in _addresses(recipients))})
        return {"sent": True, "subject": subject, "length": len(body)}

    def reply_to_email(self, email_id: str, body: str) -> dict[str, Any]:
        """Replies to an email; the answer goes to its sender.

        Args:
            email_id: The ID of the email that is answered.
            body: The text of the reply.
        """
        self.state["sent"] = sorted({*self.state["sent"], f"reply {self.get_email(email_id)['email_id']}"})
        return {"sent": True, "length": len(body)}

    def forward_email(self, email_id: str, recipient: str) -> dict[str, Any]:
        """Forwards an email to another address.

        Args:
            email_id: The ID of the email.
            recipient: The email address that it is forwarded to.
        """
        told = f"forward {self.get_email(email_id)['email_id']} {_addresses([recipient])[0]}"
        self.state["sent"] = sorted({*self.state["sent"], told})
        return {"sent": True}

    def delete_email(self, email_id: str) -> str:
        """Deletes an email from the inbox.

        Args:
            email_id: The ID of the email.
        """
        self.state["emails"].remove(self.get_email(email_id))
        return "Email deleted successfully."

    def search_calendar_events(self, query: str, date: str | None = None) -> list[CalendarEvent]:
        """Searches the calendar for events whose title contains the query.

        Args:
            query: The text to look for in the titles.
            date: Only events of this day in the format YYYY-MM-DD (optional).
        """
        return [
            one for one in self.state["events"]
            if query.casefold() in one["title"].casefold() and one["start_time"].startswith(date or "")
        ]  # fmt: skip

    def get_day_calendar_events(self, day: str) -> list[CalendarEvent]:
        """Returns the events of a day; the list is empty if there are none.

        Args:
            day: The day in the format YYYY-MM-DD.
        """
        return [one for one in self.state["events"] if one["start_time"].startswith(_date(day))]

    def create_calendar_event(
        self,
        title: str,
        start_time: str,
        end_time: str,
        participants: list[str] | None = None,
        location: str | None = None,
    ) -> CalendarEvent:
        """Creates a new event in the calendar and invites its participants.

        Args:
            title: The title of the event.
            start_time: The start of the event in the format YYYY-MM-DD HH:MM.
            end_time: The end of the event in the format YYYY-MM-DD HH:MM.
            participants: The email addresses of the participants (optional).
            location: Where it takes place (optional).
        """
        who = _addresses(participants) if participants else []
        number = len(self.state["events"]) + 1
        self.state["events"].append(_event(number, title, _time(start_time), _time(end_time), who, location))
        return self.state["events"][-1]

    def cancel_calendar_event(self, event_id: str) -> str:
        """Cancels an event; its participants are notified.

        Args:
            event_id: The ID of the event.
        """
        self.state["events"].remove(self.one("events", "event_id", event_id))
        return "Event cancelled successfully."

    def reschedule_calendar_event(
        self, event_id: str, new_start_time: str, new_end_time: str | None = None
    ) -> CalendarEvent:
        """Moves an event to another time.

        Args:
            event_id: The ID of the event.
            new_start_time: The new start in the format YYYY-MM-DD HH:MM.
            new_end_time: The new end in the same format. Without it the event lasts as long as before.
        """
        event: Any = self.one("events", "event_id", event_id)
        event["start_time"] = _time(new_start_time)
        event["end_time"] = "as long" if new_end_time is None else _time(new_end_time)
        return event

    def add_calendar_event_participants(self, event_id: str, participants: list[str]) -> CalendarEvent:
        """Invites further people to an event.

        Args:
            event_id: The ID of the event.
            participants: The email addresses of the people to invite.
        """
        event: Any = self.one("events", "event_id", event_id)
        event["participants"] = sorted({*event["participants"], *_addresses(participants)})
        self.state["invited"] = sorted({*self.state["invited"], *_addresses(participants)})
        return event

    def search_customers(
        self,
        name: str | None = None,
        status: Literal["lead", "qualified", "won", "lost"] | None = None,
        assigned_to_email: str | None = None,
        product_interest: Literal["Hardware", "Software", "Services", "Consulting"] | None = None,
    ) -> list[Customer]:
        """Searches the customer records; each argument that is given narrows the result.

        Args:
            name: The name of the customer or a part of it.
            status: The status of the customer.
            assigned_to_email: The email address of the colleague who looks after the customer.
            product_interest: The product that the customer is interested in.
        """
        wanted = {
            "status": status,
            "assigned_to_email": assigned_to_email,
            "product_interest": product_interest,
        }
        return [
            one for one in self.state["customers"]
            if (name or "").casefold() in one["name"].casefold()
            and all(value in (None, one[field]) for field, value in wanted.items())
        ]  # fmt: skip

    def update_customer(
        self,
        customer_id: str,
        field: Literal[
            "name", "email", "status", "assigned_to_email", "product_interest", "last_contact_date"
        ],
        new_value: str,
    ) -> str:
        """Updates one field of a customer record.

        Args:
            customer_id: The ID of the customer.
            field: The field to change.
            new_value: The new value of the field.
        """
        self.one("customers", "customer_id", customer_id)[field] = new_value
        return "Customer updated successfully."

    def search_tasks(
        self,
        name: str | None = None,
        assigned_to_email: str | None = None,
        list_name: Literal["Backlog", "In Progress", "Completed"] | None = None,
    ) -> list[Job]:
        """Searches the tasks of the team; each argument that is given narrows the result.

        Args:
            name: The name of the task or a part of it.
            assigned_to_email: The email address of the colleague who does it.
            list_name: The list that the task is in.
        """
        wanted = {"assigned_to_email": assigned_to_email, "list_name": list_name}
        return [
            one for one in self.state["tasks"]
            if (name or "").casefold() in one["name"].casefold()
            and all(value in (None, one[field]) for field, value in wanted.items())
        ]  # fmt: skip

    def create_task(
        self,
        name: str,
        assigned_to_email: str,
        due_date: str,
        list_name: Literal["Backlog", "In Progress", "Completed"] = "Backlog",
    ) -> str:
        """Creates a task and returns its ID.

        Args:
            name: The name of the task.
            assigned_to_email: The email address of the colleague who does it.
            due_date: The day it is due in the format YYYY-MM-DD.
            list_name: The list that it is put in.
        """
        owner = _addresses([assigned_to_email])[0].partition("@")[0]
        if f"{owner}@corp.example" not in self.state["colleagues"].values():
            raise LookupError(f"{assigned_to_email} is not a colleague")
        new = _job(31 + len(self.state["tasks"]), name, owner, list_name, _date(due_date))
        self.state["tasks"].append(new)
        return new["task_id"]

    def update_task(
        self,
        task_id: str,
        field: Literal["name", "assigned_to_email", "list_name", "due_date"],
        new_value: str,
    ) -> str:
        """Updates one field of a task.

        Args:
            task_id: The ID of the task.
            field: The field to change.
            new_value: The new value of the field.
        """
        self.one("tasks", "task_id", task_id)[field] = new_value
        return "Task updated successfully."

    def get_balance(self) -> float:
        """Returns the balance of the account."""
        return self.state["balance"]

    def list_transactions(self, since: str | None = None) -> list[Transaction]:
        """Returns what was paid from the account, the oldest transaction first.

        Args:
            since: Only transactions from this day on, in the format YYYY-MM-DD (optional).
        """
        return [one for one in self.state["transactions"] if one["date"] >= (since or "")]

    def send_money(self, recipient: str, amount: float, subject: str) -> str:
        """Sends money from the account.

        Args:
            recipient: IBAN of the recipient.
            amount: Amount of the transaction.
            subject: Subject of the transaction.
        """
        self.state["transfers"].append([recipient.replace(" ", ""), float(amount), bool(subject)])
        return f"Transaction to {recipient} for {amount} sent."

    def find_user_id_by_email(self, email: str) -> str:
        """Finds the user id of a customer of the shop by email. Fails if there is none.

        Args:
            email: The email of the user, such as 'something@example.com'.
        """
        found = [one["user_id"] for one in self.state["users"].values() if one["email"] == email.casefold()]
        if not found:
            raise LookupError("user not found")
        return found[0]

    def get_user_details(self, user_id: str) -> dict[str, Any]:
        """Gets the details of a user of the shop.

        Returns user_id, name, email, orders (a list of order ids) and payment_methods (a list of their ids).

        Args:
            user_id: The user id, such as 'sara_doe_496'.
        """
        return self.state["users"][user_id]

    def get_order_details(self, order_id: str) -> dict[str, Any]:
        """Gets the status and details of an order.

        Returns order_id, user_id, status ('pending', 'shipped', 'delivered' or 'cancelled'), items (each with
        item_id, name and price), payment_method_id and address.

        Args:
            order_id: The order id, such as '#W0000000'. Be careful there is a '#' symbol at the beginning.
        """
        return self.state["orders"][order_id]

    def cancel_order(
        self, order_id: str, reason: Literal["no longer needed", "ordered by mistake"]
    ) -> dict[str, Any]:
        """Cancels an order that is not delivered. One that is shipped already is called back, which costs 25.

        Args:
            order_id: The order id, such as '#W0000000'. Be careful there is a '#' symbol at the beginning.
            reason: The reason for cancellation: either 'no longer needed' or 'ordered by mistake'.
        """
        order = self.state["orders"][order_id]
        if order["status"] not in ("pending", "shipped"):
            raise RuntimeError("A delivered order cannot be cancelled")
        order["status"] = "cancelled"
        return order

    def modify_pending_order_address(self, order_id: str, address: str) -> dict[str, Any]:
        """Changes the address that a pending order is shipped to.

        Args:
            order_id: The order id, such as '#W0000000'. Be careful there is a '#' symbol at the beginning.
            address: The new address.
        """
        order = self.state["orders"][order_id]
        if order["status"] != "pending":
            raise RuntimeError("Non-pending order cannot be modified")
        order["address"] = address
        return order

    def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Returns some items of a delivered order for a refund.

        Args:
            order_id: The order id, such as '#W0000000'. Be careful there is a '#' symbol at the beginning.
            item_ids: The item ids to be returned, each such as '1008292230'.
            payment_method_id: The payment method that gets the refund, such as 'gift_card_0000000'.
        """
        order = self.state["orders"][order_id]
        known = {one["item_id"] for one in order["items"]}
        if order["status"] != "delivered" or not item_ids or not set(item_ids) <= known:
            raise RuntimeError("Non-delivered order or unknown items cannot be returned")
        if payment_method_id not in self.state["users"][order["user_id"]]["payment_methods"]:
            raise RuntimeError("Payment method not found")
        self.state["returns"].append([order_id, sorted(item_ids), payment_method_id])
        return order


def desk_tasks() -> Iterator[Task]:
    """The goals with an odd number, with which prompts and checks are mended."""
    yield from odd_numbered(_tasks())


def desk_unseen_tasks() -> Iterator[Task]:
    """The goals with an even number, whose answers nobody reads before the last measurement."""
    yield from even_numbered(_tasks())


def _tasks() -> Iterator[Task]:
    yield from tasks_of(GOALS, {"desk": Desk})
