"""Parses a line of a conversation: a message to the model, or a command that begins with `/`.

In: a line. Out: a command as data, or CallsheetError (CFG210).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from callsheet.diagnostics import CallsheetError, meant
from callsheet.ir import JSON, Plan
from callsheet.machine.notes import Note

HELP = """\
/plan create GOAL             create a plan with the model and save it; nothing is run
/plan list                    list the saved plans
/plan show ID                 show a plan as text and as a graph
/plan run ID [NAME=VALUE …]   run a plan; --dry-run predicts what it would do
/plan resume [RUN]            resume a run that was stopped, waits or is in doubt
/plan delete ID               delete a plan
/tools                        list the tools that the model may call
/usage                        show the usage of the conversation, and the rest of the budget
/forget                       clear the history of the conversation
/help · /quit                 Ctrl-C stops the current run, Ctrl-D quits"""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """`/plan VERB …`."""

    verb: str
    subject: str = ""
    variables: dict[str, JSON] = field(default_factory=dict[str, JSON])
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A command without arguments."""

    name: str


Command: TypeAlias = Message | PlanCommand | SimpleCommand


def needs_model(command: Command) -> bool:
    """Whether a model has to answer: a message, or a plan for a goal.

    >>> needs_model(PlanCommand("list")), needs_model(PlanCommand("create", "a goal"))
    (False, True)
    """
    return isinstance(command, Message) or (isinstance(command, PlanCommand) and command.verb == "create")


_SIMPLE_COMMANDS = ("help", "tools", "usage", "forget", "quit")


_VERBS = ("create", "list", "show", "run", "resume", "delete")


_NEEDS = {
    "create": "a goal",
    "show": "the id of a plan",
    "run": "the id of a plan",
    "delete": "the id of a plan",
}


def parse_command(line: str) -> Command | None:
    """Parse a line; None if it is empty. Raises CallsheetError (CFG210) for an invalid command.

    >>> parse_command('/plan run triage repo=demo limit=3')
    PlanCommand(verb='run', subject='triage', variables={'repo': 'demo', 'limit': 3}, dry_run=False)
    >>> parse_command("What is in notes.txt?")
    Message(text='What is in notes.txt?')
    """
    text = line.strip()
    if not text:
        return None
    if not text.startswith("/"):
        return Message(text)
    word, _, rest = text[1:].partition(" ")
    if word == "plan":
        return _plan_command(rest.strip())
    name = "quit" if word in ("exit", "q") else word
    if name not in _SIMPLE_COMMANDS:
        raise _unknown(f"/{word}", [f"/{name}" for name in (*_SIMPLE_COMMANDS, "plan")])
    return SimpleCommand(name)


def _plan_command(text: str) -> PlanCommand:
    verb, _, rest = text.partition(" ")
    rest = rest.strip()
    if verb not in _VERBS:
        raise _unknown(f"/plan {verb}".rstrip(), [f"/plan {name}" for name in _VERBS])
    if verb in _NEEDS and not rest:
        raise CallsheetError.single("CFG210", f"/plan {verb} needs {_NEEDS[verb]}", help="see /help")
    if verb == "create":
        return PlanCommand(verb, rest)
    words = _words(rest)
    if verb != "run":
        if len(words) > 1:
            raise CallsheetError.single("CFG210", f"/plan {verb} takes one name", help="see /help")
        return PlanCommand(verb, words[0] if words else "")
    is_dry = "--dry-run" in words
    subject, *given = [word for word in words if word != "--dry-run"] or [""]
    if not subject:
        raise CallsheetError.single("CFG210", "/plan run needs the id of a plan", help="see /plan list")
    return PlanCommand(verb, subject, dict(map(_variable, given)), is_dry)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CallsheetError.single("CFG210", f"a quote is not closed: {error}") from error


def _variable(word: str) -> tuple[str, JSON]:
    name, has_value, value = word.partition("=")
    if not has_value:
        raise CallsheetError.single("CFG210", f"{word!r} is not NAME=VALUE", help="for example repo=demo")
    try:
        return name.removeprefix("$"), json.loads(value)
    except ValueError:
        return name.removeprefix("$"), value


def _unknown(given: str, known: Sequence[str]) -> CallsheetError:
    return CallsheetError.single(
        "CFG210",
        f"there is no command {given[:60]}",
        help=meant(given, known, "see /help"),
    )


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
