"""Assembles a distilled plan: its text, its inputs, and what is to be read in it.

In: the lines of its body, and the inputs so far. Out: the plan, with the inputs that the lines use.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.ir import JSON
from callsheet.views.python_types import docstring, is_name

STOP = "the recorded run does not show what to do without this"
"""What a plan says where it stops, and the condition, if that is not long."""
LOOKED, JOINED, CHOSEN = "\3", "\4", "\6"
"""What begins a line, until the stops are written, where a result was looked up, where items are joined with
what was looked up for each, and where items were chosen (before its three parts)."""
_IMPORTS = (
    (r"\bre\.(?:search|findall)\(", "import re\n"),
    (r"\b(?:timedelta|date\.fromisoformat)\(", "from datetime import date, datetime, timedelta\n"),
)


class WrittenCall(NamedTuple):
    """A call of the plan: its tool, and the code of its arguments."""

    tool: str
    arguments: Mapping[str, str]


class DistilledPlan(NamedTuple):
    """A plan, the inputs of the recorded run, and why each of them is an input.

    `readings` are the places of the plan that rest on how the user's words were read, `stops` the conditions
    without which it stops, since the record does not tell what to do then. `calls` are those in the text.
    """

    text: str
    inputs: dict[str, JSON]
    reasons: dict[str, str]
    readings: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    calls: tuple[WrittenCall, ...] = ()

    @property
    def unexplained(self) -> frozenset[str]:
        """What nothing explains, as JSON."""
        open_ones = (self.inputs[name] for name, reason in self.reasons.items() if reason != SAID)
        return frozenset(json.dumps(value, sort_keys=True) for value in open_ones)

    @property
    def cost(self) -> tuple[int, int]:
        """How much nothing explains, where a list is more than a value; then how long it is."""
        return sum(1 + one.startswith("[") for one in self.unexplained), self.text.count("await ")


def assembled(
    lines: Sequence[str], inputs: Inputs, title: str, answer: str, calls: Sequence[WrittenCall]
) -> DistilledPlan:
    """The plan of some lines, with the inputs that they use; it ends with the answer."""
    lines = _without_idle_lists(lines, answer)
    inputs.forget_all_but(_names_in(lines))
    given = ", ".join(f"{name}: {_type_of(value)}" for name, value in inputs.values.items())
    why = "\n".join(f"{name}: {reason}" for name, reason in inputs.reasons.items())
    about = docstring("\n\n".join((title.replace("\n", " "), why)))
    body = "\n".join([*lines, f"    return {answer}", ""])
    imports = "".join(line for word, line in _IMPORTS if re.search(word, body))
    text = f"{imports}async def main({given}):\n    {about}\n{body}"
    found = (line.strip()[len("assert ") :].partition(f', "{STOP}')[0] for line in lines if STOP in line)
    stops = tuple(dict.fromkeys(found))
    return DistilledPlan(text, inputs.values, inputs.reasons, (), stops, (*calls,))


def fields_of(value: JSON) -> Iterator[str]:
    """The words for the fields of a result that have texts and numbers; what has a flag may be otherwise."""
    if isinstance(value, list):
        for item in value:
            yield from fields_of(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str | int | float) and not isinstance(item, bool):
                yield from re.split(r"\W|_", name.lower())
            yield from fields_of(item)


def _names_in(lines: Sequence[str]) -> set[str]:
    """The names that are read in the body of a plan."""
    body = ast.parse("\n".join(["async def main():", *lines]))
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}


def _without_idle_lists(lines: Sequence[str], answer: str) -> list[str]:
    """The lines without the lists of results that nothing uses."""
    text = "\n".join(lines)
    idle: set[str] = set()
    for line in lines:
        name = line.strip().removesuffix(" = []")
        if line.endswith(" = []") and name != answer and len(re.findall(rf"\b{name}\b", text)) == 2:
            idle.add(name)
    return [
        line for line in lines if not any(re.match(rf"\s*{name}( = \[\]$|\.append\()", line) for name in idle)
    ]


def _type_of(value: JSON) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"
        case list():
            kinds = {_type_of(item) for item in value}
            return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"
        case _:
            return "dict"


def renamed(code: str, names: Mapping[str, str]) -> str:
    """Code with names for some of its parts, also within f-strings, where quotes are others."""
    for part, name in names.items():
        for form in (part, part.replace('"', "'")):
            code = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", name, code)
    return code


def call_code(tool: str, arguments: Mapping[str, str]) -> str:
    """A call as code; what Python cannot write by name is given as `**{…}`.

    >>> call_code("MOVE_MAIL", {"from": "old", "to": "new"})
    'await move_mail(to=new, **{"from": old})'
    """
    given = [f"{name}={code}" for name, code in arguments.items() if is_name(name)]
    others = [f"{json.dumps(name)}: {code}" for name, code in arguments.items() if not is_name(name)]
    given += [f"**{{{', '.join(others)}}}"] if others else []
    return f"await {tool.lower()}({', '.join(given)})"


def noun_of(tool: str) -> str:
    """A name for the result of a tool: what stands after its verb."""
    words = tool.lower().rpartition("__")[2].split("_")
    return "_".join(words[1:]) if len(words) > 1 else f"{words[0]}_result"


def singular(code: str) -> str:
    """A name for an item of a list."""
    plain = re.sub(
        r"\b(?:for|in|if|each|one|item|sorted|key|lambda|and|not|dict|fromkeys)\b|\"[^\"]*\"(?!\])", " ", code
    )
    words = re.findall(r"[A-Za-z]\w*", plain) or ["item"]
    word = words[0]
    return word[:-1] if word.endswith("s") and len(word) > 2 else f"{word}_item"
