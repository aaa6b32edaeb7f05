"""One goal in many languages, the tools for it, and a program that reaches it."""

from __future__ import annotations

from callsheet.ports.tools import ToolSpec

TEXT = {"type": "string"}


def spec(name: str, about: str, **properties: object) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name.upper(), name, about, schema)


FORECAST = ToolSpec(
    "FORECAST",
    "forecast",
    "The weather of a city.",
    {"type": "object", "properties": {"city": TEXT}, "required": ["city"]},
    result={"type": "object", "properties": {"rain": {"type": "boolean"}, "celsius": {"type": "number"}}},
)
CANCEL = spec("cancel_event", "Cancel an event.", event_id=TEXT)
EDIT = spec(
    "edit_file",
    "Replace texts in a file.",
    path=TEXT,
    edits={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"oldText": TEXT, "newText": TEXT},
            "required": ["oldText", "newText"],
        },
    },
)
OTHERS = tuple(spec(f"tool_{n}", f"Does the thing number {n}.", value=TEXT) for n in range(12))
TOOLS = (FORECAST, CANCEL, EDIT, *OTHERS)

CONDITIONAL = """\
async def main():
    weather = await forecast(city="Bergen")
    if weather["rain"]:
        await cancel_event(event_id="e-5")
        return "Cancelled."
    return "It does not rain."
"""
GOALS = (
    "Provided it rains in Bergen, cancel event e-5.",
    "Falls es in Bergen regnet, sag den Termin e-5 ab.",
    "S'il pleut à Bergen, annule l'événement e-5.",
    "Si llueve en Bergen, cancela el evento e-5.",
    "ベルゲンが雨なら、イベントe-5を中止して。",
    "Если в Бергене дождь, отмени событие e-5.",
    "卑尔根下雨的话取消活动 e-5。",
    "إذا كانت تمطر في بيرغن فألغِ الحدث e-5.",
    "Hvis det regner i Bergen, avlys arrangement e-5.",
    "Gesetzt, Bergen meldet Regen: e-5 entfällt.",
    'Our "summer" party is e-5.\n\nBergen has been dry, \\ but who knows.\n\nRain there? Then call it off.',
)
