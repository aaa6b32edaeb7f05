"""What is kept keeps its label: files and facts are stored with the label of what is in them."""

from __future__ import annotations

from callsheet.policy.builtins import PathUse, Reach, Traits
from callsheet.policy.calls import CallView
from callsheet.policy.rules.base import Check, Notes, Setting, flowing


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """An obligation to store the label, and to keep code away from the network where the policy says so."""
    if traits is None:
        return None
    if traits.runs_code and not setting.policy.exec_network:

        def sandboxed(call: CallView, notes: Notes) -> None:
            notes.oblige("sandbox-without-network", call)

        return sandboxed
    stores = traits.reach is Reach.MEMORY or (traits.path is not None and traits.path_use is PathUse.WRITE)
    if not stores:
        return None

    def stored(call: CallView, notes: Notes) -> None:
        notes.oblige("store-label", call, str(flowing(call).join(call.pc)))

    return stored
