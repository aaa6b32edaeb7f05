"""Matches a file against the ways programs name it: by the end of its path, from any working directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

_STANDS_FOR_ITS_FOLDER = frozenset({"__init__", "__main__", "index", "mod", "main"})
_INPUT = "/dev/stdin"
_IS_HERE = frozenset({"", ".", ".."})
_WORD = re.compile(r"[^\s'\"`();|&<>=]+")


class Named(NamedTuple):
    """A path in lower case: the path, its name, its stem, its extension, and the name of its folder."""

    path: str
    name: str
    stem: str
    end: str
    folder: str

    @classmethod
    def of(cls, path: str) -> Named:
        """The file of a path with either kind of slash."""
        plain = path.casefold().replace("\\", "/")
        whole = PurePosixPath(plain)
        return cls(plain, whole.name, whole.stem, whole.suffix, whole.parent.name)

    @classmethod
    def input(cls) -> Named:
        """The program's standard input as a file."""
        return cls.of(_INPUT)

    @property
    def is_input(self) -> bool:
        """Whether this is the program's standard input."""
        return self.path == _INPUT

    @property
    def modules(self) -> frozenset[str]:
        """The module names it can be imported by: its own, and its folder's if it stands for the folder.

        >>> sorted(Named.of("lib/tool.py").modules), sorted(Named.of("out/__init__.py").modules)
        (['tool'], ['__init__', 'out'])
        """
        return frozenset({self.stem, self.folder} if self.stands_for_its_folder else {self.stem}) - {""}

    @property
    def stands_for_its_folder(self) -> bool:
        """Whether naming its folder may mean this file."""
        return self.stem in _STANDS_FOR_ITS_FOLDER

    def is_in(self, text: str) -> bool:
        """Whether a text names the file anywhere, or contains a glob that matches its extension."""
        named = re.search(rf"(?<![\w.-]){re.escape(self.name)}(?![\w-])", text, re.IGNORECASE) is not None
        return named or (self.end != "" and f"*{self.end}" in text.casefold()) or self._is_meant_by(text)

    def is_named(self, word: str) -> bool:
        """Whether a word is its path, from any folder, or a glob that matches its extension."""
        return PurePosixPath(word.replace("\\", "/")).name.casefold() == self.name or self._is_meant_by(word)

    def is_started_by(self, word: str) -> bool:
        """Whether an interpreter given this word runs the file: by its path, or its folder's."""
        if self.is_named(word):
            return True
        last = PurePosixPath(word.replace("\\", "/")).name.casefold()
        return self.stands_for_its_folder and (last == self.folder or last in _IS_HERE)

    def is_below(self, word: str) -> bool:
        """Whether a word names a folder that contains the file.

        >>> file = Named.of("out/hooks/pre-commit")
        >>> file.is_below("./out/"), file.is_below("a/hooks"), file.is_below("."), file.is_below("hook")
        (True, True, True, False)
        """
        last = PurePosixPath(word.casefold().replace("\\", "/")).name
        return last in _IS_HERE or last in PurePosixPath(self.path).parts[:-1]

    def _is_meant_by(self, word: str) -> bool:
        """Whether the word is a shell glob that may match its extension; the rest of the glob is ignored."""
        if not _is_pattern(word):
            return False
        last = word.casefold().replace("\\", "/").rpartition("/")[2]
        _, dot, end = last.rpartition(".")
        return not dot or any(sign in end for sign in "?*[{") or f".{end}" == self.end


def _is_pattern(word: str) -> bool:
    """Whether a word is a shell glob: it contains `*`, `?`, `[ab]` or `{a,b}`."""
    if not _WORD.fullmatch(word):
        return False
    some, either = word.find("["), word.find("{")
    comma = word.find(",", either)
    return (
        "*" in word
        or "?" in word
        or 0 <= some < word.rfind("]") - 1
        or (0 <= either < comma < word.rfind("}"))
    )


Runs: TypeAlias = Callable[[str, "str | None", Named, int], bool]
"""Whether a program in a language (None: a command line) runs a file, at a nesting depth."""
MOST_DEPTH = 20
"""The nesting depth of programs beyond which nothing is analysed."""
