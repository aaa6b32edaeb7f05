"""Finds the files that a program may write, as far as their names occur in it.

In: a program and its language. Out: the paths, one per occurrence in a writing position. Untrusted content
that the program reads may end up in them.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from callsheet.policy.programs.commands import (
    MOST_PLACES,
    gives_code,
    is_interpreter,
    language_of,
    places,
    verb_of,
)
from callsheet.policy.programs.file_matching import MOST_DEPTH
from callsheet.policy.programs.languages import Kind, kind_of
from callsheet.policy.programs.python import STARTS, called_name, texts_in
from callsheet.policy.programs.script import Command, NotClosedError, commands_of

_INTO_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "link", "rename"})
_NAMES_OUTPUT = frozenset({"-o", "-O", "--output", "--out", "--output-document", "-t", "--target-directory"})
_OPENS = frozenset({"open", "fdopen", "NamedTemporaryFile"})
_WRITES_TO_SELF = frozenset({"write_text", "write_bytes", "open", "touch"})
_WRITES_TO_LAST = frozenset(
    {"copy", "copy2", "copyfile", "copytree", "move", "rename", "renames", "link", "symlink", "urlretrieve",
     "replace", "to_csv", "to_json", "to_parquet", "savetxt", "hardlink_to", "symlink_to"}
)  # fmt: skip
_SCRIPT_WRITES = re.compile(
    r"\b(?:writeFile|appendFile|createWriteStream|copyFile|rename|cp|symlink|link)(?:Sync)?\s*\(([^()]*)",
    re.DOTALL,
)
_TEXT = re.compile(r"(['\"`])([^'\"`\n]*)\1")


def files_written(program: str, language: str | None, depth: int = 0) -> list[str]:
    """The paths that a program may write to; `language` is its language, None for a command line.

    Beyond MOST_DEPTH levels of nested programs nothing is analysed; `depth` is the current level.

    >>> files_written("sort a.txt > b.txt; cp -f b.txt c.sh", None)
    ['b.txt', 'c.sh']
    >>> files_written("import shutil; shutil.copy('a.txt', 'b.sh')", "python")
    ['b.sh']
    """
    kind = kind_of(language)
    if depth > MOST_DEPTH:
        return []
    if kind is Kind.SHELL:
        return list(_by_shell(program, depth + 1))
    if kind is Kind.PYTHON:
        return list(_by_python(program, depth + 1))
    if kind is Kind.SCRIPT:
        return list(_by_script(program))
    return []


def _by_shell(program: str, depth: int) -> Iterator[str]:
    try:
        commands = commands_of(program)
    except NotClosedError:
        return
    for command in commands:
        yield from command.writes
        yield from _by_words(command, depth)


def _by_words(command: Command, depth: int) -> Iterator[str]:
    words = command.words
    for option, word in pairwise(words):
        if option in _NAMES_OUTPUT:
            yield word
    for word in words:
        option, equals, value = word.partition("=")
        if equals and (option in _NAMES_OUTPUT or option == "of"):
            yield value
    for at, _ in places(words)[:MOST_PLACES]:
        verb, operands = verb_of(words[at]), [word for word in words[at + 1 :] if not word.startswith("-")]
        if verb in _INTO_LAST or (verb == "git" and operands[:1] == ["mv"]):
            yield from operands[-1:]
        elif verb in ("tee", "sponge"):
            yield from operands
        elif is_interpreter(verb):
            for code in (*_code_in(verb, words[at + 1 :]), *command.here_texts):
                yield from files_written(code, language_of(verb), depth)


def _code_in(verb: str, operands: Sequence[str]) -> Iterator[str]:
    """The code given to an interpreter on its command line."""
    return (code for option, code in pairwise(operands) if gives_code(verb, option))


def _by_python(program: str, depth: int) -> Iterator[str]:
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _by_call(node, depth)


def _by_call(node: ast.Call, depth: int) -> Iterator[str]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else None
    called, given = called_name(node), texts_in(node)
    if called in _OPENS and any(set(mode) <= set("rwaxbt+U") and set(mode) & set("wax+") for mode in given):
        yield from given[:1]
    if method in _WRITES_TO_SELF and isinstance(node.func, ast.Attribute):
        yield from (
            part.value
            for part in ast.walk(node.func.value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
    if called in _WRITES_TO_LAST and not _is_of_texts(node, called):
        yield from given[-1:]
    if called in STARTS and given:
        yield from files_written(given[0] if len(given) == 1 else shlex.join(given), None, depth)


def _is_of_texts(node: ast.Call, called: str) -> bool:
    """Whether a `replace` is that of strings, which takes two arguments; that of paths takes one, and `os`
    has its own.
    """
    owner = getattr(getattr(node.func, "value", None), "id", "")
    return called == "replace" and owner != "os" and len(node.args) > 1


def _by_script(program: str) -> Iterator[str]:
    for call in _SCRIPT_WRITES.finditer(program):
        texts = [text[2] for text in _TEXT.finditer(call[1])]
        is_copy = call[0].startswith(("copy", "rename", "cp", "symlink", "link"))
        yield from texts[-1:] if is_copy else texts[:1]
