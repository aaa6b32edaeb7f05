"""The secrets of a command: masked in its output, and the configured credentials of a run that it edits.

Notes, outcomes, errors and printed output of tools have `[secret]` in place of secrets. In the answer only
known secrets are masked; elsewhere also text in the form of a credential. No server is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from io import TextIOBase
from typing import TYPE_CHECKING, Any, TextIO, overload

from callsheet.apps.server_catalogue import select_servers
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON, Plan
from callsheet.machine import Result
from callsheet.machine.notes import Note
from callsheet.ports.calls import CallListener, CallProgress
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome
from callsheet.sealing.credentials import Shapes, configured, in_environment
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, hidden, mask_text, mask_value
from callsheet.store.journal import Journal
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.views.call_site import CallSite


class _TransformingStream(TextIOBase):
    """A text stream that transforms text and writes it to another stream."""

    def __init__(self, stream: TextIO, change: Callable[[str], str]) -> None:
        self._stream = stream
        self._change = change

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the underlying stream."""
        return self._stream.encoding

    def flush(self) -> None:
        if not self._stream.closed:  # finalizing this stream flushes it, perhaps after the other was closed
            self._stream.flush()


class _LineStream(_TransformingStream):
    """Transforms and writes whole lines."""

    _rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._stream.write(self._change("".join(f"{line}\n" for line in lines)))
        return len(text)

    def finish(self) -> None:
        """Write the last line if it has no line end."""
        rest, self._rest = self._rest, ""
        if rest:
            self._stream.write(self._change(rest))


class _ChunkStream(_TransformingStream):
    """Transforms and writes each chunk at once: a live display writes parts of lines."""

    def write(self, text: str) -> int:
        self._stream.write(self._change(text))
        return len(text)


class _MaskedListener:
    """Passes on what a listener is told, with the words of tools changed."""

    def __init__(self, listener: CallListener, change: Callable[[str], str]) -> None:
        self._listener = listener
        self._change = change
        self.began, self.queued, self.ended = listener.began, listener.queued, listener.ended

    def progressed(self, key: str, progress: CallProgress) -> None:
        message = self._change(progress.message)
        self._listener.progressed(key, progress._replace(message=message))


class Masker:
    """Masks the secrets known to one command; more can be added.

    `shapes` are the patterns of credentials, None to mask known secrets only. With `shows_all` the result of
    a run is not masked.
    """

    def __init__(self, shapes: Shapes | None, *, shows_all: bool = False) -> None:
        self._finder = Finder(configured(in_environment(os.environ)), shapes)
        self._shows_all = shows_all
        self._inputs = frozenset[str]()

    def add_secrets(self, secrets: Known) -> None:
        """Mask these secrets too."""
        self._finder = self._finder.knowing(secrets)

    def hide_inputs(self, plan: Plan) -> None:
        """Mask the SECRET inputs of a plan as a whole, also those that are too short to be found in texts."""
        if plan.tree is not None:
            self._inputs |= {one.name for one in plan.tree.inputs if one.is_secret}

    @contextmanager
    def masking_output(self) -> Generator[None]:
        """Redirect standard output to standard error, and mask both: by line and by chunk respectively."""

        def masked(text: str) -> str:
            return mask_text(text, self._finder)

        lines, pieces = _LineStream(sys.stderr, masked), _ChunkStream(sys.stderr, masked)
        try:
            with redirect_stdout(lines), redirect_stderr(pieces):
                yield
        finally:
            with suppress(OSError, ValueError):
                lines.finish()

    @overload
    def masked_observer(self, observer: Callable[[Note], None]) -> Callable[[Note], None]: ...
    @overload
    def masked_observer(self, observer: Callable[[Note], None] | None) -> Callable[[Note], None] | None: ...
    def masked_observer(self, observer: Callable[[Note], None] | None) -> Callable[[Note], None] | None:
        """An observer that masks notes and passes them on; None for None."""
        return None if observer is None else lambda note: observer(self.note(note))

    def masked_listener(self, listener: CallListener | None) -> CallListener | None:
        """A listener that masks what tools say about their progress and passes it on."""
        return (
            None
            if listener is None
            else _MaskedListener(listener, lambda text: mask_text(text, self._finder))
        )

    def note(self, note: Note) -> Note:
        """A note, masked."""
        if note.is_secret:
            return note._replace(detail=hidden(note.detail), value=hidden(note.value))
        detail, value = mask_text(note.detail, self._finder), mask_value(note.value, self._finder)
        return (
            note
            if (detail, value) == (note.detail, note.value)
            else note._replace(detail=detail, value=value)
        )

    def outcome(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome of a run, masked."""
        return replace(
            outcome,
            result=None if outcome.result is None else self._result(outcome.result),
            in_doubt=tuple(map(self._doubt, outcome.in_doubt)),
            unanswered=tuple(map(self._doubt, outcome.unanswered)),
            waiting=tuple(map(self.ask, outcome.waiting)),
            variables=None
            if outcome.variables is None
            else self._variables(outcome.variables, outcome.secret),
        )

    def ask(self, ask: PendingAsk) -> PendingAsk:
        """A question to people, masked."""
        return replace(
            ask,
            prompt=mask_text(ask.prompt, self._finder),
            why=tuple(mask_text(reason, self._finder) for reason in ask.why),
            options=tuple(self.value(option) for option in ask.options),
            args=None if ask.args is None else self.value(ask.args),
            inputs=tuple(self.value(value) for value in ask.inputs),
            answer=tuple(self.value(value) for value in ask.answer),
            site=None if ask.site is None else self._site(ask.site),
        )

    def _site(self, site: CallSite) -> CallSite:
        lines = (line._replace(text=mask_text(line.text, self._finder)) for line in site.lines)
        return site._replace(lines=tuple(lines))

    def error(self, error: CallsheetError) -> CallsheetError:
        """Mask the diagnostics of an error in place, and return it."""
        diagnostics = [self._diagnostic(d) for d in error.diagnostics]
        if diagnostics != list(error.diagnostics):
            error.diagnostics = tuple(diagnostics)
            error.args = ("; ".join(f"{d.code}: {d.message}" for d in diagnostics),)
        return error

    def diagnostics(self, diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
        """Diagnostics, masked."""
        return tuple(map(self._diagnostic, diagnostics))

    def _result(self, result: Result) -> Result:
        if self._shows_all:
            return result
        variables = self._variables(result.variables, result.secret)
        error, objection = result.error, result.objection
        if objection is not None:
            objection = objection._replace(message=mask_text(objection.message, self._finder))
        if error is not None:  # it may contain data of the call that failed
            error = hidden(error) if result.secret and objection is None else mask_text(error, self._finder)
        response = mask_text(result.response, self._finder.without_shapes())
        answer = mask_value(result.answer, self._finder.without_shapes())
        changed = replace(result, response=response, variables=variables, error=error, objection=objection)
        return replace(changed, answer=answer)

    def _variables(self, variables: Mapping[str, JSON], secret: frozenset[str]) -> dict[str, JSON]:
        if self._shows_all:
            return dict(variables)
        names = secret | self._inputs
        return {
            name: hidden(value) if name in names else self.value(value) for name, value in variables.items()
        }

    def _doubt(self, call: DoubtfulCall) -> DoubtfulCall:
        return replace(call, args=self.value(call.args), why=mask_text(call.why, self._finder))

    def value(self, value: Any) -> Any:
        """A value, masked: texts in lists and dicts too."""
        return mask_value(value, self._finder)

    def _diagnostic(self, diagnostic: Diagnostic) -> Diagnostic:
        message = mask_text(diagnostic.message, self._finder)
        return diagnostic if message == diagnostic.message else replace(diagnostic, message=message)


def credentials_for(journal: Journal, run: str) -> Known:
    """The credentials of the environment and of the servers that a run is executed with.

    Raises JournalError for an unknown run, CallsheetError (CFG017) for a run that records no setup.
    """
    run_id = journal.find_run(run).run_id
    first = next(journal.events(run_id), None)
    start = Start.from_json({} if first is None or first.body is None else first.body)
    setup = Setup.from_note(start.at_places(journal.places(run_id)).launch)
    credentials = [*in_environment(os.environ)]
    with suppress(CallsheetError):  # a missing configuration is reported where it is needed
        servers = select_servers(setup, None).configs
        if servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            credentials += credentials_of(servers)
    return configured(credentials)
