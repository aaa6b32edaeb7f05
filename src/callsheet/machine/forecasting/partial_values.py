"""Values of which only a part may be known, and the variables of a forecast that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON, Cast, PathPart
from callsheet.machine.program import ToolFacts
from callsheet.machine.values import cast_value, is_empty, items_of, to_text, walk

_MOST_PATH = 30


@dataclass(frozen=True, slots=True)
class Unknown:
    """A placeholder for a value that only a run will know.

    `what` describes it (`READ_FILE result`, `$x`), `step` is the step that gives it, None if it is not one
    step's; `path` is the path inside that value. `kind` is the cast applied to it, or another word for its
    type; None if unknown. `whole` is the text of which `what` is the beginning, "" where that is all.
    """

    what: str
    step: str | None = None
    path: tuple[PathPart, ...] = ()
    kind: str | None = None
    whole: str = field(default="", compare=False)

    def at(self, part: PathPart) -> Unknown:
        """The placeholder for a part of the value."""
        path = (*self.path, part)[-_MOST_PATH:]
        return replace(self, path=path, kind=None)

    def __str__(self) -> str:
        return f"<{'.'.join([self.what, *map(str, self.path)])}>"


class Text(NamedTuple):
    """A text with placeholders in it; no two neighbouring parts are texts."""

    parts: tuple[str | Unknown, ...]


class Items(NamedTuple):
    """A list of known length; at least one item is not fully known."""

    items: tuple[Foreseen, ...]


class Fields(NamedTuple):
    """A dict with known keys; at least one value is not fully known."""

    pairs: tuple[tuple[str, Foreseen], ...]


Partial: TypeAlias = "Unknown | Text | Items | Fields"
Foreseen: TypeAlias = "JSON | Partial"
"""A value as far as it is known before the run."""
_PARTIAL = (Unknown, Text, Items, Fields)


def is_known(value: Foreseen) -> bool:
    """Whether the value is fully known."""
    return not isinstance(value, _PARTIAL)


def list_of(items: Sequence[Foreseen]) -> Foreseen:
    """The list of these items."""
    return Items(tuple(items)) if any(isinstance(item, _PARTIAL) for item in items) else list(items)  # pyright: ignore[reportReturnType]


def dict_of(pairs: Sequence[tuple[str, Foreseen]]) -> Foreseen:
    """The dict of these keys and values."""
    if any(isinstance(value, _PARTIAL) for _, value in pairs):
        return Fields(tuple(pairs))
    return dict(pairs)  # pyright: ignore[reportReturnType]


def at_least(value: Foreseen, made: dict[int, Any]) -> Any:
    """A value of data that is no larger than what the run will have, with null for each placeholder.

    A part that stands in it more than once is made once: `made` has those so far, by identity.
    """
    match value:
        case Unknown() | Text():
            return None
        case Items(items=items):
            if id(value) not in made:
                made[id(value)] = [at_least(item, made) for item in items]
            return made[id(value)]
        case Fields(pairs=pairs):
            if id(value) not in made:
                made[id(value)] = {name: at_least(part, made) for name, part in pairs}
            return made[id(value)]
        case _:
            return value


def text_of(parts: Sequence[str | Unknown]) -> str | Text:
    """The text made of these parts, with neighbouring texts joined.

    >>> text_of(["a", "b"]), text_of(["a", "", Unknown("X result")])
    ('ab', Text(parts=('a', Unknown(what='X result', step=None, path=(), kind=None, whole=''))))
    """
    pieces: list[str | Unknown] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if any(texts):
            pieces.append("".join(texts))
        texts = []
        pieces.append(part)
    if not pieces:
        return "".join(texts)
    if any(texts):
        pieces.append("".join(texts))
    return Text(tuple(pieces))


def parts_of_text(value: Foreseen) -> tuple[str | Unknown, ...]:
    """What a value inside a text contributes to it."""
    match value:
        case Unknown():
            return (value,)
        case Text(parts=parts):
            return parts
        case Items():
            return (Unknown("a list of " + str(next(unknowns_of(value)))[1:-1], kind="text"),)
        case Fields():
            return (Unknown("an object of " + str(next(unknowns_of(value)))[1:-1], kind="text"),)
        case _:
            return (to_text(value),)


def unknowns_of(value: Foreseen) -> Iterator[Unknown]:
    """The placeholders in a value, in order."""
    stack: list[Foreseen] = [value]
    while stack:
        current = stack.pop()
        match current:
            case Unknown():
                yield current
            case Text(parts=parts):
                yield from (part for part in parts if isinstance(part, Unknown))
            case Items(items=items):
                stack.extend(reversed(items))
            case Fields(pairs=pairs):
                stack.extend(part for _, part in reversed(pairs))
            case _:
                pass


def at_path(value: Foreseen, path: tuple[PathPart, ...]) -> Foreseen:
    """The value at a dot path; a path into something unknown is unknown."""
    for index, part in enumerate(path):
        match value:
            case Unknown():
                value = value.at(part)
            case Text():
                value = Unknown("a text").at(part)
            case Items(items=items):
                value = walk(list(items), (part,))
            case Fields(pairs=pairs):
                value = walk(dict(pairs), (part,))
            case _:
                return walk(value, path[index:])
    return value


def emptiness(value: Foreseen) -> bool | None:
    """Whether the value is empty; None if that is not known."""
    match value:
        case Unknown():
            return None
        case Text(parts=parts):
            return False if any(isinstance(part, str) and not is_empty(part) for part in parts) else None
        case Items() | Fields():
            return False
        case _:
            return is_empty(value)


def items_foreseen(source: Foreseen) -> Sequence[Foreseen] | None:
    """The items that a FOREACH iterates over; None if they are not known."""
    match source:
        case Unknown() | Text():
            return None
        case Items(items=items):
            return items
        case Fields():
            return (source,)
        case _:
            return items_of(source)


def cast_foreseen(kind: Cast | None, value: Foreseen) -> Foreseen:
    """The value after a cast; one that does not fit stays as it was."""
    if kind is None:
        return value
    match value:
        case Unknown():
            return replace(value, kind=str(kind))
        case Items() | Fields() if kind is Cast.JSON:
            return value
        case Items() if kind is Cast.LIST:
            return value
        case Text() | Items() | Fields():
            return Unknown("a value", kind=str(kind))
        case _:
            return cast_value(kind, value)[0]


def is_same(left: Foreseen, right: Foreseen) -> bool:
    """Whether two values are the same; `1`, `1.0` and `true` are three different values."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, list | dict):
        return to_text(left) == to_text(right)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
    if isinstance(left, Items | Fields):
        return False
    return left == right


class Computed(NamedTuple):
    """The outcome of a transform: its value, or the text of its error."""

    succeeds: bool
    value: JSON


class ModelUse(NamedTuple):
    """The model calls of one model operation.

    `least` and `most` count its calls if it succeeds, `most` is None if there is no bound; `tokens` estimates
    the prompts of the fewest calls, as far as their text is known (`is_whole`: all of it).
    """

    least: int
    most: int | None
    tokens: int
    is_whole: bool


Compute: TypeAlias = "Callable[[str, dict[str, Any]], Computed | None]"
"""Evaluates a transform; None for one that it does not know or whose result is too large."""
AskModel: TypeAlias = "Callable[[str, Sequence[JSON], Mapping[str, JSON], bool], ModelUse]"
"""Estimates a model operation from its inputs and arguments: unknown parts of texts are left out, unknown
values are null, and the last argument says whether all is known."""


def _nothing(tool: str, arguments: dict[str, Any]) -> None:
    return None


def _one_call(tool: str, inputs: Sequence[JSON], arguments: Mapping[str, JSON], is_whole: bool) -> ModelUse:
    return ModelUse(1, None, 0, False)


def nobody_asked(tool: str, step: str) -> bool:
    """No call needs an approval."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known about the world before a run.

    `facts` are by canonical tool name; a tool without facts is taken to be unsafe. `assumed` gives results by
    step id. `needs_approval` says, for a canonical tool name and a step that calls it, whether that needs an
    approval. At most `most_visits` items of a FOREACH are given with their arguments. Without `has_secrets`,
    the values of SECRET inputs are unknown, for forecasts that somebody reads.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    assumed: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    compute: Compute = _nothing
    ask_model: AskModel = _one_call
    needs_approval: Callable[[str, str], bool] = nobody_asked
    most_visits: int = 20
    has_secrets: bool = True


_CHUNK = 64
_LEAST_BUDGET = 200_000
_JOINS_PER_NAME = 10
MOST_STEPS = 8
"""So many steps that may have set a variable are named."""


class Binding(NamedTuple):
    """What is known of a variable; `steps` are the numbers of those that may have set it."""

    value: Foreseen = None
    steps: tuple[int, ...] = ()


UNSET = Binding()


class VariableTable:
    """The bindings of all variables, by slot."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: tuple[tuple[Binding, ...], ...]) -> None:
        self._chunks = chunks

    @classmethod
    def of(cls, size: int) -> VariableTable:
        """A table of so many variables, none of them set."""
        empty = (UNSET,) * _CHUNK
        return cls((empty,) * (size // _CHUNK + 1))

    def __getitem__(self, slot: int) -> Binding:
        return self._chunks[slot // _CHUNK][slot % _CHUNK]

    def having(self, slot: int, binding: Binding) -> VariableTable:
        """The table with another binding in this slot."""
        number, place = divmod(slot, _CHUNK)
        chunks = self._chunks
        chunk = chunks[number]
        if chunk[place] is binding:
            return self
        changed = (*chunk[:place], binding, *chunk[place + 1 :])
        return VariableTable((*chunks[:number], changed, *chunks[number + 1 :]))

    def joined(self, other: VariableTable, merger: Merger) -> VariableTable:
        """The table of a point that both lead to."""
        if self._chunks is other._chunks:
            return self
        return VariableTable(
            tuple(
                mine if mine is theirs else merger.join_chunk(number, mine, theirs)
                for number, (mine, theirs) in enumerate(zip(self._chunks, other._chunks, strict=True))
            )
        )


_Chunk: TypeAlias = "tuple[Binding, ...]"


class Merger:
    """Joins bindings of the variables of a plan; equal outcomes are one object.

    `setters` are the steps that may set each variable anywhere. All joins of a plan share one
    budget, so that no plan makes them slow: past it whole stretches of variables that differ
    somewhere are unknown.
    """

    def __init__(self, names: Sequence[str], setters: Sequence[Sequence[int]]) -> None:
        self._names = names
        self._setters = setters
        self._bindings: dict[tuple[int, tuple[int, ...]], Binding] = {}
        self._open_chunks: dict[int, _Chunk] = {}
        self._budget = max(_LEAST_BUDGET, _JOINS_PER_NAME * len(names))

    def join_chunk(self, number: int, mine: _Chunk, theirs: _Chunk) -> _Chunk:
        """The bindings of one stretch of variables where both may hold."""
        start = number * _CHUNK
        opened = self._open_chunks.get(number)
        if opened is not None and (mine is opened or theirs is opened):
            return opened
        self._budget -= sum(a is not b for a, b in zip(mine, theirs, strict=True))
        if self._budget < 0:
            slots = range(start, start + _CHUNK)
            named = [self.open(s, self._setters[s]) if s < len(self._names) else UNSET for s in slots]
            self._open_chunks[number] = chunk = tuple(named)
            return chunk
        return tuple(
            a if a is b else self(slot, a, b)
            for slot, (a, b) in enumerate(zip(mine, theirs, strict=True), start)
        )

    def open(self, slot: int, steps: Iterable[int]) -> Binding:
        """The binding of a variable that one of these steps has set, or none of them."""
        named = tuple(sorted(set(steps))[:MOST_STEPS])
        binding = self._bindings.get((slot, named))
        if binding is None:
            binding = self._bindings[slot, named] = Binding(Unknown(f"${self._names[slot]}"), named)
        return binding

    def __call__(self, slot: int, a: Binding, b: Binding) -> Binding:
        """What is known where both may hold."""
        if is_same(a.value, b.value):
            if a.steps == b.steps:
                return a
            return Binding(a.value, tuple(sorted({*a.steps, *b.steps}))[:MOST_STEPS])
        return self.open(slot, (*a.steps, *b.steps))

    def join(self, tables: Sequence[VariableTable]) -> VariableTable:
        """The table of a point that all of them lead to; neighbours are joined first."""
        level = list(tables)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            rest = level[-1:] if len(level) % 2 else []
            level = [a.joined(b, self) for a, b in pairs] + rest
        return level[0]
