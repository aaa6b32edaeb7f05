"""The interface between a conversation and its terminal: printing, and asking the user."""

from __future__ import annotations

from typing import Protocol

from callsheet.ir import Plan
from callsheet.machine.notes import Note


class Screen(Protocol):
    """The output of a conversation, and questions to the user."""

    def answer(self, text: str) -> None:
        """Show an answer."""

    def show(self, text: str) -> None:
        """Show a message: progress, a list, an instruction."""

    def draw(self, plan: Plan) -> None:
        """Show a plan as a graph."""

    def note(self, note: Note, *, of_plan: bool) -> None:
        """Show an event of a run: of a plan if `of_plan`, otherwise of the conversation itself."""

    async def ask(self, question: str) -> str | None:
        """Ask the user; None if nobody can answer."""
        ...
