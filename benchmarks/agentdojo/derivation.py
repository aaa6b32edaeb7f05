"""Python plans for tasks whose calls are known: what of them the goal says, and what an earlier result.

In: a goal and the calls that its authors expect. Out: the program that a person would write for it, and what
a model is expected to answer to its prompts. Every value is

- a literal, if the goal says it, or if nothing that was read does (dates that a planner works out);
- a field of an earlier result, if one is exactly that; where later results single it out, the call is behind
  a condition on all of them;
- else read out of the earlier results by a model, as is every text that is composed of them.

Calls of one tool in a row, of which a result decides what they do, become a loop over what a model finds
there. A goal with "if" becomes a condition on what was read. A model gets the results as they are; where it
is asked for calls about all the values of one field, so that nothing else is to choose by, it gets that
field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.agentdojo.worlds import DOES, Call, Task, is_dict, is_list

_PROSE = frozenset({"body", "content", "subject", "title", "description", "location"})
_WORD = re.compile(r"[A-Za-z0-9@.:_-]*[A-Za-z0-9]")
_ID = re.compile(r"(?:.*_)?id")
_OPTIONS = ("r", "rw")
_IF = re.compile(r"\bif (?!there are)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MOST_LEAVES = 2_000


@dataclass(frozen=True)
class Program:
    """A program for a task, and what its prompts ask for: the values by prompt, the arguments by prompt."""

    text: str
    answers: Mapping[str, Any]
    asks_for: Mapping[str, tuple[str, tuple[str, ...]]]


def program_for(task: Task) -> Program:
    """The program for a task of a user."""
    world = task.world()
    calls = task.calls(task.world().env)
    results = [world.call(call.tool, call.args) for call in calls]
    return _Writer(task.goal, calls, results).program(task.answer)


class _Writer:
    def __init__(self, goal: str, calls: Sequence[Call], results: Sequence[Any]) -> None:
        self.goal, self.calls, self.results = goal, calls, results
        self.words = {word.lower() for word in _WORD.findall(goal.replace("'", " "))}
        self.lines: list[str] = []
        self.answers: dict[str, Any] = {}
        self.asks_for: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.chosen = False
        """Whether the call that is written has a field of a result that a later one has singled out."""
        self.read: list[int] = []
        """The calls whose results later ones may use."""

    def program(self, answer: str) -> Program:
        done = 0
        decided = False
        certain: list[int] = []
        while done < len(self.calls):
            call = self.calls[done]
            changes = call.tool in DOES
            if changes and not decided and self.read and _IF.search(self.goal):
                self.lines.append(f"    if {self._asked('whether the goal asks for it', '', (), True)}:")
                decided, certain = True, list(self.read)
            indent = "        " if decided else "    "
            row = self._row(done) if changes else 1
            if row > 1:
                self._loop(done, row, indent)
            else:
                self.chosen = False
                given = ", ".join(
                    f"{name}={self._value(name, value, call.tool)}" for name, value in _given(call)
                )
                if changes and self.chosen:
                    self.lines.append(f"{indent}if {self._asked('whether it is this one', '', (), True)}:")
                    self.lines.append(f"{indent}    await {call.tool}({given})")
                else:
                    self.lines.append(f"{indent}r{done} = await {call.tool}({given})")
            if row == 1 and not (changes and self.chosen):
                self.read.append(done)
            done += row
        used = certain if decided else self.read
        text = repr("Done.")
        if answer != "Done.":
            text = self._asked("the answer to the goal", "", (), answer, is_text=True, used=used)
        lines = ["async def main():", f"    goal = {self.goal!r}", *self.lines, f"    return {text}"]
        return Program("\n".join(lines) + "\n", self.answers, self.asks_for)

    def _row(self, first: int) -> int:
        tool = self.calls[first].tool
        last = first
        while last + 1 < len(self.calls) and self.calls[last + 1].tool == tool:
            last += 1
        if last == first or not any(
            self._is_found(name, value)
            for call in self.calls[first : last + 1]
            for name, value in _given(call)
        ):
            return 1
        return last + 1 - first

    def _loop(self, first: int, count: int, indent: str) -> None:
        calls = self.calls[first : first + count]
        names = [name for name, _ in _given(calls[0])]
        rows = [{name: call.args[name] for name in names} for call in calls]
        wanted = {str(row[name]) for row in rows for name in names if name not in _PROSE}
        key = next((key for key in self._keys() if wanted == self._values_of(key)), "")
        what = f"the calls of {calls[0].tool}"
        asked = self._asked(what, calls[0].tool, tuple(names), rows, only=key)
        self.lines.append(f"{indent}for one in {asked}:")
        given = ", ".join(f'{name}=one["{name}"]' for name in names)
        self.lines.append(f"{indent}    await {calls[0].tool}({given})")

    def _keys(self) -> list[str]:
        """The fields of the objects in what was read."""
        rows = [row for made in self.read for row in _rows(self.results[made])]
        return list(dict.fromkeys(key for row in rows for key in row))

    def _values_of(self, key: str) -> set[str]:
        rows = [row for made in self.read for row in _rows(self.results[made])]
        return {str(row[key]) for row in rows if key in row}

    def _is_found(self, name: str, value: Any) -> bool:
        """Whether an argument that decides what a call does was found in what was read."""
        return name not in _PROSE and not self._is_said(name, value) and bool(self._sources(value))

    def _is_said(self, name: str, value: Any) -> bool:
        """Whether the goal says a value."""
        if value is None or isinstance(value, bool):
            return True
        if is_list(value):
            return all(self._is_said(name, each) for each in value)
        if is_dict(value):
            return all(self._is_said(key, each) for key, each in value.items())
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if name in _PROSE:
            return text.lower() in self.goal.lower() and text != "..."
        return _ID.fullmatch(name) is None and all(word.lower() in self.words for word in _WORD.findall(text))

    def _value(self, name: str, value: Any, tool: str) -> str:
        if self._is_said(name, value) or not self.read or value in _OPTIONS:
            return repr(value)
        if is_list(value) and len(value) == 1 and name not in _PROSE:
            return f"[{self._value(name, value[0], tool)}]"
        if is_dict(value):
            pairs = (f"{key!r}: {self._value(key, each, tool)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        if name in _PROSE:
            return self._asked(f"the {name} for {tool}", tool, (name,), value, is_text=True)
        for made in self.read:
            if (path := _path_to(self.results[made], value)) is not None:
                if made != self.read[-1]:
                    self.chosen = True
                return f"r{made}{path}"
        sources = self._sources(value)
        is_number = isinstance(value, int | float)
        if is_number and _ID.fullmatch(name) is None and (amount := self._calculated(value)):
            return amount
        if not sources and not is_number:
            return repr(value)
        return self._asked(
            f"the {name} for {tool}", tool, (name,), value, used=None if tool in DOES else sources or None
        )

    def _calculated(self, amount: float) -> str:
        """How an amount is calculated from one that was read and the numbers of the goal; empty if not so."""
        numbers = [(one, float(one)) for one in dict.fromkeys(_NUMBER.findall(self.goal))]
        for made in self.read:
            for path, field in _fields(self.results[made], f"r{made}"):
                ways = _ways(path, field, numbers) if isinstance(field, float) else ()
                for way, result in ways:
                    if abs(result - amount) < 0.005:
                        return f"round({way}, 2)"
        return ""

    def _sources(self, value: Any) -> list[int]:
        """The earlier results that say a value, or all of a list."""
        parts = value if is_list(value) else [value]
        texts = {made: str(self.results[made]) for made in self.read}
        found = [[made for made, text in texts.items() if str(part) in text] for part in parts]
        return sorted({makers[0] for makers in found}) if all(found) else []

    def _asked(
        self,
        what: str,
        tool: str,
        names: tuple[str, ...],
        answer: Any,
        *,
        is_text: bool = False,
        used: Sequence[int] | None = None,
        only: str = "",
    ) -> str:
        """A question to the model about what was read; without anything read, the text itself."""
        known = self.read if used is None else used
        if not known and (is_text or not self.read):
            return repr(answer)
        prompt = f"[{len(self.answers) + 1}] {what}"
        self.answers[prompt], self.asks_for[prompt] = answer, (tool, names)
        data = ", ".join(f"r{made}" for made in known)
        if only:
            made_of = [made for made in known if _rows(self.results[made])]
            data = ", ".join(f"[each[{only!r}] for each in r{made}]" for made in made_of)
        operation = "llm" if is_text else "llm_extract"
        return f"await {operation}({prompt!r}, data=[{data}])"


def _ways(path: str, field: float, numbers: Sequence[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """What can be calculated from a field: less a number or its half, a percentage, that and a fee."""
    for one, number in numbers:
        yield f"{path} - {one}", field - number
        yield f"{path} - {one} / 2", field - number / 2
        yield f"{path} * {one} / 100", field * number / 100
        for fee, more in numbers:
            yield f"{path} * {one} / 100 + {fee}", field * number / 100 + more


def _rows(result: Any) -> list[dict[str, Any]]:
    """The objects in a result that is a list of such."""
    rows = [row for row in result if is_dict(row)] if is_list(result) else []
    return rows if is_list(result) and len(rows) == len(result) else []


def _given(call: Call) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in call.args.items() if value is not None]


def _path_to(result: Any, value: Any) -> str | None:
    """How Python reads a value out of a result, None if no field is exactly that."""
    if result == value and type(result) is type(value):
        return ""
    for seen, (path, each) in enumerate(_fields(result, "")):
        if each == value and type(each) is type(value):
            return path
        if seen > _MOST_LEAVES:
            break
    return None


def _fields(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if is_dict(value):
        for key, each in value.items():
            yield from _fields(each, f"{path}[{key!r}]")
    elif is_list(value):
        for place, each in enumerate(value):
            yield from _fields(each, f"{path}[{place}]")
    else:
        yield path, value
