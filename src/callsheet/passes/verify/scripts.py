"""Detects programs that may execute untrusted content, and copies of it where something executes it.

In: the calls that a plan may make. Out: objections to steps that run code or copy files.

A program that declares what it reads, or is known to need no file, runs in a sandbox without a network:
whatever it executes there reads nothing else, writes nothing that stays, and has an untrusted result. All
other programs may execute what the plan has written and what they are given. Linear in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from callsheet.passes.verify.persisted_labels import PersistedLabels
from callsheet.passes.verify.places import CODE, Access
from callsheet.policy.builtins import PathUse, Reach
from callsheet.policy.calls import Argument, CallView, Objection, Rule
from callsheet.policy.paths import file_key, is_pattern, walked
from callsheet.policy.prepared import Prepared
from callsheet.policy.programs import (
    READS,
    executes_nothing,
    fixed_folder,
    needs_no_file,
    only_looks,
    program_of,
    words_of,
)
from callsheet.policy.rules.base import Setting, known, of_name
from callsheet.policy.rules.files import content_label, filing_of, keeps_files
from callsheet.policy.rules.opened_files import DECLARE, seen_by
from callsheet.policy.runnable import is_executable_anywhere

_OF_THE_PROGRAM = frozenset({"code", "command", "language", READS})
_ON_HOST = "run it in the sandbox, with @SHELL_EXEC"
_NETWORKED = "run it without a network, or let it see no untrusted content"
_NOT_KNOWN = "x"
_SCRIPT = re.compile(r"(?:python3? |\./)[\w./-]+\.(?:py|sh)(?: [\w./-]+)*")
"""A script of the workspace: what it is given on standard input is data to it, not a program."""


@dataclass(frozen=True, slots=True)
class MadeCalls:
    """The calls that a plan may make; the steps are numbered, the sequences indexed by these numbers.

    `comes_before(writer, runner)` says whether a step may be executed before another one, `is_revisited`
    whether any step may be executed before this one.
    """

    setting: Setting
    prepared: Sequence[Prepared]
    accesses: Sequence[Access]
    ids: Sequence[str]
    calls: Callable[[int], Sequence[CallView]]
    comes_before: Callable[[int, int], bool]
    is_revisited: Callable[[int], bool]
    left: PersistedLabels


class _Written(NamedTuple):
    """A path with untrusted content and the step that writes it; None for an earlier run."""

    path: str
    step: int | None


class _Running(NamedTuple):
    """A program that may execute what it sees: what it is given, and files.

    `paths` are the places where the files are, None if they may be anywhere. `help` is the way out.
    """

    step: int
    call: CallView
    program: str
    paths: tuple[str, ...] | None
    help: str


def untrusted_scripts(made: MadeCalls, numbers: Iterable[int]) -> Iterator[tuple[int, Objection]]:
    """An EXECUTABLE objection for each of these steps that may execute untrusted content, or copies it to
    where it is executed.

    Approval of the step does not lift it: the approver sees the program, not the content of the file.
    """
    steps = [number for number, step in enumerate(made.prepared) if step.tool in CODE]
    copying = [number for number in _filing(made) if made.accesses[number].reads]
    if not steps and not copying:
        return
    asked = frozenset(numbers)
    written = sorted(_written(made), key=lambda file: -1 if file.step is None else file.step)
    for step, objection in _copied(made, copying, written):
        if step in asked:
            yield step, objection
    first = next((file for file in written if file.step is not None), None)
    left = [file for file in written if file.step is None]
    for running in (running for step in steps if step in asked for running in _running(made, step)):
        argument = next((a for a in _given(running) if a.label.untrusted), None)
        if argument is not None:
            yield running.step, _objection(running, f"its {argument.name}, which is untrusted content")
            continue
        # if the first of them does not come before a program, no other does
        files = written if first is not None and _comes_before(made, first, running.step) else left
        file = next((file for file in files if _may_run(made, running, file)), None)
        if file is not None:
            yield running.step, _objection(running, _place(made, file))


def _running(made: MadeCalls, step: int) -> Iterator[_Running]:
    """The programs of a step for which executing untrusted content would matter."""
    prepared = made.prepared[step]
    tool, traits = prepared.tool, prepared.traits
    for call in made.calls(step):
        if tool == "HOST_EXEC":
            command = of_name(call, "command")
            line = "" if command is None else _text(command)
            if not only_looks(line):
                yield _Running(step, call, line, None, _ON_HOST)
            continue
        code, language = program_of(tool, call)
        view = seen_by(made.setting, tool, call)
        if code is not None and language is not None and executes_nothing(code, language):
            continue
        if view.is_whole:
            yield _Running(step, call, code or "", None, DECLARE)
        elif (traits is not None and traits.reach is Reach.WORLD) and (
            code is None or language is None or not needs_no_file(code, language)
        ):
            yield _Running(step, call, code or "", view.paths, _NETWORKED)


def _given(running: _Running) -> Iterator[Argument]:
    """What a program is given that it may execute."""
    if _SCRIPT.fullmatch(running.program) is None:
        yield from (a for a in running.call.arguments if a.name.casefold() not in _OF_THE_PROGRAM)


def _may_run(made: MadeCalls, running: _Running, file: _Written) -> bool:
    """Whether a program may execute a file: one that the plan has written and that it sees, or one of an
    earlier run that it names.
    """
    if not _comes_before(made, file, running.step):
        return False
    if running.paths is not None:
        return any(_overlap(fixed_folder(path), file.path) for path in running.paths)
    return file.step is not None or _is_named(file.path, running.program)


def _is_named(path: str, program: str) -> bool:
    """Whether a program names a file or its folder, or a module that the file may be."""
    place = PurePosixPath(walked(path).casefold())
    names = {place.name, place.stem, *place.parent.parts}
    words = (word.casefold() for word in words_of(program))
    return any(not names.isdisjoint((*word.split("/"), *word.split("."))) for word in words)


def _copied(
    made: MadeCalls, copying: Iterable[int], written: list[_Written]
) -> Iterator[tuple[int, Objection]]:
    """Objections to calls that copy untrusted content to where it is executed; adds the other copies to
    `written`.
    """
    waiting = [(step, filing_of(call), call) for step in copying for call in made.calls(step)]
    for file in written:  # grows by the copies
        for entry in list(waiting):
            step, filing, call = entry
            is_source = any(
                read.text is None or is_pattern(read.text) or _overlap(read.text, file.path)
                for read in filing.reads
            )
            if not is_source or not filing.writes or not _comes_before(made, file, step):
                continue
            waiting.remove(entry)
            for target in map(_text, filing.writes):
                written.append(_Written(target, step))
                if is_executable_anywhere(target):
                    what = f"@{call.tool} would put untrusted content into {target}, where it is executed"
                    help_text = "write it to a file that nothing runs, such as .md or .txt"
                    yield step, Objection(Rule.EXECUTABLE, what, filing.writes[0].name, help_text)


def _overlap(one: str, other: str) -> bool:
    """Whether two paths may be the same file, or one a folder of the other, wherever the workspace is.

    >>> _overlap("/home/ada/w/out/a.md", "out/a.md"), _overlap("out", "out/a.md"), _overlap("a.md", "b.md")
    (True, True, False)
    """
    parts = sorted((_parts(one), _parts(other)), key=len)
    short, long = parts
    return not short or long[: len(short)] == short or long[-len(short) :] == short


def _parts(path: str) -> list[str]:
    return [part for part in walked(file_key(path)).split("/") if part not in ("", "~")]


def _place(made: MadeCalls, file: _Written) -> str:
    writer = "an earlier run has written" if file.step is None else f"{made.ids[file.step]} writes"
    return f"{file.path}, into which {writer} untrusted content"


def _objection(running: _Running, what: str) -> Objection:
    argument = "command" if running.call.tool == "HOST_EXEC" else "code"
    return Objection(Rule.EXECUTABLE, f"@{running.call.tool} may run {what}", argument, running.help)


def _filing(made: MadeCalls) -> Iterator[int]:
    """The steps that write files with operator-defined tools."""
    for number, (prepared, access) in enumerate(zip(made.prepared, made.accesses, strict=True)):
        if access.writes and keeps_files(prepared.tool, prepared.traits):
            yield number


def _written(made: MadeCalls) -> Iterator[_Written]:
    for path, label in made.left.files.items():
        if label.untrusted:
            yield _Written(path, None)
    for number, prepared in enumerate(made.prepared):
        traits = prepared.traits
        if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
            continue
        for call in made.calls(number):
            place = of_name(call, traits.path)
            if place is not None and content_label(call, traits).untrusted:
                yield _Written(_text(place), number)
    for number in _filing(made):
        for filing in map(filing_of, made.calls(number)):
            yield from (_Written(_text(p), number) for p in filing.writes if filing.label.untrusted)


def _comes_before(made: MadeCalls, file: _Written, number: int) -> bool:
    """Whether the file may be written before the step runs."""
    return file.step is None or made.is_revisited(number) or made.comes_before(file.step, number)


def _text(argument: Argument) -> str:
    return "".join(known(part, _NOT_KNOWN) for part in argument.parts)
