"""The interpreter of pure code: a pool of Monty's worker processes, and how a piece of code may end.

In: a program (or its source), named values and the names that are wanted. Out: an `Outcome`; nothing that the
code does is an exception here. Code never runs in this process, and its worker has no files, network,
environment or clock: `now` is the time that it sees. Monty is pinned to one version, for which the tables of
what code may say were made; it is imported with the first piece of code.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.pure_code import (
    NOT_A_VALUE,
    RAISED,
    Fragment,
    Inputs,
    Place,
    PureProgram,
    pure_program,
)
from callsheet.frontends.pure_code.helpers import has_helper
from callsheet.machine.expressions.values import Kept

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError, MontyRuntimeError, MontySession

_MARK: Final = "\x00kept"
_PLAIN: Final = (
    type(None), bool, int, float, str, bytes, date, datetime, time, timedelta, timezone, Decimal,
)  # fmt: skip
_PLAIN_SET: Final = frozenset(_PLAIN)
_DEEPEST: Final = 400


class NotAValue(Exception):
    """A value that cannot go into pure code; the message names its type and the path to it."""


class Given(NamedTuple):
    """Named values as the interpreter takes them; `has_kept` says that objects have to be made from some.

    `helpers` are the classes of those among these that the standard library has and the interpreter lacks.
    """

    values: dict[str, Any]
    has_kept: bool
    has_sets: bool
    helpers: frozenset[str] = frozenset()


def given(inputs: Mapping[str, Any]) -> Given:
    """Values on their way in; an object that two names share is shared inside too.

    Raises NotAValue for one that code cannot have.
    """
    if all(map(_goes_as_it_is, inputs.values())):
        return Given(dict(inputs), False, False)
    walk = _Walk()
    values = {name: walk.convert(value, name, 0) for name, value in inputs.items()}
    return Given(values, walk.has_kept, walk.has_sets, frozenset(walk.helpers))


def _goes_as_it_is(value: Any) -> bool:
    """Whether a value has only JSON data, tuples and plain values in it, which need no conversion."""
    if type(value) in _PLAIN_SET:
        return True
    stack: list[Any] = [value]
    seen: set[int] = set()
    while stack:
        one = stack.pop()
        kind = cast("type[Any]", type(one))
        if kind is dict:
            parts = (*one, *one.values())
        elif kind is list or kind is tuple:
            parts = one
        else:
            return False
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > _DEEPEST and not stack and len(parts) == 1:
            return False  # it may be a long chain, which the other way counts
        stack.extend([part for part in parts if type(part) not in _PLAIN_SET])
    return True


class _Walk:
    """Converts values; a container that occurs twice is converted once."""

    def __init__(self) -> None:
        self.has_kept = self.has_sets = False
        self.done: dict[int, Any] = {}
        self.helpers: set[str] = set()

    def convert(self, value: Any, path: str, depth: int) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN:
            return value
        known = self.done.get(id(value))
        if known is not None:
            return known
        if depth > _DEEPEST:
            raise NotAValue(f"{path[:60]}… is nested in more than {_DEEPEST} others")
        if isinstance(value, Kept):
            self.done[id(value)] = made = self._kept(value.kind, value.parts, path, depth)
            return made
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), path, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._sequence(cast("Iterable[Any]", value), path, depth)
        if isinstance(value, deque):
            items = cast("deque[Any]", value)
            return self._kept("deque", (list(items), items.maxlen), path, depth)
        if isinstance(value, re.Pattern):
            pattern = cast("re.Pattern[Any]", value)
            return self._kept("pattern", (pattern.pattern, pattern.flags), path, depth)
        for plain in _PLAIN:  # an enumeration of texts, a subclass of int
            if isinstance(value, plain):
                return cast("Any", plain)(value) if plain in (int, float, str, bytes) else value
        raise NotAValue(f"{path} is of type {kind.__name__}, which code cannot be given")

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        if isinstance(value, Counter):
            return self._kept("Counter", (dict(value),), path, depth)
        if isinstance(value, defaultdict):
            factory = value.default_factory
            name = None if factory is None else getattr(factory, "__name__", "")
            return self._kept("defaultdict", (name, dict(value)), path, depth)
        if isinstance(value, OrderedDict):
            return self._kept("OrderedDict", (dict(value),), path, depth)
        result: dict[Any, Any] = {}
        self.done[id(value)] = result
        for key, item in value.items():
            result[self.convert(key, path, depth + 1)] = self.convert(item, f"{path}[{key!r}]", depth + 1)
        return result

    def _sequence(self, value: Iterable[Any], path: str, depth: int) -> Any:
        if isinstance(value, list):
            result: list[Any] = []
            self.done[id(cast("Any", value))] = result
            for at, item in enumerate(value):
                result.append(self.convert(item, f"{path}[{at}]", depth + 1))
            return result
        items = [self.convert(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            return tuple(items)
        self.has_sets = True
        return frozenset(items) if isinstance(value, frozenset) else set(items)

    def _kept(self, kind: str, parts: tuple[Any, ...], path: str, depth: int) -> Any:
        self.has_kept = True
        if kind == "helper":
            if not has_helper(str(parts[0])):
                raise NotAValue(f"{path} is of type {parts[0]}, which code cannot be given")
            self.helpers.add(str(parts[0]))
        return (_MARK, kind, *(self.convert(part, path, depth + 1) for part in parts))


def taken(value: Any) -> Any:
    """A value that came out, with its `Kept` parts; what is shared in it stays shared."""
    return _taken(value, {})


def _taken(value: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    """`done` has what was converted, and what it was made from, so that no identity is used again."""
    if not isinstance(value, (tuple, list, dict)):
        return value
    known = done.get(id(cast("Any", value)))
    if known is not None:
        return known[0]
    made: Any
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        if items and items[0] == _MARK:
            made = Kept(items[1], tuple(_taken(part, done) for part in items[2:]))
        else:
            made = tuple(_taken(item, done) for item in items)
        done[id(items)] = made, items
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
        made = []
        done[id(parts)] = made, parts
        made.extend(_taken(item, done) for item in parts)
    else:
        table = cast("dict[Any, Any]", value)
        made = {}
        done[id(table)] = made, table
        made.update({_taken(key, done): _taken(item, done) for key, item in table.items()})
    return made


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What one piece of code may use: memory in bytes, time in seconds, calls inside calls, bytes printed.

    Time is processor time of the worker: waiting for a free worker is not counted. Whoever records outcomes
    replays them, so a limit on time never makes a replay differ.
    """

    memory: int = 256 << 20
    seconds: float = 10.0
    depth: int = 1000
    printed: int = 1 << 20


class Limit(StrEnum):
    """A limit that was reached."""

    MEMORY = "memory"
    TIME = "time"
    DEPTH = "depth"
    PRINTED = "printed"


class Outputs(NamedTuple):
    """The code ended: the values of the names that were asked for and have one, and what it printed."""

    values: Mapping[str, Any]
    printed: str = ""


class Raised(NamedTuple):
    """The code raised an exception that nothing in it caught.

    `kind` is the name of its class, as CPython has it, and `bases` are those that would catch it, nearest
    first, itself included. `fields` are the attributes of an exception whose class is the program's.
    """

    kind: str
    message: str
    bases: tuple[str, ...]
    place: Place | None
    fields: Mapping[str, Any]


class LimitReached(NamedTuple):
    """The code used more than its limits allow, and was stopped; nothing in it can catch that."""

    limit: Limit
    message: str
    place: Place | None


class NotUnderstood(NamedTuple):
    """The code says what the interpreter cannot do, or gives what is no value; `rewrite` is the way out."""

    message: str
    place: Place | None
    rewrite: str


class WorkerDied(NamedTuple):
    """The worker process ended in the middle of the code; the next piece gets another one.

    Pure code changes nothing, so it may be run again.
    """

    message: str


Outcome = Outputs | Raised | LimitReached | NotUnderstood | WorkerDied
"""How a piece of code ended."""


PINNED: Final = "1.4.0"
"""The version of Monty that the extra `python` installs."""
_PACKAGE: Final = "pydantic-monty"
_GRACE: Final = 5.0
"""Seconds after its time in which a worker has to stop by itself, before it is killed."""
_LACKS: Final = "The monty"
_CIRCULAR: Final = "Circular reference detected"
_BROKEN: Final = "Internal error in monty"
"""What the interpreter says of code that it cannot run."""
_MAIN: Final = "<python-input-1>"
_Raised = tuple[tuple[str, ...], str, dict[str, Any], int, int]
"""What the helper says of an error that is an object of the program: classes, words, fields, line, column."""
_DATES: Final = "'datetime.datetime' and 'datetime.datetime'"
_WORDS: Final = {
    f"unsupported operand type(s) for -: {_DATES}": "can't subtract offset-naive and offset-aware datetimes",
    **{
        f"'{sign}' not supported between instances of {_DATES}": (
            "can't compare offset-naive and offset-aware datetimes"
        )
        for sign in ("<", "<=", ">", ">=")
    },
}
"""What CPython says instead of the interpreter."""
_EXTRA: Final = "pip install 'callsheet[python]'"


def interpreter_version() -> str:
    """The version of the interpreter, as it is recorded with a run; nothing is imported for it.

    Raises CallsheetError (CFG232) if it is not installed, or another version than the pinned one is.
    """
    try:
        installed = version(_PACKAGE)
    except PackageNotFoundError:
        message = f"pure Python code needs a package that is not installed ({_PACKAGE})"
        raise CallsheetError.single("CFG232", message, help=_EXTRA) from None
    if installed != PINNED:
        message = f"pure Python code needs {_PACKAGE} {PINNED}, and {installed} is installed"
        raise CallsheetError.single("CFG232", message, help=_EXTRA)
    return f"monty {installed}"


class PythonCode:
    """Runs pieces of pure code, each in a session of its own; a context manager that ends its workers.

    Its methods may be called from several threads. A worker that dies ends one piece of code; the next one
    gets another worker.

    >>> with PythonCode() as code:
    ...     code.compute("y = [x * 2 for x in xs]", {"xs": [1, 2]}, ["y"]).values
    {'y': [2, 4]}
    """

    def __init__(self, limits: CodeLimits | None = None, *, workers: int = 2) -> None:
        """Keep at most `workers` processes; none is started before the first piece of code."""
        self.limits = limits or CodeLimits()
        self._workers = workers
        self._pool: Monty | None = None
        self._lock = Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, at once or when the code that runs in them ends; nothing runs here afterwards."""
        with self._lock:
            pool, self._pool, self._is_closed = self._pool, None, True
        if pool is not None:
            pool.__exit__(None, None, None)

    def compute(
        self,
        source: str | Fragment | Iterable[Fragment] | PureProgram,
        inputs: Mapping[str, Any],
        outputs: Iterable[str],
        *,
        now: datetime | None = None,
        limits: CodeLimits | None = None,
    ) -> Outcome:
        """Run code with the names in `inputs`, and give the values that `outputs` have afterwards.

        A name that has none then is missing from the values. `now` is the clock of the code, one moment for
        all of it; code that asks for the time without one fails. Places in the outcome are those of the file
        (`Fragment.line`, `.column`). Blocks the thread.

        Raises CodeRefused for source that pure code may not say, CallsheetError (CFG232) if the interpreter
        is not installed.
        """
        used = limits or self.limits
        try:
            taken_in = given(inputs)
        except NotAValue as error:
            return NotUnderstood(str(error), None, "give the code JSON data, dates or numbers")
        if isinstance(source, PureProgram):
            program = source
        else:
            known = Inputs(frozenset(inputs), taken_in.has_sets, taken_in.has_kept, taken_in.helpers)
            program = pure_program(_fragments(source), known)
        text = _with_outputs(program, outputs)
        return self._run(program, text, taken_in.values, now, used)

    async def compute_async(
        self,
        source: str | Fragment | Iterable[Fragment] | PureProgram,
        inputs: Mapping[str, Any],
        outputs: Iterable[str],
        *,
        now: datetime | None = None,
        limits: CodeLimits | None = None,
    ) -> Outcome:
        """`compute`, in a thread: the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.compute, source, inputs, outputs, now=now, limits=limits)

    def _run(
        self,
        program: PureProgram,
        text: str,
        inputs: dict[str, Any],
        now: datetime | None,
        limits: CodeLimits,
    ) -> Outcome:
        self._opened()  # says what is missing
        from pydantic_monty import CollectString, MontyCrashedError, MontyError  # noqa: PLC0415

        printed = CollectString(max_bytes=limits.printed)
        try:
            with self._session(limits, now) as session:
                session.feed_run(program.helpers)
                try:
                    values = session.feed_run(text, inputs=inputs, print_callback=printed)
                except MontyCrashedError:
                    raise
                except MontyError as error:
                    return _failed(error, program, session, limits)
        except MontyCrashedError as error:
            if error.timed_out:
                return LimitReached(Limit.TIME, _time_message(limits), None)
            return WorkerDied(f"the process that ran the code ended: {error}")
        return Outputs(cast("dict[str, Any]", taken(values)), printed.output)

    def _session(self, limits: CodeLimits, now: datetime | None) -> MontySession:
        """A session of its own for one piece of code. Raises CallsheetError if the interpreter is missing."""
        clock = "call_host" if now is None else now
        return self._opened().checkout(
            script_name="plan.py",
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_recursion_depth": limits.depth,
            },
            assert_message_annotations=False,
            os_policy={"datetime": clock, "sleep": "call_host", "random_start": "call_host"},
        )

    def _opened(self) -> Monty:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("this interpreter has been closed")
            if self._pool is None:
                interpreter_version()
                from pydantic_monty import Monty  # noqa: PLC0415 - 20 ms, and only where code needs it

                pool = Monty(max_processes=self._workers, feed_duration_limit_grace=_GRACE)
                self._pool = pool.__enter__()
            return self._pool


def _fragments(source: str | Fragment | Iterable[Fragment]) -> Iterable[Fragment]:
    if isinstance(source, str):
        return (Fragment(source),)
    return (source,) if isinstance(source, Fragment) else source


def _with_outputs(program: PureProgram, outputs: Iterable[str]) -> str:
    """The text of a program, whose value is its outputs."""
    give = "_cs_give_objects" if program.has_objects else "_cs_give"
    lines = [program.text, "_cs_out = {}"]
    for name in outputs:
        lines.append(f"try: _cs_out[{name!r}] = {give}({name!r}, {name})\nexcept NameError: pass")
    return "\n".join([*lines, "_cs_out"])


def _failed(error: MontyError, program: PureProgram, session: MontySession, limits: CodeLimits) -> Outcome:
    """What an error of the interpreter means: a limit, what it cannot do, or an exception of the program."""
    from pydantic_monty import MontyRuntimeError  # noqa: PLC0415

    raised = error.exception()
    message = str(raised.args[0]) if len(raised.args) == 1 else str(raised)
    if not isinstance(error, MontyRuntimeError):
        return NotUnderstood(message, None, "write it in another way")
    place = _place_of(error, program)
    limit = limit_of(raised, message, limits)
    if limit is not None:
        return LimitReached(*limit, place)
    if message.startswith(NOT_A_VALUE):
        name, _, kind = message.removeprefix(NOT_A_VALUE).partition(":")
        what = f"{name} holds a {kind}, which cannot leave the piece of code that made it"
        return NotUnderstood(what, None, "make it where it is used, or keep its data: a list, a dict, a text")
    if place is None and message == _CIRCULAR:
        return NotUnderstood("an input holds itself", None, "give the code data without cycles")
    if isinstance(raised, NotImplementedError) and message.startswith(_LACKS):
        return NotUnderstood(message, place, "write it in another way")
    if message.startswith(_BROKEN):
        return NotUnderstood(message, place, "write it in another way")
    if message.startswith(RAISED):
        said = session.feed_run(f"_cs_raised({message.removeprefix(RAISED)!r})")
        kinds, message, fields, line, column = cast("_Raised", said)
        at = Place(line, column) if line else place
        return Raised(kinds[0], message, kinds, at, cast("dict[str, Any]", taken(fields)))
    if isinstance(raised, KeyError) and raised.args:
        message = repr(raised.args[0])
    message = _WORDS.get(message, message)
    bases = tuple(base.__name__ for base in type(raised).__mro__[:-1])
    return Raised(type(raised).__name__, message, bases, place, {})


def limit_of(raised: BaseException, message: str, limits: CodeLimits) -> tuple[Limit, str] | None:
    """The limit that an exception of the interpreter means, with a message; None if it means none."""
    if isinstance(raised, TimeoutError) and "time limit exceeded" in message:
        return Limit.TIME, _time_message(limits)
    if isinstance(raised, RecursionError):
        return Limit.DEPTH, f"more than {limits.depth} calls stand inside each other"
    if isinstance(raised, MemoryError):
        if message.endswith(f"> {limits.printed} bytes"):
            return Limit.PRINTED, f"the code printed more than {limits.printed:,} bytes"
        return Limit.MEMORY, f"the code needs more than {limits.memory >> 20} MiB of memory"
    return None


def _place_of(error: MontyRuntimeError, program: PureProgram) -> Place | None:
    """Where in the file an error was raised: the innermost frame that is in the file."""
    for frame in reversed(error.traceback()):
        if frame.filename == _MAIN:
            place = program.source_place(frame.line, frame.column)
            if place is not None:
                return place
    return None


def _time_message(limits: CodeLimits) -> str:
    return f"the code ran for more than {limits.seconds:g} seconds"
