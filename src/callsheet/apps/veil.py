"""What a command shows of a run, without its secrets: progress, how it stands, what went wrong.

In: notes, outcomes, errors and what tools print. Out: the same with `[secret]` in the place of secrets. In
the answer itself only what is known to be secret is masked, elsewhere also what looks like a credential.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from io import TextIOBase
from typing import Any, TextIO

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.machine import Result
from callsheet.machine.notes import Note
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.finder import Finder
from callsheet.sealing.known import Known
from callsheet.sealing.masking import hidden, mask_text, mask_value
from callsheet.sealing.shapes import Shapes


class _Changing(TextIOBase):
    """A stream in front of another one, which is handed changed text."""

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
        """That of the stream behind."""
        return self._stream.encoding

    def flush(self) -> None:
        self._stream.flush()


class _Lines(_Changing):
    """Hands on whole lines, changed."""

    _rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._stream.write(self._change("".join(f"{line}\n" for line in lines)))
        return len(text)

    def finish(self) -> None:
        """Hand on what was left without an end of its line."""
        rest, self._rest = self._rest, ""
        if rest:
            self._stream.write(self._change(rest))


class _Pieces(_Changing):
    """Hands on each piece that is written, changed, at once: a live picture is drawn in pieces of lines."""

    def write(self, text: str) -> int:
        self._stream.write(self._change(text))
        return len(text)


class Veil:
    """What one command knows of secrets; it learns of more as it goes.

    `shows_all` shows the answer as it is.
    """

    def __init__(self, shapes: Shapes | None, *, shows_all: bool = False) -> None:
        self._finder = Finder(configured(in_environment(os.environ)), shapes)
        self._shows_all = shows_all

    def know(self, secrets: Known) -> None:
        """Mask these as well from now on."""
        self._finder = self._finder.knowing(secrets)

    @contextmanager
    def over_prints(self) -> Generator[None]:
        """What tools print goes to standard error, masked line by line; what they write there, as they write
        it.
        """

        def masked(text: str) -> str:
            return mask_text(text, self._finder)

        lines, pieces = _Lines(sys.stderr, masked), _Pieces(sys.stderr, masked)
        try:
            with redirect_stdout(lines), redirect_stderr(pieces):
                yield
        finally:
            with suppress(OSError, ValueError):
                lines.finish()

    def observing(self, observer: Callable[[Note], None]) -> Callable[[Note], None]:
        """The observer, which is told no secret."""
        return lambda note: observer(self.note(note))

    def note(self, note: Note) -> Note:
        """A note as it may be shown."""
        if note.is_secret:
            return note._replace(detail=hidden(note.detail), value=hidden(note.value))
        detail, value = mask_text(note.detail, self._finder), mask_value(note.value, self._finder)
        return (
            note
            if (detail, value) == (note.detail, note.value)
            else note._replace(detail=detail, value=value)
        )

    def outcome(self, outcome: RunOutcome) -> RunOutcome:
        """How a run stands, as it may be shown."""
        return replace(
            outcome,
            result=None if outcome.result is None else self._result(outcome.result),
            in_doubt=tuple(map(self._doubt, outcome.in_doubt)),
            unanswered=tuple(map(self._doubt, outcome.unanswered)),
            waiting=tuple(map(self._ask, outcome.waiting)),
        )

    def error(self, error: CallsheetError) -> CallsheetError:
        """An error as it may be shown: the same one, with other words where there was a secret."""
        diagnostics = [self._diagnostic(d) for d in error.diagnostics]
        if diagnostics != list(error.diagnostics):
            error.diagnostics = tuple(diagnostics)
            error.args = ("; ".join(f"{d.code}: {d.message}" for d in diagnostics),)
        return error

    def diagnostics(self, found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
        """Diagnostics as they may be shown."""
        return tuple(map(self._diagnostic, found))

    def _result(self, result: Result) -> Result:
        if self._shows_all:
            return result
        variables = {
            name: hidden(value) if name in result.secret else self._value(value)
            for name, value in result.variables.items()
        }
        error, objection = result.error, result.objection
        if objection is not None:
            objection = objection._replace(message=mask_text(objection.message, self._finder))
        if error is not None:  # under a policy it may tell of what failed
            error = hidden(error) if result.secret and objection is None else mask_text(error, self._finder)
        response = mask_text(result.response, self._finder.without_shapes())
        return replace(result, response=response, variables=variables, error=error, objection=objection)

    def _doubt(self, call: DoubtfulCall) -> DoubtfulCall:
        return replace(call, args=self._value(call.args), why=mask_text(call.why, self._finder))

    def _ask(self, ask: PendingAsk) -> PendingAsk:
        return replace(
            ask,
            prompt=mask_text(ask.prompt, self._finder),
            why=tuple(mask_text(reason, self._finder) for reason in ask.why),
            options=tuple(self._value(option) for option in ask.options),
            args=None if ask.args is None else self._value(ask.args),
            inputs=tuple(self._value(value) for value in ask.inputs),
            answer=tuple(self._value(value) for value in ask.answer),
        )

    def _value(self, value: Any) -> Any:
        return mask_value(value, self._finder)

    def _diagnostic(self, found: Diagnostic) -> Diagnostic:
        message = mask_text(found.message, self._finder)
        return found if message == found.message else replace(found, message=message)
