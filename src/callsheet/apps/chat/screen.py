"""The interface between a conversation and its terminal: printing, and asking the user."""

from __future__ import annotations

from typing import Protocol

from callsheet.ir import Plan
from callsheet.machine.notes import Note


class Screen(Protocol):
    """Where a conversation is shown."""

    def answer(self, text: str) -> None:
        """Show what was answered."""

    def show(self, text: str) -> None:
        """Show anything else: what goes on, what is there, what is left to do."""

    def draw(self, plan: Plan) -> None:
        """Show a plan."""

    def note(self, note: Note, *, of_plan: bool) -> None:
        """Show what happens in a run: of a plan that was made, or of the conversation itself."""

    async def ask(self, question: str) -> str | None:
        """Ask the person; None where nobody is there to answer."""
        ...
