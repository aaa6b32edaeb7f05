"""Builds and parses the keys of calls, `[rN/]step[@visit].item.attempt[/tN[cM]]`.

The key of a call in a plan tree names the path to it, as `S2[4]/S7[#3]/S5.1`: item 4 of S2, round 3 of S7,
step S5, attempt 1. A segment is the id of a FOREACH with its item, of a REPEAT with its round, of a CALL, or
of a block with its attempt (`S6~2`). The number of the attempt is all that follows its last dot, while other
keys have two numbers there. In the N-th part that was planned during the run, it begins with `rN//`.

In a turn-by-turn operation, `/t2` is the question to the model in the second turn, and `/t2c1` the first call
that its answer asks for. A step id that would be ambiguous in a key (JSON plans may name a step `r2/x` or
`a@3`) is escaped with `%25`, `%2F` and `%40` for `%`, `/` and `@`.
"""

from __future__ import annotations

import json
from hashlib import sha256

from callsheet import lazy
from callsheet.lazy import dataclass

_AMBIGUOUS = lazy.pattern(r"[@%]|^r[0-9]+/")
_TURN = lazy.pattern(r"(?<=[0-9])/t[0-9]+(?:c[0-9]+)?$")
_ESCAPES = {"%": "%25", "/": "%2F", "@": "%40"}
_TREE_AMBIGUOUS = lazy.pattern(r"[%/\[\]~]|\.[0-9]+$")
_TREE_ESCAPES = {**_ESCAPES, "[": "%5B", "]": "%5D", "~": "%7E"}


@dataclass(frozen=True, slots=True)
class Key:
    """The parts of a key.

    `generation` counts re-plans from 0, `visit` and `attempt` count from 1. So do `turn` and `call`, but
    `turn` is 0 outside of turns, and `call` is 0 for a turn's question.
    """

    generation: int
    step: str
    visit: int
    index: int
    attempt: int
    turn: int = 0
    call: int = 0


def turn_key(key: str, turn: int, call: int = 0) -> str:
    """The key of the question in a turn of the call `key`, or of the turn's call number `call`.

    >>> turn_key("S3.0.1", 2), turn_key("S3.0.1", 2, 1)
    ('S3.0.1/t2', 'S3.0.1/t2c1')
    """
    return f"{key}/t{turn}c{call}" if call else f"{key}/t{turn}"


def attempt_key(key: str) -> str:
    """The key of the attempt that a key belongs to: itself, or without its turn.

    >>> attempt_key("S3.0.1/t2c1"), attempt_key("try1~2/S4.1"), attempt_key("S2[4]/t1.1/t3")
    ('S3.0.1', 'try1~2/S4.1', 'S2[4]/t1.1')
    """
    return _TURN.sub("", key)


def name_in_key(step: str) -> str:
    """A step's id, escaped for use in keys.

    >>> name_in_key("S3"), name_in_key("a/b"), name_in_key("r2/a@b")
    ('S3', 'a/b', 'r2%2Fa%40b')
    """
    if _AMBIGUOUS.search(step) is None:
        return step
    return "".join(_ESCAPES.get(char, char) for char in step)


def segment(step: str) -> str:
    """The id of a statement in a plan tree, escaped for use in keys.

    >>> segment("triage.issues"), segment("a.2"), segment("a/b")
    ('triage.issues', 'a%2E2', 'a%2Fb')
    """
    if _TREE_AMBIGUOUS.search(step) is None:
        return step
    made = "".join(_TREE_ESCAPES.get(char, char) for char in step)
    head, dot, tail = made.rpartition(".")
    return f"{head}%2E{tail}" if dot and tail.isdigit() else made


def step_named(name: str) -> str:
    """The id of a step, from its name in keys."""
    if "%" not in name:
        return name
    for char, escaped in {**_TREE_ESCAPES, ".": "%2E"}.items():
        if char != "%":
            name = name.replace(escaped, char)
    return name.replace("%25", "%")


def is_of_tree(key: str) -> bool:
    """Whether a key is that of a call in a plan tree.

    >>> is_of_tree("S3.0.1"), is_of_tree("S2[4]/S5.1"), is_of_tree("triage.issues.1")
    (False, True, True)
    """
    return _parts_of(key) is None


def _parts_of(key: str) -> list[str] | None:
    """What stands before the item in a key, the item, and the attempt; None in a plan tree."""
    parts = key.rsplit(".", 2)
    return parts if len(parts) == 3 and parts[1].isdigit() else None


def place_in_tree(key: str) -> str:
    """The path of a call in a plan tree, without the attempt.

    >>> place_in_tree("S2[4]/S5.1/t2c1")
    'S2[4]/S5'
    """
    return key.rpartition(".")[0]


def step_of(key: str) -> str:
    """The id of the step in a key.

    >>> step_of("r2/S3@4.7.2")
    'S3'
    """
    return place_of_key(key)[0]


def visit_of(key: str) -> str:
    """What the keys of all calls of one visit of a step begin with.

    >>> visit_of("r2/S3@4.7.2")
    'r2/S3@4'
    >>> visit_of("S2[4]/S5.1")
    'S2[4]/S5'
    """
    parts = _parts_of(key)
    return place_in_tree(key) if parts is None else parts[0]


def item_of(key: str) -> str:
    """What the keys of all attempts of one call, and of their turns, begin with.

    >>> item_of("r2/S3@4.7.2"), item_of("S3.7.2/t4c1")
    ('r2/S3@4.7', 'S3.7')
    """
    return key.rpartition(".")[0]


def place_of_key(key: str) -> tuple[str, int, int]:
    """The step, item and attempt of a key.

    >>> place_of_key("r2/S3@4.7.2")
    ('S3', 7, 2)
    >>> place_of_key("S3.7.2/t4c1")
    ('S3', 7, 2)
    >>> place_of_key("S2[4]/S5.2")
    ('S5', 0, 2)
    """
    parts = _parts_of(key)
    if parts is None:
        parsed = parse_key(key)
        return parsed.step, 0, parsed.attempt
    place, index, attempt = parts
    if not place.isalnum() and ("/" in place or "@" in place or "%" in place):
        place = parse_key(key).step
    try:
        return place, int(index), int(attempt)
    except ValueError:
        return place, int(index), int(attempt.partition("/")[0])


def parse_key(key: str) -> Key:
    """The parts of a key that a machine made.

    >>> parse_key("S3.0.1")
    Key(generation=0, step='S3', visit=1, index=0, attempt=1, turn=0, call=0)
    >>> parse_key("r2/S3@4.7.2")
    Key(generation=2, step='S3', visit=4, index=7, attempt=2, turn=0, call=0)
    >>> parse_key("r2%2Fx.0.1").step
    'r2/x'
    >>> parse_key("S3.0.1/t2c1")
    Key(generation=0, step='S3', visit=1, index=0, attempt=1, turn=2, call=1)
    >>> parse_key("S2[4]/S5.3").step, parse_key("S2[4]/S5.3").attempt
    ('S5', 3)
    >>> parse_key("r2//S2[4]/S5.3").generation, parse_key("r2/S5.3").generation
    (2, 0)
    """
    generation, parts = 0, _parts_of(key)
    if parts is None:
        place, _, attempt = key.rpartition(".")
        if not place:
            raise ValueError(f"{key!r} is no key")
        part, has_part, _ = place.partition("//")
        if has_part:
            generation = int(part.removeprefix("r"))
        place, index = place.rpartition("/")[2], "0"
    else:
        place, index, attempt = parts
    attempt, _, within = attempt.partition("/")
    turn, _, call = within[1:].partition("c")
    if not generation and place[0] == "r" and "/" in place:
        number, _, rest = place[1:].partition("/")
        if number.isascii() and number.isdigit():
            generation, place = int(number), rest
    step, at, visit = place.rpartition("@")
    if not at:
        step, visit = place, "1"
    return Key(
        generation, step_named(step), int(visit), int(index), int(attempt), int(turn or 0), int(call or 0)
    )


_TRACE_BYTES = 16
_SPAN_BYTES = 8


def trace_id(run_id: str) -> str:
    """The trace of a run: 32 digits.

    >>> trace_id("nightly")
    '2a3b62b53ddb9f167b63d22202a36081'
    """
    return sha256(run_id.encode()).digest()[:_TRACE_BYTES].hex()


def span_id(run_id: str, *place: str | int) -> str:
    """The span id of something in a run, 16 digits; `place` says what, as the key of a call.

    >>> span_id("nightly", "S3.0.1")
    'e58934e4547ca393'
    """
    return sha256(json.dumps([run_id, *place]).encode()).digest()[:_SPAN_BYTES].hex()


def traceparent(run_id: str, key: str) -> str:
    """The `traceparent` header (W3C Trace Context) that a call sends to a server.

    >>> traceparent("nightly", "S3.0.1")
    '00-2a3b62b53ddb9f167b63d22202a36081-e58934e4547ca393-01'
    """
    return f"00-{trace_id(run_id)}-{span_id(run_id, key)}-01"


MACHINE_VERSION = "1"
