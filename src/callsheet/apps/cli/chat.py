"""`callsheet chat`: a conversation with a model and the available tools.

Answers go to standard output, everything else to standard error. Lines are read from the terminal, with a
history, or from standard input.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from callsheet.apps.cli import journals, options, run_options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import is_terminal, print_diagnostics, print_text, to_stderr
from callsheet.apps.cli.progress.lines import PlainLines, label_of, message_of
from callsheet.diagnostics import CallsheetError
from callsheet.machine.notes import Note, NoteKind

if TYPE_CHECKING:
    from callsheet.apps.chat.chat_session import ChatSession, ConversationOptions
    from callsheet.apps.chat.commands import Command
    from callsheet.apps.setup import Setup
    from callsheet.ir import Plan
    from callsheet.machine.limits import Limits
    from callsheet.policy.model import Policy
    from callsheet.store.journal import Journal

_SHOWN_NOTES = (NoteKind.TURN, NoteKind.ASKED, NoteKind.RETRYING, NoteKind.CUT, NoteKind.EMPTY)
_PROMPT = "> "


@click.command()
@options.tool_sources
@options.plans_folder
@journals.recording
@run_options.limits
@click.option(
    "--plan-tools", is_flag=True, help="Let the model create and run plans, in addition to single calls."
)
@click.option(
    "--yes", "-y", is_flag=True, help="Do not ask before plans and calls that may change something."
)
@options.policy_if_any
def chat(
    setup: Setup,
    plans_folder: Path | None,
    recording: journals.Recording,
    limits: Limits,
    plan_tools: bool,
    yes: bool,
    policy: str,
) -> int:
    """Chat with a model that calls the available tools.

    Each message is answered by a recorded run: `callsheet show last` shows what happened. `/help` lists the
    commands of the conversation, such as /plan create, list, show, run, resume and delete. Ctrl-C stops the
    current answer, not the conversation. Ctrl-D, or the end of standard input, ends it.
    Without a model, the commands for saved plans work.
    """
    from callsheet.apps.chat.chat_session import ConversationOptions  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.equipment import with_local_model  # noqa: PLC0415 - as above

    if recording.no_journal:
        raise click.UsageError("chat needs a journal: remove --no-journal")
    setup = with_local_model(setup, to_stderr)
    resolved_policy = options.resolve_policy(policy, setup)
    journal = recording.open(setup.settings.secrets.shapes)
    assert journal is not None
    try:
        run_async(
            _open_chat(
                setup, plans_folder, journal, limits, ConversationOptions(plan_tools, yes), resolved_policy
            )
        )
    finally:
        journal.close()
    return Exit.OK


async def _open_chat(
    setup: Setup,
    plans_folder: Path | None,
    journal: Journal,
    limits: Limits,
    chat_options: ConversationOptions,
    policy: Policy | None,
) -> None:
    from callsheet.apps.chat.chat_session import ChatSession  # noqa: PLC0415 - as above
    from callsheet.apps.chat.plan_tools import plan_tools, with_plan_tools  # noqa: PLC0415
    from callsheet.apps.cli.arguments import open_library  # noqa: PLC0415
    from callsheet.apps.hosting.host import Host  # noqa: PLC0415

    sessions: list[ChatSession] = []
    tools = plan_tools(lambda: sessions[0]) if chat_options.plan_tools else []
    if policy is not None and chat_options.plan_tools:
        policy = with_plan_tools(policy)
    reader = _reader(setup)
    async with Host(setup, journal, limits=limits, policy=policy, more_tools=tools) as host:
        sessions.append(
            ChatSession(host, open_library(plans_folder), _Terminal(reader), chat_options, policy)
        )
        if is_terminal(sys.stdin):
            name = setup.model or "the model of config.toml"
            ready = f"{name} is ready" if setup.names_model else "no model is named, so only commands work"
            to_stderr(f"{ready}; /help lists the commands, Ctrl-D exits")
        await _converse(sessions[0], reader, has_model=setup.names_model)


async def _converse(session: ChatSession, reader: Reader, *, has_model: bool) -> None:
    """Read and execute commands until the end of input; without a model, those that need none."""
    from callsheet.apps.chat.commands import SimpleCommand, needs_model, parse_command  # noqa: PLC0415 - as above
    from callsheet.apps.compiling import no_model  # noqa: PLC0415 - as above

    while (line := await reader.read(_PROMPT)) is not None:
        try:
            command = parse_command(line)
            if command == SimpleCommand("quit"):
                return
            if command is not None:
                if needs_model(command) and not has_model:
                    raise no_model()
                await _execute(session, command)
        except CallsheetError as error:
            print_diagnostics(error.diagnostics, error.source)


async def _execute(session: ChatSession, command: Command) -> None:
    """Execute a command; Ctrl-C stops it."""
    work = asyncio.create_task(session.execute(command))
    try:
        with _cancel_on_sigint(work):
            await asyncio.wait({work})
    except asyncio.CancelledError:  # the program ends; afterwards the host interrupts its runs
        session.close()
        work.cancel()
        await asyncio.wait({work})
        raise
    if work.cancelled():
        to_stderr("stopped")
    else:
        work.result()


@contextmanager
def _cancel_on_sigint(work: asyncio.Task[None]) -> Generator[None]:
    """Let Ctrl-C cancel this task instead of the program."""
    loop, previous_handler = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    with suppress(ValueError, RuntimeError):
        loop.add_signal_handler(signal.SIGINT, work.cancel)
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, previous_handler)


# ---------------------------------------------------------------- the terminal


class Reader(Protocol):
    """A source of input lines."""

    async def read(self, prompt: str) -> str | None:
        """The next line; None at the end."""
        ...


class _LineReader:
    """Reads lines from standard input."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self._is_terminal = is_terminal

    async def read(self, prompt: str) -> str | None:
        """The next line. Questions are printed, so that a log shows what was answered."""
        if self._is_terminal:
            click.echo(prompt, nl=False, err=True)
        elif prompt != _PROMPT:
            to_stderr(prompt.rstrip())
        line = await asyncio.to_thread(sys.stdin.readline)
        return line.rstrip("\n") if line else None


class _PromptReader:
    """Reads lines that a person types, with a history on disk."""

    def __init__(self, history: Path) -> None:
        from prompt_toolkit import PromptSession  # noqa: PLC0415 - only on a terminal
        from prompt_toolkit.history import FileHistory  # noqa: PLC0415 - as above

        history.parent.mkdir(parents=True, exist_ok=True)
        self._session: PromptSession[str] = PromptSession(history=FileHistory(str(history)))
        self._asking: PromptSession[str] = PromptSession()

    async def read(self, prompt: str) -> str | None:
        """The next line; Ctrl-C clears it, Ctrl-D ends the input."""
        session = self._session if prompt == _PROMPT else self._asking
        while True:
            try:
                return await session.prompt_async(prompt, handle_sigint=False)
            except KeyboardInterrupt:
                if session is self._asking:
                    return ""
            except EOFError:
                return None


def _reader(setup: Setup) -> Reader:
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return _LineReader()
    try:
        return _PromptReader(setup.data / "chat-history")
    except ImportError:
        to_stderr("for arrow keys and a history: pip install 'callsheet[chat]'")
        return _LineReader(is_terminal=True)


class _Terminal:
    """The display of a conversation on a terminal or a pipe."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lines: PlainLines | None = None

    def answer(self, text: str) -> None:
        """Print an answer."""
        print_text(text)

    def show(self, text: str) -> None:
        """Print a message on standard error."""
        to_stderr(text)

    def draw(self, plan: Plan) -> None:
        """Draw a plan. Progress lines then describe its steps."""
        from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - only where plans are drawn

        self._lines = PlainLines(plan)
        to_stderr(terminal_graph(plan).rstrip())

    def note(self, note: Note, *, of_plan: bool) -> None:
        """Print a progress line."""
        if of_plan and self._lines is not None:
            self._lines.show(note, None)
        elif note.kind in _SHOWN_NOTES:
            to_stderr(f"  {label_of(note) or ''}  {message_of(note)}".rstrip())

    async def ask(self, question: str) -> str | None:
        """Ask a question; None if there is no input."""
        return await self._reader.read(question)
