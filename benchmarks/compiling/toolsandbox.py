"""A phone: the tools of ToolSandbox, whose results are told in words.

Names and purposes of the tools are those of apple/ToolSandbox; what they do and the small tables that they
work on were written here. `published` has the goals.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.compiling.jobs import Place, matching, plain_text

_UTC = UTC
_NOW = datetime(2024, 3, 20, 9, 0, tzinfo=_UTC)
_DAY = 86_400.0


def _contact(number: int, name: str, phone: str, relationship: str | None) -> dict[str, Any]:
    return {
        "person_id": f"p-{number}",
        "name": name,
        "phone_number": phone,
        "relationship": relationship,
        "is_self": relationship == "self",
    }


def _message(number: int, sender: str, recipient: str, content: str, days: float) -> dict[str, Any]:
    return {
        "message_id": f"m-{number}",
        "sender_phone_number": sender,
        "recipient_phone_number": recipient,
        "content": content,
        "creation_timestamp": _NOW.timestamp() - days * _DAY,
    }


def _reminder(number: int, content: str, days: float) -> dict[str, Any]:
    at = _NOW.timestamp() + days * _DAY
    return {"reminder_id": f"r-{number}", "content": content, "reminder_timestamp": at}


def _spot(name: str, latitude: float, longitude: float, phone: str) -> dict[str, Any]:
    return {"name": name, "latitude": latitude, "longitude": longitude, "phone_number": phone}


_OWN, _BOSS, _FREDRIK, _STRANGER = "+11233344455", "+10000000000", "+12453344098", "+18307976530"


class Phone(Place):
    """Contacts, messages, reminders and settings of a phone on Wednesday, 20 March 2024; results in words."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "contacts": [
                _contact(1, "Tomas Haake", _OWN, "self"),
                _contact(2, "Fredrik Thordendal", _FREDRIK, "friend"),
                _contact(3, "John Petrucci", "+14509876543", "friend"),
                _contact(4, "Homer S", _BOSS, "boss"),
            ],
            "messages": [
                _message(1, _STRANGER, _OWN, "Hey kid, you want some GPU?", 9),
                _message(2, _OWN, _STRANGER, "No thanks", 8.9),
                _message(3, _BOSS, _OWN, "How's it going", 2),
                _message(4, _OWN, _BOSS, "Things are proceeding as expected", 1.5),
                _message(5, _BOSS, _OWN, "Good, keep me posted", 1),
            ],
            "reminders": [
                _reminder(1, "Look for Company SF tickets", -1),
                _reminder(2, "Buy a nice rich navy bathing dress", 0.3),
                _reminder(3, "Call the bank", 4),
            ],
            "settings": {"low_battery": False, "location": True, "cellular": True, "wifi": True},
            "sent": [],
        }

    def add_contact(self, name: str, phone_number: str, relationship: str | None = None):
        """Add a person to the contacts. Returns the person_id."""
        self.state["contacts"].append(_contact(90, name, phone_number, relationship))
        return "p-90"

    def modify_contact(
        self,
        person_id: str,
        name: str | None = None,
        phone_number: str | None = None,
        relationship: str | None = None,
    ):
        """Change what is given of a contact. Returns nothing."""
        given = {"name": name, "phone_number": phone_number, "relationship": relationship}
        self.one("contacts", "person_id", person_id).update({k: v for k, v in given.items() if v is not None})

    def remove_contact(self, person_id: str):
        """Remove a person from the contacts. Returns nothing."""
        self.state["contacts"].remove(self.one("contacts", "person_id", person_id))

    def search_contacts(
        self,
        person_id: str | None = None,
        name: str | None = None,
        phone_number: str | None = None,
        relationship: str | None = None,
    ):
        """Search contacts. Returns a list of {person_id, name, phone_number, relationship, is_self}."""
        wanted = {
            "person_id": person_id,
            "name": name,
            "phone_number": phone_number,
            "relationship": relationship,
        }
        return copy.deepcopy(matching(self.state["contacts"], wanted))

    def send_message_with_phone_number(self, phone_number: str, content: str):
        """Send a text message to a phone number. Returns the message_id."""
        if not self.state["settings"]["cellular"]:
            raise RuntimeError("cellular service is off")
        self.state["sent"].append([phone_number, plain_text(content)])
        return "m-90"

    def search_messages(
        self,
        sender_phone_number: str | None = None,
        recipient_phone_number: str | None = None,
        content: str | None = None,
    ):
        """Search text messages, the oldest first. Returns a list of {message_id, sender_phone_number,
        recipient_phone_number, content, creation_timestamp}."""
        wanted = {
            "sender_phone_number": sender_phone_number,
            "recipient_phone_number": recipient_phone_number,
            "content": content.rstrip("s") if content else content,
        }
        return copy.deepcopy(matching(self.state["messages"], wanted))

    def add_reminder(self, content: str, reminder_timestamp: float):
        """Add a reminder at a POSIX timestamp. Returns the reminder_id."""
        row = {
            "reminder_id": "r-90",
            "content": plain_text(content),
            "reminder_timestamp": float(reminder_timestamp),
        }
        self.state["reminders"].append(row)
        return "r-90"

    def modify_reminder(
        self, reminder_id: str, content: str | None = None, reminder_timestamp: float | None = None
    ):
        """Change what is given of a reminder. Returns nothing."""
        given = {"content": content, "reminder_timestamp": reminder_timestamp}
        row = self.one("reminders", "reminder_id", reminder_id)
        row.update({k: v for k, v in given.items() if v is not None})

    def search_reminder(
        self,
        content: str | None = None,
        reminder_timestamp_lowerbound: float | None = None,
        reminder_timestamp_upperbound: float | None = None,
    ):
        """Search reminders, the earliest first.
        Returns a list of {reminder_id, content, reminder_timestamp}."""
        least, most = reminder_timestamp_lowerbound or 0, reminder_timestamp_upperbound or float("inf")
        found = matching(self.state["reminders"], {"content": content})
        return [copy.deepcopy(one) for one in found if least <= one["reminder_timestamp"] <= most]

    def remove_reminder(self, reminder_id: str):
        """Remove a reminder. Returns nothing."""
        self.state["reminders"].remove(self.one("reminders", "reminder_id", reminder_id))

    def set_low_battery_mode_status(self, on: bool):
        """Turn low battery mode on or off. Returns nothing."""
        self.state["settings"]["low_battery"] = on

    def get_low_battery_mode_status(self):
        """Whether low battery mode is on. Returns a bool."""
        return self.state["settings"]["low_battery"]

    def set_location_service_status(self, on: bool):
        """Turn location service on or off. Returns nothing."""
        self.state["settings"]["location"] = on

    def get_location_service_status(self):
        """Whether location service is on. Returns a bool."""
        return self.state["settings"]["location"]

    def set_cellular_service_status(self, on: bool):
        """Turn cellular service on or off. Returns nothing."""
        self.state["settings"]["cellular"] = on

    def get_cellular_service_status(self):
        """Whether cellular service is on. Returns a bool."""
        return self.state["settings"]["cellular"]

    def set_wifi_status(self, on: bool):
        """Turn wifi on or off. Returns nothing."""
        self.state["settings"]["wifi"] = on

    def get_wifi_status(self):
        """Whether wifi is on. Returns a bool."""
        return self.state["settings"]["wifi"]

    def get_current_location(self):
        """Where the phone is. Returns {latitude, longitude}."""
        return {"latitude": 37.3346, "longitude": -122.0091}

    def get_current_timestamp(self):
        """The current POSIX timestamp. Returns a float."""
        return _NOW.timestamp()

    def timestamp_to_datetime_info(self, timestamp: float):
        """Returns {year, month, day, hour, minute, second, isoweekday} of a POSIX timestamp, in UTC."""
        at = datetime.fromtimestamp(timestamp, _UTC)
        names = ("year", "month", "day", "hour", "minute", "second")
        return {**{name: getattr(at, name) for name in names}, "isoweekday": at.isoweekday()}

    def datetime_info_to_timestamp(
        self, year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0
    ):
        """Returns the POSIX timestamp of a date and time in UTC, a float."""
        return datetime(year, month, day, hour, minute, second, tzinfo=_UTC).timestamp()

    def shift_timestamp(
        self, timestamp: float, weeks: int = 0, days: int = 0, hours: int = 0, minutes: int = 0
    ):
        """Shift a POSIX timestamp by some time, which can be negative. Returns a float."""
        return timestamp + timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes).total_seconds()

    def timestamp_diff(self, timestamp_0: float, timestamp_1: float):
        """timestamp_1 - timestamp_0. Returns {days, seconds}."""
        days, seconds = divmod(timestamp_1 - timestamp_0, _DAY)
        return {"days": int(days), "seconds": int(seconds)}

    def unit_conversion(self, amount: float, from_unit: str, to_unit: str):
        """Convert an amount from one unit to another: celsius, fahrenheit, km, mile. Returns a float."""
        pair = from_unit.casefold().rstrip("s")[:4], to_unit.casefold().rstrip("s")[:4]
        known = {("cels", "fahr"): amount * 9 / 5 + 32, ("fahr", "cels"): (amount - 32) * 5 / 9}
        return {**known, ("km", "mile"): amount / 1.609344, ("mile", "km"): amount * 1.609344}[pair]

    def calculate_lat_lon_distance(
        self, latitude_0: float, longitude_0: float, latitude_1: float, longitude_1: float
    ):
        """Distance between two places in kilometers. Returns a float."""
        return round(abs(latitude_0 - latitude_1) * 111 + abs(longitude_0 - longitude_1) * 50, 1)

    def search_holiday(self, holiday_name: str, year: int | None = None):
        """POSIX timestamp of a holiday in the US, of this year unless another is given. Returns a float."""
        month, day = {"christmas": (12, 25), "thanksgiving": (11, 28)}[holiday_name.casefold().split()[0]]
        return datetime(year or _NOW.year, month, day, tzinfo=_UTC).timestamp()

    def search_lat_lon(self, latitude: float, longitude: float):
        """The address of a place. Returns a str."""
        return "1 Apple Park Way, Cupertino, CA 95014, United States"

    def search_location_around_lat_lon(
        self, location: str, latitude: float | None = None, longitude: float | None = None
    ):
        """Search for a place by its name, around the phone unless somewhere else is given.
        Returns a list of {name, latitude, longitude, phone_number}."""
        known = (
            _spot("Golden Gate Bridge", 37.8199, -122.4783, "+14159215858"),
            _spot("Grand Canyon", 36.0565, -112.1251, "+19286387888"),
            _spot("Apple Park", 37.3346, -122.0091, "+14089961010"),
        )
        return [dict(one) for one in known if one["name"].casefold() in location.casefold()]  # type: ignore[union-attr]

    def search_weather_around_lat_lon(
        self, days: int = 0, latitude: float | None = None, longitude: float | None = None
    ):
        """Weather in some days (0: now) around the phone, unless somewhere else is given.
        Returns {condition, temperature, temperature_unit}, in Celsius."""
        is_far = longitude is not None and longitude > -120
        return {"condition": "sunny", "temperature": 25.0 if is_far else 16.0, "temperature_unit": "Celsius"}

    def search_stock(self, query: str):
        """Search for a stock by words. Returns {name, symbol, exchange, price, currency}."""
        if "apple" not in query.casefold() and query.casefold() != "aapl":
            raise LookupError(f"no stock is found for {query!r}")
        return {
            "name": "Apple Inc",
            "symbol": "AAPL",
            "exchange": "NASDAQ",
            "price": 171.0,
            "currency": "USD",
        }

    def convert_currency(self, amount: float, from_currency_code: str, to_currency_code: str):
        """Convert money between currencies, by their ISO 4217 codes. Returns a float."""
        rates = {("USD", "CNY"): 7.25, ("CNY", "USD"): 0.138}
        return amount * rates[from_currency_code.upper(), to_currency_code.upper()]
