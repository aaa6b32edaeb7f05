"""A company's desk: the tools of WorkBench, whose results are declared.

Names and purposes of the tools are those of olly-styles/WorkBench (MIT); what they do and the small tables
that they work on were written here. `published` has the goals.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, matching, plain_text


class Meeting(TypedDict):
    event_id: str
    event_name: str
    participant_email: str
    event_start: str
    duration: int


class Mail(TypedDict):
    email_id: str
    box: Literal["inbox", "outbox"]
    correspondent: str
    subject: str
    sent: str
    body: str


class Assignment(TypedDict):
    task_id: str
    task_name: str
    assigned_to_email: str
    list_name: Literal["Backlog", "In Progress", "In Review", "Completed"]
    due_date: str
    board: Literal["Back end", "Front end", "Design"]


class Customer(TypedDict):
    customer_id: str
    customer_name: str
    assigned_to_email: str
    status: Literal["Qualified", "Won", "Lost", "Lead", "Proposal"]
    product_interest: Literal["Software", "Hardware", "Services", "Consulting", "Training"]
    last_contact_date: str


_STAFF = {
    **{"nadia": "moreau", "kofi": "mensah", "olga": "petrova", "amir": "ali", "akira": "sato"},
    **{"sofia": "santos", "raj": "patel", "nia": "johnson", "fatima": "khan", "dmitri": "ivanov"},
    **{"jinsoo": "kim", "luis": "ortiz", "leila": "azizi", "lena": "schmidt"},
}


def _staff(name: str) -> str:
    return f"{name}.{_STAFF[name]}@atlas.com"


def _meeting(number: int, name: str, who: str, start: str, duration: int = 30) -> dict[str, Any]:
    return {
        "event_id": f"{number:08}",
        "event_name": name,
        "participant_email": _staff(who),
        "event_start": f"{start}:00",
        "duration": duration,
    }


def _mail(number: int, who: str, subject: str, sent: str, body: str, box: str = "inbox") -> dict[str, Any]:
    return {
        "email_id": f"{number:08}",
        "box": box,
        "correspondent": _staff(who),
        "subject": subject,
        "sent": f"{sent}:00",
        "body": body,
    }


def _assignment(number: int, name: str, who: str, column: str, due: str, board: str) -> dict[str, Any]:
    return {
        "task_id": f"{number:08}",
        "task_name": name,
        "assigned_to_email": _staff(who),
        "list_name": column,
        "due_date": due,
        "board": board,
    }


def _customer(number: int, name: str, who: str, status: str, interest: str, last: str) -> dict[str, Any]:
    return {
        "customer_id": f"{number:08}",
        "customer_name": name,
        "assigned_to_email": _staff(who),
        "status": status,
        "product_interest": interest,
        "last_contact_date": last,
    }


class Desk(Place):
    """Calendar, mail, analytics, tasks and customers of a company on Thursday, 30 November 2023."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "events": [
                _meeting(11, "sync up", "amir", "2023-11-21 10:00", 90),
                _meeting(12, "process review", "sofia", "2023-11-28 09:00"),
                _meeting(13, "budget talk", "raj", "2023-11-29 15:00"),
                _meeting(14, "risk forum", "sofia", "2023-12-04 11:00"),
                _meeting(15, "sync up", "raj", "2023-12-05 09:30"),
                _meeting(17, "stand-up", "kofi", "2023-12-13 09:00"),
                _meeting(16, "launch plan", "nadia", "2023-12-13 14:00", 60),
                _meeting(18, "process review", "raj", "2023-12-18 16:00"),
                _meeting(19, "team lunch", "sofia", "2023-12-19 12:00", 60),
                _meeting(20, "retro", "olga", "2023-12-19 17:00"),
            ],
            "emails": [
                _mail(31, "nadia", "Update on Launch", "2023-11-20 08:00", "The launch is on track."),
                _mail(32, "sofia", "Lunch", "2023-11-22 12:10", "Noon on the 19th?"),
                _mail(33, "olga", "Update on feedback discussion", "2023-11-23 09:00", "First notes."),
                _mail(34, "nadia", "Budget", "2023-11-27 17:30", "Please look at the numbers."),
                _mail(35, "olga", "Update on feedback discussion", "2023-11-28 10:15", "Final notes."),
                _mail(36, "sofia", "Risk forum", "2023-11-29 09:45", "I moved it to Monday."),
                _mail(37, "nadia", "Re: Budget", "2023-11-29 18:00", "Will do.", "outbox"),
            ],
            "visits": {
                "2023-11-13": 25,
                "2023-11-26": 22,
                "2023-11-27": 24,
                "2023-11-28": 30,
                "2023-11-29": 21,
            },
            "engaged": {
                "2023-11-13": 12,
                "2023-11-26": 14,
                "2023-11-27": 9,
                "2023-11-28": 15,
                "2023-11-29": 13,
            },
            "plots": [],
            "tasks": [
                _assignment(51, "Fix footer", "kofi", "In Progress", "2023-12-08", "Front end"),
                _assignment(52, "Cache queries", "kofi", "In Progress", "2023-12-11", "Back end"),
                _assignment(53, "New icons", "kofi", "Completed", "2023-11-20", "Design"),
                _assignment(54, "Rate limits", "dmitri", "In Progress", "2023-12-05", "Back end"),
                _assignment(55, "Dark mode", "dmitri", "Backlog", "2023-12-12", "Design"),
                _assignment(56, "Login form", "jinsoo", "In Progress", "2023-11-27", "Front end"),
                _assignment(57, "Search page", "jinsoo", "Completed", "2023-11-24", "Front end"),
            ],
            "customers": [
                _customer(71, "Cameron Anderson", "sofia", "Lead", "Services", "2023-11-02"),
                _customer(72, "Casey White", "raj", "Lost", "Hardware", "2023-10-12"),
                _customer(73, "Taylor Jackson", "lena", "Lead", "Software", "2023-11-20"),
                _customer(74, "Quinn Harris", "lena", "Lead", "Software", "2023-11-26"),
                _customer(75, "Jaden White", "lena", "Lead", "Hardware", "2023-11-27"),
                _customer(76, "Riley Moore", "lena", "Won", "Software", "2023-11-28"),
            ],
        }

    def find_email_address(self, name: str) -> list[str]:
        """Find the email addresses of the employees with this name, or part of a name."""
        return [_staff(one) for one in _STAFF if name.casefold().split()[0] in _staff(one)]

    def get_event(self, event_id: str) -> Meeting:
        """Get an event of the calendar by its 8-digit id."""
        return copy.deepcopy(self.one("events", "event_id", event_id))  # type: ignore[return-value]

    def search_events(
        self, query: str = "", time_min: str | None = None, time_max: str | None = None
    ) -> list[Meeting]:
        """Search events, the earliest first, by words of name or participant, and by start.
        duration is in minutes, time format is "YYYY-MM-DD HH:MM:SS"."""
        return [
            copy.deepcopy(one) for one in self.state["events"]
            if query.casefold() in f"{one['event_name']} {one['participant_email']}".casefold()
            if (time_min or "") <= one["event_start"] <= _whole_day(time_max)
        ]  # fmt: skip

    def create_event(self, event_name: str, participant_email: str, event_start: str, duration: int) -> str:
        """Create an event, and get its id. duration is in minutes, event_start is "YYYY-MM-DD HH:MM:SS"."""
        start = event_start if len(event_start) > 16 else f"{event_start}:00"
        ident = f"{90 + len(self.state['events']):08}"
        row = {"event_id": ident, "event_name": event_name, "participant_email": _address(participant_email)}
        self.state["events"].append({**row, "event_start": start, "duration": int(duration)})
        return ident

    def delete_event(self, event_id: str) -> str:
        """Delete an event by its id."""
        self.state["events"].remove(self.one("events", "event_id", event_id))
        return "Event deleted successfully."

    def update_event(
        self,
        event_id: str,
        field: Literal["event_name", "participant_email", "event_start", "duration"],
        new_value: str,
    ) -> str:
        """Change one field of an event."""
        self.one("events", "event_id", event_id)[field] = new_value
        return "Event updated successfully."

    def get_email(self, email_id: str) -> Mail:
        """Get an email by its id."""
        return copy.deepcopy(self.one("emails", "email_id", email_id))  # type: ignore[return-value]

    def search_emails(
        self, query: str = "", date_min: str | None = None, date_max: str | None = None
    ) -> list[Mail]:
        """Search emails, the newest first: all words of the query are in subject, body or address.
        Date format is "YYYY-MM-DD"."""
        words = query.casefold().split()
        return [
            copy.deepcopy(one) for one in reversed(self.state["emails"])
            if all(w in f"{one['subject']} {one['body']} {one['correspondent']}".casefold() for w in words)
            if (date_min or "") <= one["sent"] <= _whole_day(date_max)
        ]  # fmt: skip

    def send_email(self, recipient: str, subject: str, body: str) -> str:
        """Send an email to an address."""
        self._send(_address(recipient), subject, body)
        return "Email sent successfully."

    def _send(self, recipient: str, subject: str, body: str) -> None:
        row = {
            "email_id": f"{90 + len(self.state['emails']):08}",
            "box": "outbox",
            "correspondent": recipient,
        }
        said = {"subject": plain_text(subject), "sent": "2023-11-30 00:00:00", "body": plain_text(body)}
        self.state["emails"].append({**row, **said})

    def delete_email(self, email_id: str) -> str:
        """Delete an email by its id."""
        self.state["emails"].remove(self.one("emails", "email_id", email_id))
        return "Email deleted successfully."

    def forward_email(self, email_id: str, recipient: str) -> str:
        """Forward an email to an address."""
        mail = self.one("emails", "email_id", email_id)
        self._send(_address(recipient), f"FW: {mail['subject']}", mail["body"])
        return "Email forwarded successfully."

    def reply_email(self, email_id: str, body: str) -> str:
        """Reply to an email."""
        mail = self.one("emails", "email_id", email_id)
        self._send(mail["correspondent"], mail["subject"], body)
        return "Email replied successfully."

    def total_visits_count(self, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
        """Total number of visits of the website for each day. Date format is "YYYY-MM-DD"."""
        return _between(self.state["visits"], time_min, time_max)

    def engaged_users_count(self, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
        """Number of engaged users of the website for each day. Date format is "YYYY-MM-DD"."""
        return _between(self.state["engaged"], time_min, time_max)

    def traffic_source_count(
        self,
        traffic_source: Literal["direct", "referral", "search engine", "social media"],
        time_min: str | None = None,
        time_max: str | None = None,
    ) -> dict[str, int]:
        """Number of visits from a traffic source for each day. Date format is "YYYY-MM-DD"."""
        return {day: count // 4 for day, count in _between(self.state["visits"], time_min, time_max).items()}

    def get_average_session_duration(
        self, time_min: str | None = None, time_max: str | None = None
    ) -> dict[str, float]:
        """Average session duration in seconds for each day. Date format is "YYYY-MM-DD"."""
        return {day: count / 2 for day, count in _between(self.state["visits"], time_min, time_max).items()}

    def create_plot(
        self,
        time_min: str,
        time_max: str,
        value_to_plot: Literal[
            "total_visits", "session_duration_seconds", "user_engaged", "visits_direct", "visits_referral"
        ],
        plot_type: Literal["bar", "line", "scatter", "histogram"],
    ) -> str:
        """Plot analytics data of a time range, and get the path of the plot. Date format is "YYYY-MM-DD"."""
        self.state["plots"].append([value_to_plot, plot_type])
        return f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"

    def get_task(self, task_id: str) -> Assignment:
        """Get a task by its 8-digit id."""
        return copy.deepcopy(self.one("tasks", "task_id", task_id))  # type: ignore[return-value]

    def search_tasks(
        self,
        task_name: str | None = None,
        assigned_to_email: str | None = None,
        list_name: str | None = None,
        due_date_min: str | None = None,
        due_date_max: str | None = None,
        board: str | None = None,
    ) -> list[Assignment]:
        """Search the tasks of all boards; each argument that is given narrows it.
        Date format is "YYYY-MM-DD"."""
        wanted = {
            "task_name": task_name,
            "assigned_to_email": assigned_to_email,
            "list_name": list_name,
            "board": board,
        }
        return [
            copy.deepcopy(one) for one in matching(self.state["tasks"], wanted)
            if (due_date_min or "") <= one["due_date"] <= _whole_day(due_date_max)
        ]  # fmt: skip

    def create_task(
        self,
        task_name: str,
        assigned_to_email: str,
        list_name: Literal["Backlog", "In Progress", "In Review", "Completed"],
        due_date: str,
        board: Literal["Back end", "Front end", "Design"],
    ) -> str:
        """Create a task, and get its id. Date format is "YYYY-MM-DD"."""
        ident = f"{90 + len(self.state['tasks']):08}"
        row = {"task_id": ident, "task_name": task_name, "assigned_to_email": _address(assigned_to_email)}
        self.state["tasks"].append({**row, "list_name": list_name, "due_date": due_date, "board": board})
        return ident

    def delete_task(self, task_id: str) -> str:
        """Delete a task by its id."""
        self.state["tasks"].remove(self.one("tasks", "task_id", task_id))
        return "Task deleted successfully."

    def update_task(
        self,
        task_id: str,
        field: Literal["task_name", "assigned_to_email", "list_name", "due_date", "board"],
        new_value: str,
    ) -> str:
        """Change one field of a task."""
        self.one("tasks", "task_id", task_id)[field] = new_value
        return "Task updated successfully."

    def search_customers(
        self,
        customer_name: str | None = None,
        product_interest: str | None = None,
        status: str | None = None,
        assigned_to_email: str | None = None,
        last_contact_date_min: str | None = None,
        last_contact_date_max: str | None = None,
    ) -> list[Customer]:
        """Search the customers of the CRM; each argument that is given narrows it.
        Date format is "YYYY-MM-DD"."""
        wanted = {
            "customer_name": customer_name,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
        }
        return [
            copy.deepcopy(one) for one in matching(self.state["customers"], wanted)
            if (last_contact_date_min or "") <= one["last_contact_date"] <= _whole_day(last_contact_date_max)
        ]  # fmt: skip

    def update_customer(
        self,
        customer_id: str,
        field: Literal[
            "customer_name", "assigned_to_email", "status", "product_interest", "last_contact_date"
        ],
        new_value: str,
    ) -> str:
        """Change one field of a customer in the CRM. Status: Qualified, Won, Lost, Lead or Proposal."""
        self.one("customers", "customer_id", customer_id)[field] = new_value
        return "Customer updated successfully."

    def add_customer(
        self,
        customer_name: str,
        assigned_to_email: str,
        status: Literal["Qualified", "Won", "Lost", "Lead", "Proposal"],
        product_interest: str | None = None,
    ) -> str:
        """Add a customer to the CRM, and get the id."""
        ident = f"{90 + len(self.state['customers']):08}"
        row = {"customer_id": ident, "customer_name": customer_name, "status": status}
        owner = {"assigned_to_email": _address(assigned_to_email), "product_interest": product_interest}
        self.state["customers"].append({**row, **owner, "last_contact_date": ""})
        return ident

    def delete_customer(self, customer_id: str) -> str:
        """Delete a customer from the CRM by id."""
        self.state["customers"].remove(self.one("customers", "customer_id", customer_id))
        return "Customer deleted successfully."


def _whole_day(latest: str | None) -> str:
    """The end of the day of a date, the end of all days of None."""
    return "9999" if latest is None else latest if len(latest) > 10 else f"{latest} 23:59:59"


def _address(text: str) -> str:
    if "@" not in text or "." not in text:
        raise ValueError(f"{text!r} is no email address")
    return text.casefold()


def _between(days: dict[str, int], first: str | None, last: str | None) -> dict[str, int]:
    return {day: count for day, count in days.items() if (first or "") <= day <= (last or "9999")}
