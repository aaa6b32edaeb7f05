"""How much of a run goes into the context of a client's model: the answer, and the variables it asks for.

In: the complete data of a result, the names of the wanted variables. Out: the data with long values cut, and
`left_out`, which says what is missing and how to get it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

from callsheet.apps.operations.schema import Count
from callsheet.ir import JSON

ALL = "all"
"""In place of a name: all variables."""
MOST_OF_A_VALUE = 20_000
"""Characters of one value, or of the answer."""
MOST_OF_ALL = 60_000
"""Characters of all variables together."""
MOST_STEPS = 200
MOST_TEXT = 30_000
"""Characters of a text that is made of many lines."""
_NAMED = 8
"""How many variables a line names."""


LeftOutRow = TypedDict(
    "LeftOutRow",
    {
        "name": Annotated[str, "$ and a variable's name, or response or steps"],
        "of": Annotated[Count, "its length in characters, or the number of steps"],
        "from": NotRequired[Annotated[Count, "the first character or step that is shown"]],
        "to": NotRequired[Annotated[Count, "the end of what is shown"]],
    },
)
"""A part of a result that is not shown."""


LeftOut = Annotated[
    list[LeftOutRow],
    "what is not shown: explain_run returns it with show_variables and from_character",
]


@dataclass(frozen=True, slots=True)
class Extent:
    """What a client wants of a run: variables by name, and the first character, for one that was cut before.

    Without a variable, `start` is that of the answer.
    """

    names: frozenset[str] = frozenset()
    start: int = 0

    @classmethod
    def of(cls, names: Sequence[str], start: int = 0) -> Extent:
        """The extent for names as they are given, with or without $."""
        return cls(frozenset(name.removeprefix("$") for name in names), start)

    def limited(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The data of an outcome or of details with only what is wanted, and with `left_out`."""
        left_out: list[dict[str, Any]] = []
        result = dict(data) | {"left_out": left_out}
        if isinstance(data.get("response"), str):
            start = 0 if self.names else self.start
            result["response"] = _part("response", data["response"], start, MOST_OF_A_VALUE, left_out)
        given: Mapping[str, JSON] | None = data.get("variables")
        if given is not None:
            result["variables"] = dict(self._variables(given, left_out))
        steps: Sequence[Any] = data.get("steps") or ()
        if len(steps) > MOST_STEPS:
            result["steps"] = steps[-MOST_STEPS:]
            left_out.append({"name": "steps", "of": len(steps), "from": len(steps) - MOST_STEPS})
        return result

    def _variables(
        self, given: Mapping[str, JSON], left_out: list[dict[str, Any]]
    ) -> Iterator[tuple[str, JSON]]:
        room = MOST_OF_ALL
        for name, value in given.items():
            if ALL not in self.names and name not in self.names:
                left_out.append({"name": f"${name}", "of": _length(value)})
                continue
            shown = _part(f"${name}", value, self.start, min(room, MOST_OF_A_VALUE), left_out)
            room -= _length(shown)
            room = max(0, room)
            yield name, shown

    def unknown(self, data: Mapping[str, Any]) -> list[str]:
        """The wanted names that are no variables of the run."""
        return sorted(self.names - (data.get("variables") or {}).keys() - {ALL})


def _part(name: str, value: JSON, start: int, most: int, left_out: list[dict[str, Any]]) -> JSON:
    """The value, or the characters of its text from `start` on if it is too long or was cut before."""
    length = _length(value)
    if not start and length <= most:
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    end = min(start + most, len(text))
    if start or end < len(text):
        left_out.append({"name": name, "of": len(text), "from": start, "to": end})
    return text[start:end]


def _length(value: JSON) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False, default=str))


def left_out_lines(data: Mapping[str, Any], run_id: str) -> Iterator[str]:
    """What is missing in limited data, and how to get it, in words."""
    rows: list[dict[str, Any]] = data["left_out"]
    plain = [row for row in rows if "from" not in row]
    if plain:
        more = f" and {len(plain) - _NAMED} more" if len(plain) > _NAMED else ""
        named = ", ".join(f"{row['name']} ({row['of']:,} characters)" for row in plain[:_NAMED])
        names = json.dumps([plain[0]["name"].removeprefix("$")])
        yield (
            f"variables: {named}{more}; explain_run with run_id {run_id} and show_variables {names}"
            f' or ["{ALL}"] returns them'
        )
    for row in rows:
        if "to" in row:
            of_variable = row["name"].startswith("$")
            names = f"show_variables {json.dumps([row['name'].removeprefix('$')])}, " if of_variable else ""
            rest = f"; for the rest: explain_run with {names}from_character {row['to']}"
            is_end = row["to"] >= row["of"]
            yield (
                f"{row['name']}: characters {row['from']:,} to {row['to']:,} of {row['of']:,}"
                f"{'' if is_end else rest}"
            )
        elif "from" in row:
            yield (
                f"{row['name']}: the last {row['of'] - row['from']:,} of {row['of']:,}; the resource"
                f" callsheet://runs/{run_id}/journal has all"
            )


def cut_text(text: str, run_id: str) -> str:
    """A long text, cut at the end, with the place of the whole."""
    if len(text) <= MOST_TEXT:
        return text
    return (
        f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} characters are left out; the resource"
        f" callsheet://runs/{run_id}/summary has all"
    )


def extent_lines(
    extent: Extent, whole: Mapping[str, Any], data: Mapping[str, Any], run_id: str
) -> Iterator[str]:
    """The variables as asked for, one a line, and what is left out."""
    variables: Mapping[str, JSON] = data["variables"] or {}
    for name, value in variables.items():
        yield f"${name} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    yield from left_out_lines(data, run_id)
    for name in extent.unknown(whole):
        yield f"the run has no variable ${name}"
