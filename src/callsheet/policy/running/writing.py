"""Which files a program writes, as far as their names stand in it.

In: a program and its language. Out: the paths, each as often as it stands where something is written. What
strangers wrote and a program reads may come to stand in them.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

from callsheet.policy.running.commands import MOST_PLACES, is_interpreter, places, simple_commands, verb_of
from callsheet.policy.running.languages import Kind, kind_of
from callsheet.policy.running.python import texts_in

_INTO = frozenset({">", ">>", ">|", "&>", ">&"})
_INTO_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "link", "rename"})
_NAMES_OUTPUT = frozenset({"-o", "-O", "--output", "--out", "--output-document", "-t", "--target-directory"})
_OPENS = frozenset({"open", "fdopen", "NamedTemporaryFile"})
_WRITES_TO_SELF = frozenset({"write_text", "write_bytes", "open", "touch"})
_WRITES_TO_LAST = frozenset(
    {"copy", "copy2", "copyfile", "copytree", "move", "rename", "renames", "link", "symlink", "urlretrieve",
     "replace", "to_csv", "to_json", "to_parquet", "savetxt", "hardlink_to", "symlink_to"}
)  # fmt: skip
_STARTS = frozenset({"system", "popen", "Popen", "run", "call", "check_call", "check_output", "getoutput"})
_SCRIPT_WRITES = re.compile(
    r"\b(?:writeFile|appendFile|createWriteStream|copyFile|rename|cp|symlink|link)(?:Sync)?\s*\(([^()]*)",
    re.DOTALL,
)
_TEXT = re.compile(r"(['\"`])([^'\"`\n]*)\1")


def files_written(program: str, language: str | None) -> list[str]:
    """The paths that a program may write to; `language` is that of the code, None for a command line.

    >>> files_written("sort a.txt > b.txt; cp -f b.txt c.sh", None)
    ['b.txt', 'c.sh']
    >>> files_written("import shutil; shutil.copy('a.txt', 'b.sh')", "python")
    ['b.sh']
    """
    kind = kind_of(language)
    if kind is Kind.SHELL:
        return [path for words, _ in simple_commands(program) for path in _by_command(words)]
    if kind is Kind.PYTHON:
        return list(_by_python(program))
    if kind is Kind.SCRIPT:
        return list(_by_script(program))
    return []


def _by_command(words: Sequence[str]) -> Iterator[str]:
    for sign, word in pairwise(words):
        if sign in _INTO or sign in _NAMES_OUTPUT:
            yield word
    for word in words:
        option, equals, value = word.partition("=")
        if equals and (option in _NAMES_OUTPUT or option == "of"):
            yield value
    for at in places(words)[:MOST_PLACES]:
        verb, operands = verb_of(words[at]), _operands(words[at + 1 :])
        if verb in _INTO_LAST:
            yield from operands[-1:]
        elif verb in ("tee", "sponge"):
            yield from operands
        elif is_interpreter(verb):
            yield from _by_code(verb, words[at + 1 :])


def _by_code(verb: str, operands: Sequence[str]) -> Iterator[str]:
    """What code on the command line of an interpreter writes."""
    for option, code in pairwise(operands):
        if re.fullmatch(r"-[a-z]*[ce]", option):
            yield from files_written(code, "python" if verb.startswith(("python", "pypy")) else verb)


def _operands(words: Sequence[str]) -> list[str]:
    """The operands of a command up to where its streams lead elsewhere."""
    end = next(
        (at for at, word in enumerate(words) if word in _INTO or word in ("<", "<<", "<<<")), len(words)
    )
    return [word for word in words[:end] if not word.startswith("-")]


def _by_python(program: str) -> Iterator[str]:
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _by_call(node)


def _by_call(node: ast.Call) -> Iterator[str]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else None
    called, given = method or getattr(node.func, "id", ""), texts_in(node)
    if called in _OPENS and any(set(mode) <= set("rwaxbt+U") and set(mode) & set("wax+") for mode in given):
        yield from given[:1]
    if method in _WRITES_TO_SELF and isinstance(node.func, ast.Attribute):
        yield from (
            part.value
            for part in ast.walk(node.func.value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
    if called in _WRITES_TO_LAST:
        yield from given[-1:]
    if called in _STARTS and given:
        yield from files_written(given[0] if len(given) == 1 else shlex.join(given), None)


def _by_script(program: str) -> Iterator[str]:
    for call in _SCRIPT_WRITES.finditer(program):
        texts = [text[2] for text in _TEXT.finditer(call[1])]
        is_copy = call[0].startswith(("copy", "rename", "cp", "symlink", "link"))
        yield from texts[-1:] if is_copy else texts[:1]
