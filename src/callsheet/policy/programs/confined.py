"""Recognises programs that open no file: they work on their text, their arguments and their standard input.

In: a program and its language. Out: the files of the modules that it imports, or None if it may open other
files. None for every construct that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from callsheet.policy.programs.confined_python import modules_of
from callsheet.policy.programs.languages import Kind, kind_of
from callsheet.policy.programs.read_only import NOWHERE
from callsheet.policy.programs.script import Command, NotClosedError, commands_of

_SHELLS = frozenset({None, "shell", "sh", "bash", "dash", "ash", "ksh"})
"""Languages whose quotes and expansions are those read here; they differ in `zsh`, `fish` and `cmd`."""
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|(?<![^\s;&|()<>])#[^\n]*['\"]", re.DOTALL)
"""A quoted text, an escaped sign, or a comment with a quote."""
_LINES = {ord("\t"): " ", ord("\n"): " "}
_EXPANDS = re.compile(r"[*?\[{~$<]")
"""Signs that, outside of quotes, may name a file or add words to a command."""
_PUTS_IN = ("$(", "`", ">(")
_AWK_OPENS = re.compile(r"[>|<@]|getline|system|ARG|SYMTAB")
_SED = re.compile(r"s([/|,#])(?:(?!\1)[^\n])*\1(?:(?!\1)[^\n])*\1[gIip\d]*|[\d,$]*[pdq]")
"""Programs of sed that only substitute or select lines."""
_PRINTF_SETS = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
"""A conversion of `printf` that sets a variable, such as PATH."""
_JQ_OPENS = re.compile(r"\b(?:import|include|input_filename|modulemeta)\b")


class _Usage(NamedTuple):
    """How a command may be called: its flags, its flags with a value, and how many words may follow them."""

    flags: str = ""
    valued: str = ""
    words: int = 0


_ANY = 1_000
_FILTERS: Mapping[str, _Usage] = {
    "awk": _Usage("", "Fv", 1),
    "cat": _Usage("nbsAETv"),
    "column": _Usage("tx", "sco"),
    "cut": _Usage("sz", "bcdf"),
    "date": _Usage("uR", "d", 1),
    "echo": _Usage("neE", "", _ANY),
    "egrep": _Usage("ivwxcnoqshz", "mABC", 1),
    "false": _Usage(),
    "fgrep": _Usage("ivwxcnoqshz", "mABC", 1),
    "fold": _Usage("sb", "w"),
    "grep": _Usage("ivwxcnoqshzEFP", "mABC", 1),
    "head": _Usage("qvz", "nc"),
    "hostname": _Usage("sfdiI"),
    "id": _Usage("ugGnr"),
    "jq": _Usage("rcsSnejMaR", "", 1),
    "nl": _Usage("", "bnwsvi"),
    "nproc": _Usage(),
    "paste": _Usage("s", "d"),
    "printf": _Usage("", "", _ANY),
    "pwd": _Usage("LP"),
    "rev": _Usage(),
    "sed": _Usage("nEr", "", 1),
    "seq": _Usage("w", "sf", 3),
    "sort": _Usage("nrubfhVgiMRsczd", "kt"),
    "tac": _Usage(),
    "tail": _Usage("qvz", "nc"),
    "tr": _Usage("cdsCt", "", 2),
    "true": _Usage(),
    "uname": _Usage("asnrvmpio"),
    "uniq": _Usage("cduiz", "fsw"),
    "uptime": _Usage("ps"),
    "wc": _Usage("lwcmL"),
    "whoami": _Usage(),
}
"""Commands that open no file when called in these ways."""


@lru_cache(maxsize=1_024)
def only_modules(program: str, language: str | None) -> tuple[str, ...] | None:
    """The files of the modules that a program imports if it opens no other file, else None.

    `language` is the program's language, None for a command line.

    >>> only_modules("import json, sys; print(len(json.load(sys.stdin)))", "python")
    ('json.py', 'json/__init__.py', 'sys.py', 'sys/__init__.py')
    >>> only_modules("cut -d, -f2 | sort -u | wc -l", None), only_modules("date +%F", "shell")
    ((), ())
    >>> only_modules("wc -l notes.txt", None), only_modules("print(open('a').read())", "python")
    (None, None)
    """
    kind = kind_of(language)
    if kind is Kind.SHELL:
        name = None if language is None else language.strip().casefold()
        return () if name in _SHELLS and _is_confined(program) else None
    modules = modules_of(program) if kind is Kind.PYTHON else None
    if modules is None:
        return None
    return tuple(f"{name}{end}" for name in modules for end in (".py", "/__init__.py"))


def _is_confined(script: str) -> bool:
    """Whether a shell script opens no file."""
    if not script.translate(_LINES).isprintable():  # white space that divides no words, for instance
        return False
    if any(sign in script for sign in _PUTS_IN) or _EXPANDS.search(_QUOTED.sub(_unquoted, script)):
        return False
    try:
        return all(map(_opens_nothing, commands_of(script)))
    except NotClosedError:
        return False


def _unquoted(quoted: re.Match[str]) -> str:
    """What replaces a quoted text when signs outside of quotes are searched: `$` if one is expanded in it, or
    if it is a comment with a quote, from which on quotes would be misread.
    """
    text = quoted[0]
    return "$" if text[0] == "#" or (text[0] == '"' and "$" in text) else "''"


def _opens_nothing(command: Command) -> bool:
    words = command.words
    if command.reads or not NOWHERE.issuperset(command.writes):
        return False
    if not words:
        return True
    usage = _FILTERS.get(words[0])
    operands = None if usage is None else _operands(words[1:], usage)
    if usage is None or operands is None or len(operands) > usage.words:
        return False
    return _is_allowed(words[0], operands)


def _operands(words: Sequence[str], usage: _Usage) -> list[str] | None:
    """The words that are neither flags nor their values; None if a flag is not known."""
    if usage.words == _ANY:
        return list(words)
    operands: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif len(word) < 2 or word[0] != "-":
            operands += () if word == "-" else (word,)
        else:
            unread = word[1:].lstrip(usage.flags)
            if unread and unread[0] in usage.valued:
                is_value = len(unread) == 1
            elif unread and not unread.isdigit():
                return None
    return None if is_value else operands


def _is_allowed(verb: str, operands: Sequence[str]) -> bool:
    """Whether the operands, which may be programs themselves, open nothing."""
    match verb:
        case "awk":
            return len(operands) == 1 and _AWK_OPENS.search(operands[0]) is None
        case "jq":
            return all(_JQ_OPENS.search(word) is None for word in operands)
        case "sed":
            return len(operands) == 1 and _SED.fullmatch(operands[0]) is not None
        case "printf":
            # `-v` sets a variable, such as PATH
            return not operands or not (operands[0].startswith("-") or _PRINTF_SETS.search(operands[0]))
        case "date":
            return all(word.startswith("+") for word in operands)
        case _:
            return True
