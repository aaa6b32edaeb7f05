"""Seals the secret parts of values in encrypted boxes, and opens them with the key."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias, cast

from callsheet import lazy
from callsheet.sealing.keys import (
    KeyRing,
    Keys,
    NotOpened,
    SealKey,
    bytes_of,
    is_nothing,
    kind_of,
    placeholder,
    veiled,
)
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, Span, has_no_text, known_by_name, texts_in

Path: TypeAlias = "tuple[str | int, ...]"
"""The path to a place in a body: keys of objects and indexes of lists."""
SEALED = "sealed"
LABEL, DECLARED = "label", "declared"
"""Reasons: the label of the value says so, or whoever started the run declared it."""
Names: TypeAlias = "Callable[[], Collection[str]]"
"""Returns the names that the run's plan uses."""
_SNAPSHOT = "snapshot"
_INPUTS, _VALUE = "inputs", "value"
_WORD = lazy.pattern(r"\w+")
_ONE_NAME = 2
"""The number of quote characters in the JSON of an object with one key and no text."""


class Sealer:
    """Seals the events of one run. `keys` is called when the first secret is found, and may raise.

    `names` are those that the run's plan uses: secret objects keep their entries of these names as structure.
    With a `run_id` the boxes are bound to that run. `has_sealed` means that something of the run is sealed
    already, so that its snapshots are sealed as well.
    """

    def __init__(
        self,
        keys: Keys,
        finder: Finder,
        names: Names = frozenset,
        *,
        run_id: str = "",
        has_sealed: bool = False,
    ) -> None:
        self._keys = keys
        self._run_id = run_id
        self._finder = finder
        self._names = names
        self._may_find = finder.may_find
        self._is_idle = finder.is_idle
        self.has_sealed = has_sealed

    @property
    def finder(self) -> Finder:
        """The finder in use."""
        return self._finder

    def knows_in(self, text: str) -> bool:
        """Whether the text contains a known secret."""
        return any(True for _ in self._finder.known.found_in(text))

    def know(self, more: Known) -> None:
        """Search for these secrets as well from now on."""
        self._finder = finder = self._finder.knowing(more)
        self._may_find, self._is_idle = finder.may_find, finder.is_idle

    def go_on(self, declared: Known) -> None:
        """Continue a run of which something is sealed, with the secrets that it was given."""
        self.has_sealed = True
        self.know(declared)

    def sealed(
        self, kind: str, body: Mapping[str, Any], data: bytes, secret: Mapping[Path, str] | None = None
    ) -> dict[str, Any] | None:
        """The body to write instead of this one, whose JSON is `data`; None if it may stay as it is.

        `secret` maps the paths of values that are secret as a whole to the reasons.
        """
        sums_up = self.has_sealed and kind == _SNAPSHOT
        # a body without texts, such as a number, is skipped quickly
        has_any = data.count(b'"') > _ONE_NAME or self._finder.known.has_numbers
        if not (secret or sums_up or (has_any and not self._is_idle and self._may_find(data))):
            return None
        copy: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        work = _Work(self._keys, self._names, self._run_id)
        for path, why in (secret or {}).items():
            work.seal_value(copy, path, why)
        if not self._is_idle:
            named = _Search(self._finder, work).through(copy)
            self.know(known_by_name(named))
        if kind == _SNAPSHOT and (sums_up or work.at):
            work = _Work(self._keys, self._names, self._run_id)
            copy = json.loads(data.decode("utf-8", "surrogatepass"))
            for name in ("state", "asked", "decided"):
                work.seal_value(copy, (name,), "it summarizes sealed values", shows=False)
        if not work.at:
            return None
        self.has_sealed = True
        return {**copy, SEALED: work.to_json()}


class _Work:
    """Collects the boxes of one body while it is being sealed."""

    def __init__(self, keys: Keys, names: Names, run_id: str) -> None:
        self._ring = keys
        self._run_id = run_id
        self._names_of = names
        self._key: SealKey | None = None
        self._numbers: dict[tuple[bytes, bool], int] = {}
        self._boxes: list[list[Any]] = []
        self.at: list[list[Any]] = []
        self._taken: set[Path] = set()

    @property
    def key(self) -> SealKey:
        if self._key is None:
            self._key = self._ring().sealing
        return self._key

    @cached_property
    def _names(self) -> Collection[str]:
        return self._names_of()

    def to_json(self) -> dict[str, Any]:
        bound = {"run": self._run_id} if self._run_id else {}
        return {"key": self.key.name, **bound, "boxes": self._boxes, "at": self.at}

    def is_taken(self, path: Path) -> bool:
        return path in self._taken

    def seal_value(self, body: dict[str, Any], path: Path, why: str, *, shows: bool = True) -> None:
        """Seal the value at a path, unless it is missing or empty; `shows` keeps known structure visible."""
        *parents, last = path
        part: Any = body
        for name in parents:
            part = part[name]
        if last not in part and not isinstance(last, int):
            return
        value: Any = part[last]
        if is_nothing(value):
            return
        self._taken.add(path)
        self.at.append([list(path), self._box(value, why)])
        part[last] = veiled(value, self.key, self._names) if shows else placeholder(value, self.key)

    def parts(self, text: str, spans: list[Span], path: Path) -> str:
        """Seal spans of the text at a path; returns the text with placeholders."""
        shown, places, done = "", list[list[int]](), 0
        for start, end, why in spans:
            secret = text[start:end]
            shown += text[done:start]
            masker = placeholder(secret, self.key)
            places.append([len(shown), len(shown) + len(masker), self._box(secret, why)])
            shown += masker
            done = end
        self.at.append([list(path), places])
        return shown + text[done:]

    def _box(self, value: object, why: str) -> int:
        name = (bytes_of(value), isinstance(value, str))
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._boxes)
            kind, size = kind_of(value)
            encoded = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
            digest, box = self.key.digest(name[0]), self.key.seal(encoded, self._run_id)
            self._boxes.append([digest, kind, size, why, box])
        return number


class _Search:
    """Walks through a body and seals the secrets that the finder sees."""

    def __init__(self, finder: Finder, work: _Work) -> None:
        self._finder = finder
        self._work = work
        self._has_spans = True
        """Whether a text or a name may contain a secret."""

    def through(self, body: dict[str, Any]) -> list[str]:
        """Seal every secret in the body; returns the texts that only their field name made secret."""
        named = list[str]()
        self._has_spans = self._finder.sees_in_any(texts_in(body))
        known = self._finder.known
        stack: list[tuple[Any, Path]] = [(body, ())]
        while stack:
            part, path = stack.pop()
            for name, value in _entries(part, has_numbers=known.has_numbers):
                place = (*path, name)
                if self._work.is_taken(place):
                    continue
                if isinstance(value, str):
                    part[name] = self._text(name, value, place, named)
                elif isinstance(value, dict) and self._is_named_by_secrets(cast("dict[str, Any]", value)):
                    self._work.seal_value(body, place, "its names contain a secret", shows=False)
                elif isinstance(value, dict | list):
                    stack.append((cast("Any", value), place))
                elif place[0] == _VALUE and (why := known.why_of(value)) is not None:
                    self._work.seal_value(body, place, why)
        return named

    def _text(self, name: str | int, text: str, place: Path, named: list[str]) -> str:
        spans = self._finder.spans(text) if self._has_spans else []
        if isinstance(name, str) and len(place) > 1:
            why = self._finder.whole(name, text)
            if why is not None:
                if not spans:
                    named.append(text)
                spans = [Span(0, len(text), spans[0].why if spans else why)]
        return self._work.parts(text, spans, place) if spans else text

    def _is_named_by_secrets(self, value: Mapping[str, Any]) -> bool:
        return self._has_spans and any(self._finder.spans(name) for name in value)


def _entries(part: Any, *, has_numbers: bool) -> Iterable[tuple[str | int, Any]]:
    """The (key, value) pairs of an object, or of a list in which there may be something to look for.

    They are copied, so that they can be changed during iteration.
    """
    if isinstance(part, dict):
        return list(cast("dict[str, Any]", part).items())
    items = cast("list[Any]", part)
    return () if has_no_text(items) and not has_numbers else list(enumerate(items))


def names_in(plan: str) -> frozenset[str]:
    """All words in a plan's text; this includes every key that the plan uses."""
    return frozenset(_WORD.findall(plan))


def inputs_at(names: Iterable[str], why: str) -> dict[Path, str]:
    """The paths of these inputs in the body of a start event, each with the reason."""
    return {(_INPUTS, name): why for name in names}


class WrongKey(Exception):
    """The body was sealed with another key; `name` is that key's, `available` are the keys at hand."""

    def __init__(self, name: str, have: tuple[str, ...]) -> None:
        super().__init__(f"it was sealed with the key {name}")
        self.name = name
        self.available = have


def is_sealed(body: Mapping[str, Any] | None) -> bool:
    """Whether parts of a body are sealed."""
    return body is not None and SEALED in body


def opened(
    body: dict[str, Any], ring: KeyRing, run_id: str, saw: Callable[[object, str], None] | None = None
) -> dict[str, Any]:
    """The original body of an event of a run, restored in place from a sealed one.

    `saw` is called with each decrypted value and the reason why it was sealed. Raises WrongKey, and NotOpened
    if the boxes were sealed for another run, or if a box or their description is damaged.
    """
    sealed = body.pop(SEALED)
    key = _key_of(sealed, ring)
    try:
        bound = _run_of(sealed, run_id)
        boxes = [key.open(box, bound) for *_, box in sealed["boxes"]]
        values = [json.loads(box.decode("utf-8", "surrogatepass")) for box in boxes]
        if saw is not None:
            for value, (_, _, _, why, _) in zip(values, sealed["boxes"], strict=True):
                saw(value, why)
        for path, places in sealed["at"]:
            _put(body, path, places, values)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise NotOpened(f"its description cannot be read: {error!r}") from error
    return body


def rebound(body: Mapping[str, Any], ring: KeyRing, run_id: str, new_run_id: str) -> dict[str, Any]:
    """The sealed body of an event of a run, with its boxes bound to another run that copies the event.

    Raises as `opened` does.
    """
    sealed = body[SEALED]
    key = _key_of(sealed, ring)
    try:
        bound = _run_of(sealed, run_id)
        boxes = [[*about, key.seal(key.open(box, bound), new_run_id)] for *about, box in sealed["boxes"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NotOpened(f"its description cannot be read: {error!r}") from error
    return {**body, SEALED: {**sealed, "run": new_run_id, "boxes": boxes}}


def _key_of(sealed: Mapping[str, Any], ring: KeyRing) -> SealKey:
    key = ring.opening.get(sealed["key"])
    if key is None:
        raise WrongKey(str(sealed["key"]), tuple(ring.opening))
    return key


def _run_of(sealed: Mapping[str, Any], run_id: str) -> str:
    """The run that boxes are bound to, which has to be this one; "" for boxes that are bound to none."""
    bound = sealed.get("run", "")
    if bound not in ("", run_id):
        raise NotOpened(f"it was sealed for another run, {str(bound)[:80]!r}")
    return bound


def _put(body: dict[str, Any], path: list[Any], places: Any, values: list[Any]) -> None:
    part: Any = body
    for name in path[:-1]:
        part = part[name]
    last = path[-1]
    if isinstance(places, int):
        part[last] = values[places]
        return
    text: str = part[last]
    for start, end, number in reversed(places):
        text = text[:start] + values[number] + text[end:]
    part[last] = text


def declared_in(start: Mapping[str, Any], sealed: Mapping[str, Any]) -> Iterator[Any]:
    """The values of the declared-secret inputs, from the decrypted body of a start and its `sealed` entry."""
    boxes = sealed["boxes"]
    for path, places in sealed["at"]:
        if isinstance(places, int) and path[0] == "inputs" and boxes[places][3] in (DECLARED, LABEL):
            yield start["inputs"][path[1]]


def replaced_in(edit: Mapping[str, Any], sealed: Mapping[str, Any]) -> Iterator[Any]:
    """The values that replace secrets, from the decrypted body of an edit and its `sealed` entry."""
    for path, places in sealed["at"]:
        if isinstance(places, int) and path[0] == "values":
            yield edit["values"][path[1]]


def without_boxes(start: dict[str, Any], inputs: Iterable[str]) -> dict[str, Any]:
    """The body of a start without the boxes of these inputs, whose values are being replaced."""
    if SEALED not in start:
        return start
    sealed, others = start[SEALED], set(inputs)
    at = [place for place in sealed["at"] if not (place[0][0] == "inputs" and place[0][1] in others)]
    return {**start, SEALED: {**sealed, "at": at}}


def shown(body: dict[str, Any] | None) -> dict[str, Any] | None:
    """A body for display: its `sealed` entry lists digest, kind, size and reason, without the boxes."""
    if body is None or SEALED not in body:
        return body
    sealed = body[SEALED]
    rows = [dict(zip(("digest", "kind", "size", "why"), box, strict=False)) for box in sealed["boxes"]]
    return {**body, SEALED: {"key": sealed["key"], "secrets": rows}}
