"""The debugger on a terminal: shows where a run has stopped, and reads commands until it goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli.arguments import actor_name
from callsheet.apps.cli.debugging.model import (
    Breakpoint,
    Debugger,
    FailureStops,
    Order,
    Stop,
    answer_of,
    interrupt,
)
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.rendering.values import preview
from callsheet.machine.stepping import NotEvaluated

if TYPE_CHECKING:
    from callsheet.runtime.answers import Answer, PendingAsk

_ORDERS = {
    "c": Order.CONTINUE,
    "continue": Order.CONTINUE,
    "n": Order.OVER,
    "next": Order.OVER,
    "s": Order.INTO,
    "step": Order.INTO,
    "o": Order.OUT,
    "out": Order.OUT,
}
HELP = """\
c  go on to the next breakpoint    n  next statement        s  into a block, an item, a sub-plan
o  out of it                       w  the stack             v  the variables, with their labels
l  the text around                 up, down  another level  p EXPRESSION  its value
b LINE [if EXPRESSION], b STEP  a breakpoint; b alone lists them       d LINE  delete one
failures none|ending|all  at which failures to stop                    q  leave: `callsheet resume` goes on"""
_AROUND = 3
_WIDTH = 100


class TerminalFace:
    """Steers a run from the terminal. `breaks` are breakpoints as the option `--break` takes them."""

    def __init__(self, breaks: tuple[str, ...], *, stops_at_entry: bool) -> None:
        self._breaks, self._stops_at_entry = breaks, stops_at_entry
        self._level = 0
        self._terminal = asyncio.Lock()
        """Held by a stop or a question until it has its line, so that no line answers another one."""

    def attach(self, debugger: Debugger) -> None:
        """Set the breakpoints.

        Raises click.BadParameter for one where no statement stands, or with a condition that is none.
        """
        self._debugger = debugger
        debugger.stops_at_entry = self._stops_at_entry
        for text in self._breaks:
            try:
                told = self._break(text)
            except _Misread as wrong:
                raise click.BadParameter(str(wrong), param_hint="'--break'") from None
            if told is None:
                name, lines = debugger.places.source.name, ", ".join(map(str, debugger.places.lines()))
                raise click.BadParameter(
                    f"no statement of {name} has the id or the line {text!r}; statements begin at the lines"
                    f" {lines}",
                    param_hint="'--break'",
                )

    def log(self, text: str) -> None:
        """Print what a breakpoint tells."""
        to_stderr(text)

    async def stopped(self, stop: Stop) -> Order:
        """Print where the run is, and carry out commands until one goes on."""
        async with self._terminal:
            return await self._ordered(stop)

    async def _ordered(self, stop: Stop) -> Order:
        self._level = 0
        for line in self._head(stop):
            to_stderr(line)
        last = "n"
        while True:
            line = await _read("(callsheet) ")
            if line is None or line in ("q", "quit", "exit"):
                interrupt()
                await asyncio.Event().wait()  # until the interruption arrives
            word = last = line or last
            order = _ORDERS.get(word)
            if order is not None:
                return order
            for told in self._told(stop, word):
                to_stderr(told)

    async def asked(self, ask: PendingAsk, shown: PendingAsk) -> Answer | None:
        """Print a question, and read its answer."""
        async with self._terminal:
            return await self._answered(ask, shown)

    async def _answered(self, ask: PendingAsk, shown: PendingAsk) -> Answer | None:
        from callsheet.apps.rendering.runs import question_lines  # noqa: PLC0415 - only where one is asked

        for line in question_lines(shown):
            to_stderr(line)
        while True:
            line = await _read("answer (:approve, :deny, :answer TEXT; empty: from elsewhere) ")
            if not line:
                return None
            found = answer_of(ask, line, actor_name())
            if not isinstance(found, str):
                return found
            to_stderr(found)

    # -------------------------------------------------------------- what is printed

    def _head(self, stop: Stop) -> Iterator[str]:
        about = f": {preview(self._debugger.mask(stop.text), 300)}" if stop.text else ""
        yield f"stopped ({stop.reason}{about})"
        yield from self._where(stop)

    def _where(self, stop: Stop) -> Iterator[str]:
        level = stop.levels[self._level]
        place = self._debugger.places.place(level.step)
        if place is None:
            yield f"  {level.name} at {level.place}"
            return
        yield f"> {self._debugger.places.source.name}:{place[0]}  {level.name}  {level.place}"
        yield f"  {place[0]:4}  {self._line(place[0])}"

    def _line(self, number: int) -> str:
        lines = self._debugger.places.source.text.splitlines()
        return lines[number - 1][:_WIDTH] if 0 < number <= len(lines) else ""

    def _told(self, stop: Stop, command: str) -> Iterator[str]:
        word, _, rest = command.partition(" ")
        rest = rest.strip()
        levels = stop.levels[self._level :]
        match word:
            case "w" | "where":
                for number, level in enumerate(stop.levels):
                    place = self._debugger.places.place(level.step)
                    at = "" if place is None else f"  line {place[0]}"
                    yield f"{'>' if number == self._level else ' '} {level.name}  {level.place}{at}"
            case "v" | "variables":
                yield from self._variables(stop)
            case "l" | "list":
                yield from self._text(stop)
            case "up" | "down":
                self._level = max(0, min(len(stop.levels) - 1, self._level + (1 if word == "up" else -1)))
                yield from self._where(stop)
            case "p" | "print" if rest:
                try:
                    yield preview(self._debugger.value(levels, rest), 2_000)
                except NotEvaluated as error:
                    yield str(error)
            case "b" | "break":
                yield from self._breakpoints(rest)
            case "d" | "delete" if rest.isdecimal():
                kept = [one for one in self._debugger.breakpoints if one.line != int(rest)]
                yield "deleted" if len(kept) < len(self._debugger.breakpoints) else f"none at line {rest}"
                self._debugger.breakpoints = kept
            case "failures" if rest in {*FailureStops}:
                self._debugger.failures = FailureStops(rest)
            case _:
                yield HELP

    def _variables(self, stop: Stop) -> Iterator[str]:
        rows = self._debugger.shown(stop.levels[self._level])
        for name, value, label in rows:
            yield f"  ${name} = {preview(value, _WIDTH)}{f'   [{label}]' if label else ''}"
        if not rows:
            yield "  no variable is set"

    def _text(self, stop: Stop) -> Iterator[str]:
        place = self._debugger.places.place(stop.levels[self._level].step)
        if place is not None:
            marked = {one.line for one in self._debugger.breakpoints}
            last = len(self._debugger.places.source.text.splitlines())
            for number in range(max(1, place[0] - _AROUND), min(last, place[0] + _AROUND) + 1):
                mark = ("*" if number in marked else " ") + (">" if number == place[0] else " ")
                yield f"{mark}{number:4}  {self._line(number)}"

    def _breakpoints(self, text: str) -> Iterator[str]:
        if text:
            try:
                yield self._break(text) or "no statement has this id or line"
            except _Misread as wrong:
                yield str(wrong)
            return
        for one in self._debugger.breakpoints:
            yield f"  line {one.line}{f' if {one.condition}' if one.condition else ''}"

    def _break(self, text: str) -> str | None:
        """Set a breakpoint; what is said of it, None if there is no such statement. Raises _Misread."""
        where, _, condition = text.partition(" if ")
        where = where.strip()
        wrong = Breakpoint(0, (), condition.strip()).misread()
        if wrong:
            raise _Misread(wrong)
        if where.isdecimal():
            one = self._debugger.break_at(int(where), condition.strip())
            return f"stops at line {one.line}" if one.steps else None
        found = self._debugger.break_at_step(where)
        if found is None:
            return None
        found.condition = condition.strip()
        return f"stops at line {found.line}"


class _Misread(Exception):
    """A breakpoint whose condition is no expression."""


async def _read(prompt: str) -> str | None:
    """A line from the terminal, without blocking the calls under way; None at its end."""

    def read() -> str | None:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
        return line.strip() if line else None

    return await asyncio.to_thread(read)
