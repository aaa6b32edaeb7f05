"""A file as programs name it: by the end of its path, from whatever folder they run in."""

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
    """A path in lower case, its last part, that without its ending, the ending, and the folder around it."""

    path: str
    name: str
    stem: str
    end: str
    folder: str

    @classmethod
    def of(cls, path: str) -> Named:
        """The file of a path, with either kind of slash."""
        plain = path.casefold().replace("\\", "/")
        whole = PurePosixPath(plain)
        return cls(plain, whole.name, whole.stem, whole.suffix, whole.parent.name)

    @classmethod
    def input(cls) -> Named:
        """What a program is given on its standard input."""
        return cls.of(_INPUT)

    @property
    def is_input(self) -> bool:
        """Whether it is what a program is given on its standard input."""
        return self.path == _INPUT

    @property
    def modules(self) -> frozenset[str]:
        """The names that it is imported by: its own, and its folder's if it stands for that.

        >>> sorted(Named.of("lib/tool.py").modules), sorted(Named.of("out/__init__.py").modules)
        (['tool'], ['__init__', 'out'])
        """
        return frozenset({self.stem, self.folder} if self.stands_for_its_folder else {self.stem}) - {""}

    @property
    def stands_for_its_folder(self) -> bool:
        """Whether who names the folder may mean this file in it."""
        return self.stem in _STANDS_FOR_ITS_FOLDER

    def is_in(self, text: str) -> bool:
        """Whether a text names it anywhere, or is a pattern of names that it matches by its ending."""
        named = re.search(rf"(?<![\w.-]){re.escape(self.name)}(?![\w-])", text, re.IGNORECASE) is not None
        return named or (self.end != "" and f"*{self.end}" in text.casefold()) or self._is_meant_by(text)

    def is_named(self, word: str) -> bool:
        """Whether a word is its path, from some folder, or a pattern that it matches by its ending."""
        return PurePosixPath(word.replace("\\", "/")).name.casefold() == self.name or self._is_meant_by(word)

    def is_started_by(self, word: str) -> bool:
        """Whether an interpreter that is given the word runs it: its path, or a folder that it stands for."""
        if self.is_named(word):
            return True
        last = PurePosixPath(word.replace("\\", "/")).name.casefold()
        return self.stands_for_its_folder and (last == self.folder or last in _IS_HERE)

    def is_below(self, word: str) -> bool:
        """Whether a word is a folder that it stands in, by the end of that folder's path.

        >>> file = Named.of("out/hooks/pre-commit")
        >>> file.is_below("./out/"), file.is_below("a/hooks"), file.is_below("."), file.is_below("hook")
        (True, True, True, False)
        """
        last = PurePosixPath(word.casefold().replace("\\", "/")).name
        return last in _IS_HERE or last in PurePosixPath(self.path).parts[:-1]

    def _is_meant_by(self, word: str) -> bool:
        """Whether it is a pattern of a shell for its kind of file, whatever else the pattern says."""
        if not _is_pattern(word):
            return False
        last = word.casefold().replace("\\", "/").rpartition("/")[2]
        _, dot, end = last.rpartition(".")
        return not dot or any(sign in end for sign in "?*[{") or f".{end}" == self.end


def _is_pattern(word: str) -> bool:
    """Whether a shell puts names of files in its place: `*`, `?`, `[ab]` or `{a,b}` stands in it."""
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
"""Whether a program in a language, None for a command line, runs a file; how deep it stands in others."""
MOST_DEPTH = 20
"""Programs deeper in others are not looked through."""
