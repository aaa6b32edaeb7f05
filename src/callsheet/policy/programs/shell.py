"""Decides whether a shell script runs a file: as a command, by an interpreter, from a pipe or a substitution.

Known readers, and programs of the workspace itself, treat files as data. All other programs may run them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise
from pathlib import PurePosixPath

from callsheet.policy.programs.commands import (
    ELSEWHERE,
    LAUNCHERS,
    MOST_PLACES,
    SHELLS,
    Place,
    does_not_run,
    gives_code,
    is_interpreter,
    language_of,
    places,
    verb_of,
)
from callsheet.policy.programs.data_commands import asked_by_option, is_reader, module_reads
from callsheet.policy.programs.discovered_files import finds
from callsheet.policy.programs.file_matching import Named, Runs
from callsheet.policy.programs.script import Command, NotClosedError, commands_of, put_in, without_put_in

_SERVING = frozenset(
    {"uvicorn", "gunicorn", "hypercorn", "daphne", "celery", "flask", "locust", "dramatiq", "rq",
     "waitress-serve", "fastapi", "streamlit", "alembic", "scrapy"}
)  # fmt: skip
"""Programs that import the modules they are given."""
_SYSTEM = ("/bin/", "/usr/", "/sbin/", "/opt/", "/lib", "/snap/")
_NAMES_CODE = frozenset({"-f", "--file", "-r", "--require", "--import", "--rcfile", "--init-file", "-m"})
_STANDARD_INPUT = re.compile(r"-s?|/dev/stdin|/(?:dev|proc/self)/fd/\d+")
_SETS = frozenset({"declare", "env", "export", "local", "readonly", "typeset"})
"""Commands that set variables; with computed arguments, any variable."""
_PIPES = frozenset({"|", "|&"})
_COMPOUND = frozenset({"while", "until", "for", "if", "case", "{"})
_ENDS_COMPOUND = frozenset({"done", "}", "fi", "esac"})
_ONE_BY_ONE = frozenset({"xargs", "parallel"})
_OBEYED_VARIABLE = re.compile(
    r"(?:BASH_)?ENV|PYTHON\w+|PERL\w+|NODE_\w+|RUBY\w+|LD_\w+|DYLD_\w+|GIT_\w+|\w*EDITOR|VISUAL|\w*PAGER|BROWSER|SHELL"
    r"|PROMPT_COMMAND|PS\d|\w*PATH|\w*JAVA_\w+|GCC_\w+|CC|CXX|MAKEFLAGS|LESSOPEN|LUA_INIT|R_\w+|\w*_OPTIONS|\w*RC"
)
"""Variables that determine what programs load or start."""
_OBEYED_SETTING = re.compile(
    r"core\.(?:hookspath|fsmonitor|sshcommand|gitproxy|pager|editor|askpass)|sequence\.editor|pager\.\S+"
    r"|alias\.\S+|include(?:if\..+)?\.path|\S+\.(?:helper|external|textconv|driver|command|cmd|path|tool)"
    r"|filter\.\S+|uploadpack\.packobjectshook|gpg(?:\.\S+)?\.program|init\.templatedir",
    re.IGNORECASE,
)
"""git settings that determine what it starts, or where."""
_RUNS_A_FOLDER = frozenset({"run-parts"})
SETTINGS_OF_FOLDERS = frozenset({"hookspath", "templatedir"})
"""Settings that make the content of a folder executed, now or later."""
FOLDERS_RUN = _RUNS_A_FOLDER | SETTINGS_OF_FOLDERS
"""Words in a program that executes the content of a folder without naming the files."""
_VARIABLE = re.compile(r"\$[\w{@*]|\{\}")
_EXPANDS = re.compile(r"\$[\w{(@*]")
_TAKES_INPUT = re.compile(r"\b(?:read|mapfile|readarray)\b|\$\(|`|stdin|/dev/fd/0")


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a command.

    `is_anywhere`: the script mentions the file. `is_fed`: the command receives the file's content.
    `received`: the literal texts it receives. `own`: the script's functions.
    """

    file: Named
    runs: Runs
    is_anywhere: bool
    is_fed: bool
    own: frozenset[str]
    depth: int
    received: tuple[str, ...] = ()

    def run_in(self, program: str, language: str | None, file: Named | None = None) -> bool:
        """Whether a nested program runs the file; its substitutions are analysed separately."""
        return self.runs(without_put_in(program), language, file or self.file, self.depth + 1)


def shell_runs(program: str, file: Named, runs: Runs, depth: int = 0) -> bool:
    """Whether the script may run the file; `runs` is asked about nested programs."""
    is_anywhere = file.is_in(program) or (file.is_input and _TAKES_INPUT.search(program) is not None)
    try:
        commands = commands_of(program)
    except NotClosedError:
        return is_anywhere
    own = frozenset(
        verb_of(one.words[-1]) for one in commands if one.words and one.joint == "(" and len(one.words) < 3
    )
    is_led_in = any(_is_led_in(command, file) for command in commands)
    around = _Around(file, runs, is_anywhere, file.is_input or is_led_in, own, depth)
    return _any_runs(commands, around)


def _is_led_in(command: Command, file: Named) -> bool:
    """Whether the file is redirected into a whole loop, or into the rest of the script."""
    is_all = not command.words or command.words[0] in _ENDS_COMPOUND or command.words == ["exec"]
    return is_all and any(file.is_in(word) for word in (*command.reads, *command.here_texts))


def _any_runs(commands: Sequence[Command], start: _Around) -> bool:
    depth, around = 0, start
    for command in commands:
        is_pattern = command.joint == ")" and depth == 0
        depth += {"(": 1, ")": -1 if depth else 0}.get(command.joint, 0)
        is_fed = around.is_fed or any(_mentions(word, around) for word in command.reads)
        fed = around if is_fed is around.is_fed else replace(around, is_fed=is_fed)
        if not is_pattern and _command_runs(command, fed):
            return True
        if command.joint in _PIPES:
            around = replace(
                around, is_fed=fed.is_fed or _is_about(command, fed), received=_output_texts(command, around)
            )
        elif not (command.words and command.words[0] in _COMPOUND) and command.joint != "(":
            around = start
    return False


def _output_texts(command: Command, around: _Around) -> tuple[str, ...]:
    """The literal texts that a command may write to its output."""
    spoken = (
        (" ".join(command.words[1:]),) if command.words[:1] in (["echo"], ["printf"]) else around.received
    )
    return (*command.here_texts, *spoken)


def _is_about(command: Command, around: _Around) -> bool:
    return any(around.file.is_in(word) for word in (*command.words, *command.here_texts))


def _mentions(word: str, around: _Around) -> bool:
    """Whether a word names the file, or a variable in a script that mentions it."""
    return around.file.is_in(word) or (around.is_anywhere and _VARIABLE.search(word) is not None)


def _command_runs(command: Command, around: _Around) -> bool:
    """Whether a command, or a substitution in it, runs the file."""
    words, file = command.words, around.file
    for word in (*words, *command.reads, *command.here_texts, *command.writes):
        if any(around.runs(inner, None, file, around.depth + 1) for inner in put_in(word)):
            return True
    if any(_is_obeyed(word, file) for word in words) or _sets_what_runs(words, file):
        return True
    if _sets_any(words, around):
        return True
    starts = places(words)
    if len(starts) > MOST_PLACES:
        return around.is_anywhere or around.is_fed
    if not starts:
        return around.is_fed and any(word in _ONE_BY_ONE for word in words)
    if command.here_texts:
        around = replace(around, received=(*command.here_texts, *around.received))
    if any(_runs_by_name(words[place.at :], place, around) for place in starts):
        return True
    return _takes_as_program(words, starts[-1], around)


def _is_obeyed(word: str, file: Named) -> bool:
    """Whether a word sets a variable that determines what is loaded or started to the file."""
    name, is_set, value = word.partition("=")
    return bool(is_set) and _OBEYED_VARIABLE.fullmatch(name) is not None and _leads_to(value, file)


def _sets_any(words: Sequence[str], around: _Around) -> bool:
    """Whether a command sets variables whose names come from the file."""
    return any(verb_of(word) in _SETS for word in words[:1]) and any(
        word.startswith(("$(", "`")) and _mentions(word, around) for word in words[1:]
    )


def _sets_what_runs(words: Sequence[str], file: Named) -> bool:
    """Whether a command makes git start the file, or content of its folder, once or permanently."""
    if "git" not in map(verb_of, words):
        return False
    apart = pairwise(words) if "config" in words else ()
    joined = ((name, value) for name, is_set, value in (word.partition("=") for word in words) if is_set)
    return any(
        _OBEYED_SETTING.fullmatch(name) is not None and (file.is_in(value) or file.is_below(value))
        for name, value in (*apart, *joined)
    )


def _leads_to(value: str, file: Named) -> bool:
    parts = re.split(r"[:/\s]", value.casefold())
    return file.is_in(value) or file.stem in value.casefold() or (file.folder != "" and file.folder in parts)


def _runs_by_name(command: Sequence[str], place: Place, around: _Around) -> bool:
    """Whether the program that begins at a place runs the file, by the program's name and arguments."""
    file, verb, operands = around.file, verb_of(command[0]), command[1:]
    if file.is_named(command[0]) or finds(command, file):
        return True
    if _stands_for_content(command[0], around):
        return True
    if is_interpreter(verb) and not _is_script_of(place):
        return _interpreter_runs(verb, operands, place, around)
    if verb in (".", "source"):
        return _is_script("".join(operands[:1]), around)
    if verb in ("eval", "trap"):
        line = " ".join(dropwhile("eval".__eq__, operands) if verb == "eval" else operands[:1])
        return _mentions(line, around) or around.run_in(line, None)
    if verb in _RUNS_A_FOLDER and any(map(file.is_below, operands)):
        return True
    if any(_after(operands, file)) and (
        verb in _SERVING or any(asked_by_option(verb, word) for word in operands)
    ):
        return True
    return verb in _SERVING and any(not file.modules.isdisjoint(_parts(word)) for word in operands)


def _stands_for_content(word: str, around: _Around) -> bool:
    """Whether a word in command position is computed from the file."""
    return (word.startswith("$") or "$(" in word) and _mentions(word, around)


def _takes_as_program(words: Sequence[str], place: Place, around: _Around) -> bool:
    """Whether the program that is finally run may execute what it receives: files, lines or its input."""
    verb, operands = verb_of(words[place.at]), words[place.at + 1 :]
    is_given = any(_mentions(word, around) for word in words)
    if not (is_given or around.is_fed):
        return False
    if _is_script_of(place):
        is_module = place.at > 0 and words[place.at - 1] == "-m"
        return is_module and is_given and not module_reads(words[place.at])
    if verb in around.own or _is_of_the_tree(words[place.at], place):
        return False
    if is_interpreter(verb) or verb in (".", "source", "eval", "trap") or verb in LAUNCHERS:
        return False
    return place.starter in ELSEWHERE or not is_reader(verb, operands)


def _is_script_of(place: Place) -> bool:
    """Whether the word at a place is the script or module of an interpreter."""
    return is_interpreter(place.starter) and place.starter not in LAUNCHERS


def _is_of_the_tree(word: str, place: Place) -> bool:
    """Whether a word is the path of a program in the workspace, such as `./count.sh`."""
    is_file = place.starter in LAUNCHERS and PurePosixPath(word).suffix != ""
    return is_file or ("/" in word and not word.startswith(_SYSTEM))


def _parts(word: str) -> list[str]:
    """The names in a word such as `app.main:app`."""
    return re.findall(r"[\w-]+", word.casefold())


def _after(operands: Sequence[str], file: Named) -> Iterator[bool]:
    """For each option that takes code, whether its value is the file, as a path or a module."""
    for option, given in pairwise(operands):
        if option in _NAMES_CODE:
            yield file.is_named(given) or not file.modules.isdisjoint(given.casefold().split("."))
    for word in operands:
        option, equals, given = word.partition("=")
        if equals and option in _NAMES_CODE:
            yield file.is_named(given)


def _interpreter_runs(verb: str, operands: Sequence[str], place: Place, around: _Around) -> bool:
    """Whether an interpreter receives the file as script, code, module or standard input."""
    file = around.file
    if any(_after(operands, file)):
        return True
    is_fed = around.is_fed or (around.is_anywhere and any(map(_EXPANDS.search, around.received)))
    for at, word in enumerate(operands):
        if does_not_run(verb, word) or word == "-m":
            return False
        if gives_code(verb, word):
            rest = [one for one in operands[at + 1 :] if one != "--"]
            return _code_runs(verb, "".join(rest[:1]), rest[1:], place, replace(around, is_fed=is_fed))
        if _STANDARD_INPUT.fullmatch(word):
            break
        if not word.startswith(("-", "+")):
            return _is_script(word, around)
    language = language_of(verb)
    return is_fed or any(around.run_in(text, language) for text in around.received)


def _code_runs(verb: str, code: str, given: Sequence[str], place: Place, around: _Around) -> bool:
    """Whether code on an interpreter's command line runs the file, which may be substituted into it."""
    file, is_given = around.file, around.is_fed or any(_mentions(word, around) for word in given)
    is_one_by_one = place.starter in _ONE_BY_ONE and (around.is_fed or around.is_anywhere)
    if is_one_by_one or (("$(" in code or "`" in code) and file.is_in(code)):
        return True
    if verb in SHELLS and around.is_anywhere and _VARIABLE.search(code):
        return True
    return around.run_in(code, language_of(verb)) or (
        is_given and not file.is_input and around.run_in(code, language_of(verb), Named.input())
    )


def _is_script(word: str, around: _Around) -> bool:
    """Whether an interpreter's script is the file, or is computed by a script that mentions it."""
    if word.startswith(("$", "<(", "{}")) or "$(" in word:
        return _mentions(word, around)
    return around.file.is_started_by(word) or (around.is_fed and _STANDARD_INPUT.fullmatch(word) is not None)
