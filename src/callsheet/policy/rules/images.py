"""FLOW for images in messages: whether an external image is loaded must not depend on private data."""

from __future__ import annotations

from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.links import images
from callsheet.policy.rules.answers import leaks_through_image
from callsheet.policy.rules.base import Notes, OfTexts, Setting
from callsheet.policy.rules.messages import is_message
from callsheet.policy.rules.receivers import in_bodies


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfTexts | None:
    """FLOW for an image in a privately controlled message; public data may contain one too."""
    if traits is None or not is_message(tool, traits):
        return None
    known_traits = traits

    def check(call: CallView, notes: Notes) -> None:
        if not call.pc.is_public and not in_bodies(known_traits, call) and leaks_through_image(setting, call):
            notes.object(
                Rule.FLOW,
                f"@{tool} would show an external image depending on private data",
                help="show it unconditionally, or answer with text",
                reaches="the host of the image",
            )

    def clears(text: str) -> bool:
        return not images(text)

    return OfTexts(check, clears)
