"""Decrypts the sealed body of an event, so that a run can be resumed.

Code that only displays a run must not do this.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from callsheet.sealing.keys import KeyRing, NotOpened, SealKey
from callsheet.sealing.sealer import DECLARED, LABEL, SEALED


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
