"""How much of a run goes into the context of a client's model: the answer, and the variables it asks for.

In: the complete data of a result, the names of the wanted variables; or those of a dry run, and the wanted
steps. Out: the data with long values cut, and `left_out`, which says what is missing and how to get it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

from callsheet.apps.operations.outcomes import OutcomeResult
from callsheet.apps.operations.schema import Count
from callsheet.ir import JSON
from callsheet.machine.values import to_json_text

ALL = "all"
"""In place of a name: all variables."""
MOST_OF_A_VALUE = 20_000
"""Characters of one value, or of the answer."""
MOST_OF_ALL = 60_000
"""Characters of all variables together."""
MOST_STEPS = 200
MOST_TEXT = 30_000
"""Characters of a text that is made of many lines."""
MOST_OF_AN_ARGUMENT = 1_000
"""Characters of one argument or result in a dry run, unless its step is asked for."""
MOST_VISITS = 20
"""Visits of one step in a dry run, unless it is asked for."""
_NAMED = 8
"""How many variables a line names."""


LeftOutRow = TypedDict(
    "LeftOutRow",
    {
        "name": Annotated[str, "$ and a variable's name, response, steps, or a part of a step"],
        "of": Annotated[Count, "its length in characters, or the number of steps"],
        "from": NotRequired[Annotated[Count, "the first character or step that is shown"]],
        "to": NotRequired[Annotated[Count, "the end of what is shown"]],
        "shown": NotRequired[Annotated[Count, "how many are shown"]],
    },
)
"""A part of a result that is not shown."""


LeftOut = Annotated[
    list[LeftOutRow],
    "what is not shown: explain_run returns it with show_variables and from_character, dry_run_plan with "
    "show_steps",
]


class LimitedOutcome(OutcomeResult):
    """What has come of a run, of which long or unwanted parts are left out."""

    left_out: LeftOut


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


def cut_text(text: str, whole: str) -> str:
    """A long text, cut at the end; `whole` says which place has all."""
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} characters are left out; {whole}"


# ---------------------------------------------------------------- dry runs

_WHOLE_DRY_RUN = "`callsheet dry-run --json` on the command line has all"


def limited_dry_run(data: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The data of a dry run with only so many steps, visits and characters, and with `left_out`.

    Steps that are `wanted`, by id or as "all", are shown at greater length, and before the others if there is
    no room for all.
    """
    steps: Sequence[Mapping[str, Any]] = data["steps"]
    left_out: list[dict[str, Any]] = []
    named = frozenset(wanted)
    shown: dict[int, dict[str, Any]] = {}
    room = MOST_OF_ALL
    for at in sorted(range(len(steps)), key=lambda at: steps[at]["id"] not in named):
        cut: list[dict[str, Any]] = []
        row = _limited_step(steps[at], cut, is_wanted=ALL in named or steps[at]["id"] in named)
        room -= _length(row)
        if room < 0 and shown:
            break
        shown[at] = row
        left_out += cut
    if len(shown) < len(steps):
        left_out.append({"name": "steps", "of": len(steps), "shown": len(shown)})
    return {**data, "steps": [shown[at] for at in sorted(shown)], "left_out": left_out}


def _limited_step(
    step: Mapping[str, Any], left_out: list[dict[str, Any]], *, is_wanted: bool
) -> dict[str, Any]:
    most = MOST_OF_A_VALUE if is_wanted else MOST_OF_AN_ARGUMENT
    name, row = step["id"], dict(step)

    def part(label: str, value: dict[str, JSON]) -> dict[str, JSON]:
        length = _length(value)
        if length <= most:
            return value
        inner = value.get("value")
        text = inner if isinstance(inner, str) else json.dumps(value, ensure_ascii=False, default=str)
        left_out.append({"name": f"{name} {label}", "of": len(text), "from": 0, "to": most})
        return {"cut": text[:most]}

    visits: Sequence[Mapping[str, Any]] = step["visits"]
    if len(visits) > MOST_VISITS and not is_wanted:
        left_out.append({"name": f"{name} visits", "of": len(visits), "shown": MOST_VISITS})
        visits = visits[:MOST_VISITS]
    row["visits"] = [
        {
            **visit,
            "inputs": [part("input", value) for value in visit["inputs"]],
            "arguments": {key: part(key, value) for key, value in visit["arguments"].items()},
        }
        for visit in visits
    ]
    for key in ("items", "result"):
        if key in step:
            source = {"is": step[key]["is"]} if "is" in step[key] else {}
            row[key] = {**source, **part(key, step[key])}
    return row


def dry_run_lines(left_out: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is missing in the data of a dry run, and how to get it, in words."""
    for row in left_out[:_NAMED]:
        shown = f"characters 0 to {row['to']:,}" if "to" in row else f"the first {row['shown']:,}"
        if row["name"] == "steps":
            shown = f"{row['shown']:,}"
        yield f"{row['name']}: {shown} of {row['of']:,}"
    if len(left_out) > _NAMED:
        yield f"and {len(left_out) - _NAMED} more parts that are cut"
    if left_out:
        name = next((row["name"].split(" ")[0] for row in left_out if row["name"] != "steps"), "S1")
        yield f"show_steps {json.dumps([name])} shows more of a step; {_WHOLE_DRY_RUN}"


def cut_dry_run(text: str) -> str:
    """The text of a dry run, cut at the end."""
    return cut_text(text, _WHOLE_DRY_RUN)


def extent_lines(
    extent: Extent, whole: Mapping[str, Any], data: Mapping[str, Any], run_id: str
) -> Iterator[str]:
    """The variables as asked for, one a line, and what is left out."""
    variables: Mapping[str, JSON] = data["variables"] or {}
    for name, value in variables.items():
        yield f"${name} = {to_json_text(value)}"
    yield from left_out_lines(data, run_id)
    for name in extent.unknown(whole):
        yield f"the run has no variable ${name}"
