"""Programs that run a file in which strangers' words were written: what these say would be executed.

In: the labels of a plan. Out: for steps that run code, what speaks against it. The files are those that the
plan writes before, by their paths, and those that runs have left. Linear in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from callsheet.ir import Order
from callsheet.passes.verify.outcome import Labels
from callsheet.policy.builtins import PathUse
from callsheet.policy.calls import Argument, CallView, Objection, Rule
from callsheet.policy.rules.base import known, of_name
from callsheet.policy.rules.executable import content_label
from callsheet.policy.running import collectors_of, runs_file

_PROGRAMS: Mapping[str, tuple[str, str | None]] = {
    "EXEC_CODE": ("code", "python"),
    "SHELL_EXEC": ("code", "shell"),
    "HOST_EXEC": ("command", None),
}
"""The argument that is a program, and its language where the call does not name one."""
_WORD = re.compile(r"[\w.-]+")
_NOT_KNOWN = "x"


class _Written(NamedTuple):
    """A file with strangers' words in it, and the step that writes them there; None for a run before."""

    path: str
    step: int | None

    @property
    def name(self) -> str:
        """The end of its path, in lower case."""
        return self.path.casefold().replace("\\", "/").rpartition("/")[2]


_Index = Mapping[str, Mapping[object, _Written]]
"""Files by a word that a program may name or find them by; of those it cannot tell apart by it, the first."""


def strangers_scripts(labels: Labels, numbers: Iterable[int]) -> Iterator[tuple[int, Objection]]:
    """EXECUTABLE for each of these steps whose program runs a file that strangers had a part in.

    A yes to the step does not help: who gives it is shown the program, not what stands in the file.
    """
    prepared = labels.subject.prepared
    programs = [number for number in numbers if prepared[number].tool in _PROGRAMS]
    if not programs:
        return
    index = _indexed(_written(labels))
    if not index:
        return
    for number in programs:
        for call in labels.calls(number):
            objection = _objection(labels, number, call, index)
            if objection is not None:
                yield number, objection


def _written(labels: Labels) -> Iterator[_Written]:
    subject = labels.subject
    for path, label in subject.left.files.items():
        if label.untrusted:
            yield _Written(path, None)
    for number, prepared in enumerate(subject.prepared):
        traits = prepared.traits
        if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
            continue
        for call in labels.calls(number):
            path = of_name(call, traits.path)
            if path is not None and content_label(call, traits).untrusted:
                yield _Written(_text(path), number)


def _indexed(files: Iterable[_Written]) -> _Index:
    """Those that the same programs find without naming them stand there as one: plans may write many."""
    index: dict[str, dict[object, _Written]] = {}
    for file in files:
        name = file.name
        for word in {_last_word(name), _last_word(name.rpartition(".")[0])} - {""}:
            index.setdefault(word, {}).setdefault(name, file)
        collectors = tuple(collectors_of(name))
        for word in collectors:
            index.setdefault(word, {}).setdefault((PurePosixPath(name).suffix, collectors), file)
    return index


def _mentioned(program: str, index: _Index) -> Iterator[_Written]:
    """The files that a program may name or find by one of its words."""
    for word in dict.fromkeys(_WORD.findall(program.casefold())):
        for name in {word, word.rpartition(".")[2]}:
            yield from index.get(name, {}).values()


def _last_word(text: str) -> str:
    words = _WORD.findall(text)
    return words[-1] if words else ""


def _objection(labels: Labels, number: int, call: CallView, index: _Index) -> Objection | None:
    argument, language = _PROGRAMS[labels.subject.prepared[number].tool]
    program = of_name(call, argument)
    if program is None:
        return None
    text = _text(program)
    told = of_name(call, "language")
    language = _text(told) if told is not None and language is not None else language
    for file in _mentioned(text, index):
        if _comes_before(labels, file, number) and runs_file(text, language, file.name):
            return _said(labels, call.tool, argument, file)
    return None


def _comes_before(labels: Labels, file: _Written, number: int) -> bool:
    """Whether the file may be written before the step is done."""
    subject = labels.subject
    if file.step is None or subject.plan.order is not Order.TEXT or subject.control.in_cycle[number]:
        return True
    is_beside = subject.flow.group_end[file.step] == subject.flow.group_end[number]
    return file.step < number or (is_beside and subject.plan.steps[number].group is not None)


def _said(labels: Labels, tool: str, argument: str, file: _Written) -> Objection:
    writer = (
        "a run before has written"
        if file.step is None
        else f"{labels.subject.plan.steps[file.step].id} writes"
    )
    return Objection(
        Rule.EXECUTABLE,
        f"@{tool} runs {file.path}, into which {writer} untrusted content",
        argument,
        "hand the data to a program that stands in the plan, on stdin or as a file that it reads",
    )


def _text(argument: Argument) -> str:
    return "".join(known(part, _NOT_KNOWN) for part in argument.parts)
