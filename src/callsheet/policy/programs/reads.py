"""Finds the files that a program may read, as far as their names occur in it.

In: a program and its language. Out: the paths, except those of files it creates itself. A program's output
may contain these files, as READ_FILE's does. A construct that is not known to only name a file counts as
reading it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from callsheet.policy.paths import alternatives
from callsheet.policy.programs.file_matching import MOST_DEPTH
from callsheet.policy.programs.file_names import NOT_KNOWN, is_file_name, may_name_files
from callsheet.policy.programs.languages import Kind, kind_of
from callsheet.policy.programs.reads_python import opened_by_python
from callsheet.policy.programs.reads_shell import opened_by_shell

_NO_FILES = ("/dev/", "-")
_TEXT = re.compile(r"(?P<open>['\"`])(?P<text>[^'\"`\n]*)(?P=open)")
_BEFORE = 60
_CALLED = re.compile(r"([\w.]*)[\s(\[]*\Z")
_READS = re.compile(
    r"(?:^|[._])(?:f?open\w*|read\w*|load\w*|slurp\w*|file\w*|copy\w*|rename\w*|cp\w*|create_?read\w*"
    r"|get_?content\w*|from|import|require)$|file$",
    re.I,
)
_WRITES = re.compile(
    r"writ|append|save|put_?content|mk_?dir|unlink|exist|^rm|stat|access|import|from|require|ext_?name|base_?name|log|puts|print",
    re.I,
)
"""Functions that take a file name without reading the content; importing a file means running it."""
_WORD = re.compile(r"[^\s'\"`;,()<>|&={}$]+")
_STARTS = re.compile(r"(?:^|[._])(?:exec\w*|spawn\w*|system|popen|qx|shell_exec|passthru)$", re.I)
_SCRIPT_END = re.compile(r"\.[cm]?[jt]sx?$|\.(?:rb|php|pl|lua|r)$", re.I)
_ANY_FILE = re.compile(r"\breadFile(?:Sync)?\s*\(\s*(?!['\"`]|0\b|process\.stdin)|\breaddir(?:Sync)?\s*\(")
"""Reads of files whose names are not literals."""


@lru_cache(maxsize=1_024)
def files_opened(program: str, language: str | None, depth: int = 0) -> tuple[str, ...]:
    """The paths that a program may read, each once; `language` is its language, None for a command line.

    >>> files_opened("sort a.txt | grep -i x b.txt > c.txt; cat c.txt", None)
    ('a.txt', 'b.txt')
    >>> files_opened("p = 'a.md'\\nprint(open(p).read(), open('b', 'w'), open(0).read())", "python")
    ('a.md',)
    >>> files_opened("f=a.txt; cat $f {b,c}.txt", "shell")
    ('*', 'b.txt', 'c.txt', 'a.txt')
    >>> files_opened("puts File.read('a.md') + 'b.md'.upcase; File.write('c.md', 'x')", "ruby")
    ('a.md', 'b.md')
    """
    if depth > MOST_DEPTH:
        return ()
    kind = kind_of(language)
    files: Iterable[str]
    if kind is Kind.SHELL:
        files = opened_by_shell(program, files_opened, depth + 1)
    elif kind is Kind.PYTHON:
        files = opened_by_python(program, files_opened, depth + 1)
    else:
        files = _by_others(program, depth + 1, has_back_quotes=kind is not Kind.SCRIPT)
    paths = [path for path in files if path and not _is_none(path)]
    if any(NOT_KNOWN in path.split("/") for path in paths):
        # a computed name may be any that the program has
        paths += filter(is_file_name, _WORD.findall(program))
    if kind is Kind.SHELL:
        paths = [one for path in paths for one in alternatives(path)]
    return tuple(dict.fromkeys(paths))


def _is_none(path: str) -> bool:
    """Whether a path cannot be that of a file that existed before the program."""
    return path.startswith(_NO_FILES) and ".." not in path


def _by_others(program: str, depth: int, *, has_back_quotes: bool) -> Iterator[str]:
    """The files named in a program's string literals, judged by the function that each is passed to."""
    at = 0
    for match in _TEXT.finditer(program):
        called = _CALLED.search(program[max(at, match.start() - _BEFORE) : match.start()])
        word, text, at = "" if called is None else called[1], match["text"], match.end()
        if _STARTS.search(word) or (match["open"] == "`" and has_back_quotes):
            yield from files_opened(text, None, depth)
        elif _is_read(word, text, is_key=program[at : at + 1] == ":"):
            yield text
    if _ANY_FILE.search(program) and not may_name_files(program):
        yield NOT_KNOWN


def _is_read(word: str, text: str, *, is_key: bool) -> bool:
    """Whether a string literal is the path of a file that is read, judged by the function it is passed to."""
    if _READS.search(word) and not _SCRIPT_END.search(text):
        is_module = word.endswith(("import", "from", "require"))
        return is_file_name(text) if is_module else len(text.split()) == 1
    return is_file_name(text) and _WRITES.search(word) is None and not is_key
