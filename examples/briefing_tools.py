"""Tools for examples/briefing.ltp: services that are as slow as those behind a network."""

from __future__ import annotations

import asyncio
from typing import Any

from callsheet import tool

_EVENTS = [
    {"title": "Stand-up", "place": "Office"},
    {"title": "Lunch with Cy", "place": "Harbour"},
    {"title": "Dentist", "place": "Old town"},
]
_MINUTES = {"Office": 12, "Harbour": 25, "Old town": 18}
_reminders: list[str] = []


@tool(effect="read")
async def calendar(day: str) -> list[dict[str, str]]:
    """The events of a day."""
    await asyncio.sleep(0.4)
    return [{**event, "day": day} for event in _EVENTS]


@tool(effect="read")
async def forecast(city: str) -> dict[str, Any]:
    """The weather forecast, with the probability of rain in percent."""
    await asyncio.sleep(0.6)
    rain = 80 if city == "Bergen" else 10
    return {"city": city, "rain": rain, "degrees": 11}


@tool(effect="read")
async def trains(city: str) -> list[str]:
    """The delayed trains."""
    await asyncio.sleep(0.5)
    return [f"{city} 8:14, 5 minutes late"]


@tool(effect="unsafe")
async def remind(text: str) -> str:
    """Save a reminder."""
    await asyncio.sleep(0.2)
    _reminders.append(text)
    return text


@tool(effect="read")
async def travel(place: str) -> str:
    """The travel time to a place."""
    await asyncio.sleep(0.3)
    return f"{place}: {_MINUTES[place]} min"


@tool(effect="read")
async def headlines() -> list[str]:
    """The headlines of the day."""
    await asyncio.sleep(0.5)
    return ["Ferry timetable changes on Monday"]
