"""Detects programs that would execute a file containing untrusted content.

In: the labels of a plan. Out: objections to steps that run code. Files with untrusted content are those that
the plan writes, those that runs have left, those written by a program that reads one of them, and those
unpacked from an archive that is one. Linear in the plan.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from callsheet import lazy
from callsheet.ir import Order
from callsheet.passes.verify.outcome import Labels
from callsheet.policy.builtins import PathUse
from callsheet.policy.calls import Argument, CallView, Objection, Rule
from callsheet.policy.programs import (
    FOLDERS_RUN,
    SETTINGS_OF_FOLDERS,
    Named,
    files_written,
    finders_of,
    kinds_of,
    runs_file,
)
from callsheet.policy.rules.base import known, of_name
from callsheet.policy.rules.files import content_label, filing_of, keeps_files
from callsheet.policy.runnable import is_executable_anywhere

_PROGRAMS: Mapping[str, tuple[str, str | None]] = {
    "EXEC_CODE": ("code", "python"),
    "SHELL_EXEC": ("code", "shell"),
    "HOST_EXEC": ("command", None),
}
"""For each tool the argument that is a program, and its language unless the call names one."""
_WORD = lazy.pattern(r"[\w.-]+|\*")
_PATH = lazy.pattern(r"[\w.*?/\\-]+")
_ENTERED = lazy.pattern(
    r"(?:\b(?:cd|pushd)|(?<![\w-])(?:-C|--directory|--prefix|--cwd))[\s=]+[\"']?([\w./\\-]+)"
)
"""The folder in which the programs on a command line run."""
_RUN_UNNAMED = (
    "Makefile",
    "__init__.py",
    "__main__.py",
    "conftest.py",
    "index.js",
    "main.py",
    "package.json",
    "setup.py",
)
"""Files that programs run when they are given a folder."""
_NOT_KNOWN = "x"
_ANY_NAME = "*"
_HERE = (".", "..")


class _Written(NamedTuple):
    """A file with untrusted content and the step that writes it; None for an earlier run."""

    path: str
    file: Named
    step: int | None

    @classmethod
    def by(cls, step: int | None, path: str) -> _Written:
        return cls(path, Named.of(path), step)


@dataclass(eq=False)
class _Program:
    """The program of a step; `reads` is set once it is known to read untrusted content.

    If it `unpacks`, it writes files with any names into the folders that it `writes`.
    """

    step: int
    call: CallView
    argument: str
    text: str
    language: str | None
    unpacks: bool = False
    reads: bool = False
    is_refused: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """The words in the program and their dot-separated parts; also as folders if it runs one."""
        whole = frozenset(_WORD.findall(self.text.casefold()))
        words = whole.union(*(word.split(".") for word in whole))
        return words if words.isdisjoint(FOLDERS_RUN) else words.union(f"{word}/" for word in words)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The words in the program that may be paths."""
        return tuple(dict.fromkeys(_PATH.findall(self.text)))

    @cached_property
    def folders(self) -> frozenset[str]:
        """The names of the folders in which parts of the program run."""
        return frozenset(Named.of(folder).name for folder in _ENTERED.findall(self.text))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The files it may write, one entry per occurrence in a writing position."""
        return tuple(files_written(self.text, self.language))


@dataclass(frozen=True)
class _Reading:
    """The programs of a plan, indexed by the words that they contain."""

    labels: Labels
    programs: tuple[_Program, ...]
    _asked: dict[tuple[str, object], int | None] = field(
        default_factory=dict[tuple[str, object], "int | None"]
    )

    @cached_property
    def by_word(self) -> Mapping[str, list[_Program]]:
        """The programs that contain each word."""
        programs: dict[str, list[_Program]] = defaultdict(list)
        for program in self.programs:
            for word in program.words:
                programs[word].append(program)
        return programs

    def objections(self, written: Iterable[_Written]) -> Iterator[tuple[int, Objection]]:
        """The objections to the programs, found by following untrusted content from file to file."""
        waiting = list(written)
        for program in self.programs:
            if _is_handed_strangers_words(program):
                waiting += self._written_by(program)
                if runs_file(program.text, program.language, Named.input()):
                    program.is_refused = True
                    yield program.step, self._objection(program, "its arguments, which are untrusted content")
        for file in waiting:  # a worklist: grows when a program is found to read untrusted content
            for program in self._asked_for(file):
                if not program.reads and _is_read(program, file.file):
                    waiting += self._written_by(program)
                if not program.is_refused and runs_file(program.text, program.language, file.file):
                    program.is_refused = True
                    yield program.step, self._objection(program, self._place(file))
        for program in self.programs:
            if program.reads and not program.is_refused:
                yield from self._misplaced(program)

    def _asked_for(self, file: _Written) -> Iterator[_Program]:
        """The programs that may run after the file is written and may name or find it, unless already
        searched for a similar file.

        A program that configures its folder to be executed may also run before the file is written.
        """
        for word, alike in _words_for(file.file):
            if word not in self.by_word or not self._is_news(file.step, (word, alike)):
                continue
            is_folder = word.endswith("/")
            for program in self.by_word[word]:
                is_kept = is_folder and not program.words.isdisjoint(SETTINGS_OF_FOLDERS)
                if is_kept or _comes_before(self.labels, file, program.step):
                    yield program

    def _is_news(self, step: int | None, key: tuple[str, object]) -> bool:
        """Whether no file with this key was written as early as this step."""
        if key in self._asked:
            earlier = self._asked[key]
            if earlier is None or (step is not None and earlier <= step):
                return False
        self._asked[key] = step
        return True

    def _written_by(self, program: _Program) -> list[_Written]:
        """Mark the program as reading untrusted content and return the files it may write that content to."""
        program.reads = True
        step = program.step
        if not program.unpacks:
            return [_Written.by(step, path) for path in program.writes]
        folders = [folder for folder in program.writes if self._is_news(step, ("unpacked", folder))]
        return [_Written.by(step, path) for folder in folders for path in dict.fromkeys(self._below(folder))]

    def _below(self, folder: str) -> Iterator[str]:
        """The files of a folder that programs may run: named with it, named inside it, or not named."""
        name = Named.of(folder).name
        for program in self.by_word.get(_last_word(name), ()) if name else self.programs:
            is_inside = not name or name in program.folders
            for path in program.paths:
                if is_inside:
                    yield f"{folder}/{path}"
                elif name in path.casefold().replace("\\", "/").split("/")[:-1]:
                    yield path
        yield from (f"{folder}/{unnamed}" for unnamed in _RUN_UNNAMED)

    def _misplaced(self, program: _Program) -> Iterator[tuple[int, Objection]]:
        place = next((path for path in program.writes if _is_run_there(path)), None)
        if place is not None:
            yield (
                program.step,
                Objection(
                    Rule.EXECUTABLE,
                    f"@{program.call.tool} would put untrusted content into {place}, where it is executed",
                    program.argument,
                    "write it to a file that nothing runs, such as .md or .txt",
                ),
            )

    def _place(self, file: _Written) -> str:
        steps = self.labels.subject.plan.steps
        writer = "an earlier run has written" if file.step is None else f"{steps[file.step].id} writes"
        return f"{file.path}, into which {writer} untrusted content"

    def _objection(self, program: _Program, what: str) -> Objection:
        return Objection(
            Rule.EXECUTABLE,
            f"@{program.call.tool} runs {what}",
            program.argument,
            "pass the data to a program that is written in the plan and only reads it",
        )


def untrusted_scripts(labels: Labels, numbers: Iterable[int]) -> Iterator[tuple[int, Objection]]:
    """An EXECUTABLE objection for each of these steps whose program runs a file with untrusted content.

    Approval of the step does not lift it: the approver sees the program, not the content of the file.
    """
    prepared = labels.subject.prepared
    steps = [number for number, step in enumerate(prepared) if step.tool in _PROGRAMS]
    copying = [number for number in _filing(labels) if labels.subject.accesses[number].reads]
    if not steps and not copying:
        return
    written = list(_written(labels))
    if not written and not any(map(_may_be_handed(labels), (*steps, *copying))):
        return
    asked = frozenset(numbers)
    programs = (
        *(program for step in steps for program in _programs(labels, step)),
        *(program for step in copying for program in _copying(labels, step)),
    )
    for step, objection in _Reading(labels, programs).objections(written):
        if step in asked:
            yield step, objection


def _may_be_handed(labels: Labels) -> Callable[[int], bool]:
    """A predicate: whether a step may pass untrusted data to its program."""
    readings, planner = labels.subject.readings, labels.subject.judge.policy.planner
    return lambda step: planner.untrusted or bool(readings[step].arguments)


def _programs(labels: Labels, step: int) -> Iterator[_Program]:
    argument, language = _PROGRAMS[labels.subject.prepared[step].tool]
    for call in labels.calls(step):
        program, language_argument = of_name(call, argument), of_name(call, "language")
        if program is not None:
            spoken = (
                _text(language_argument)
                if language_argument is not None and language is not None
                else language
            )
            yield _Program(step, call, argument, _text(program), spoken)


def _filing(labels: Labels) -> Iterator[int]:
    """The steps that write files with operator-defined tools."""
    subject = labels.subject
    for number, (prepared, access) in enumerate(zip(subject.prepared, subject.accesses, strict=True)):
        if access.writes and keeps_files(prepared.tool, prepared.traits):
            yield number


def _copying(labels: Labels, step: int) -> Iterator[_Program]:
    """The step's calls that copy, move or unpack files, each expressed as a `cp` command."""
    for call in labels.calls(step):
        filing = filing_of(call)
        words = [_text(path) for path in (*filing.reads, *filing.writes[:1])]
        if filing.reads and filing.writes:
            target, command = filing.writes[0].name, f"cp {shlex.join(words)}"
            yield _Program(step, call, target, command, None, filing.unpacks)


def _written(labels: Labels) -> Iterator[_Written]:
    subject = labels.subject
    for path, label in subject.left.files.items():
        if label.untrusted:
            yield _Written.by(None, path)
    for number, prepared in enumerate(subject.prepared):
        traits = prepared.traits
        if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
            continue
        for call in labels.calls(number):
            place = of_name(call, traits.path)
            if place is not None and content_label(call, traits).untrusted:
                yield _Written.by(number, _text(place))
    for number in _filing(labels):
        for filing in map(filing_of, labels.calls(number)):
            yield from (_Written.by(number, _text(p)) for p in filing.writes if filing.label.untrusted)


def _words_for(file: Named) -> Iterator[tuple[str, object]]:
    """The words by which a program may name or find a file, each with a key for files that it cannot
    distinguish.

    Files with the same word and key are searched for once, since plans may write many.
    """
    named = (file.name, file.folder if file.stands_for_its_folder else "")
    for word in {_last_word(file.name), *map(_last_word, file.modules)} - {""}:
        yield word, named
    kinds = kinds_of(file)
    for word in finders_of(file):
        yield word, (file.end, kinds)
    for word in (_ANY_NAME, file.end):
        yield word, file.end
    for word in _HERE if file.stands_for_its_folder else ():
        yield word, file.end
    for folder in (*file.path.split("/")[:-1], *_HERE):
        yield f"{_last_word(folder)}/", folder


def _last_word(text: str) -> str:
    words = _WORD.findall(text)
    return words[-1] if words else ""


def _is_handed_strangers_words(program: _Program) -> bool:
    """Whether a call passes untrusted data to its program, for example on standard input."""
    return any(
        argument.label.untrusted
        for argument in program.call.arguments
        if argument.name.casefold() not in (program.argument, "language")
    )


def _is_read(program: _Program, file: Named) -> bool:
    """Whether a program names a file other than where it writes it."""
    if not file.is_in(program.text):
        return False
    named = program.text.casefold().count(file.name)
    return named == 0 or named > sum(Named.of(path).name == file.name for path in program.writes)


def _comes_before(labels: Labels, file: _Written, number: int) -> bool:
    """Whether the file may be written before the step runs."""
    if file.step is None:
        return True
    subject = labels.subject
    if subject.plan.order is not Order.TEXT or subject.control.in_cycle[number]:
        return True
    is_beside = subject.flow.group_end[file.step] == subject.flow.group_end[number]
    return file.step <= number or (is_beside and subject.plan.steps[number].group is not None)


def _is_run_there(path: str) -> bool:
    """Whether a file of this path is executed by something; `/tmp/` is ignored, so only the rest of the path
    counts.
    """
    return not path.startswith("/dev/") and is_executable_anywhere(path.removeprefix("/tmp/"))


def _text(argument: Argument) -> str:
    return "".join(known(part, _NOT_KNOWN) for part in argument.parts)
