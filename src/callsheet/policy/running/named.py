"""A file as programs name it: by the end of its path, from whatever folder they run in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias


class Named(NamedTuple):
    """The last part of a path in lower case, without its ending, and the ending."""

    name: str
    stem: str
    end: str

    @classmethod
    def of(cls, path: str) -> Named:
        """The file of a path, with either kind of slash."""
        whole = PurePosixPath(path.casefold().replace("\\", "/"))
        return cls(whole.name, whole.stem, whole.suffix)

    def is_in(self, text: str) -> bool:
        """Whether a text names it anywhere."""
        return re.search(rf"(?<![\w.-]){re.escape(self.name)}(?![\w-])", text, re.IGNORECASE) is not None

    def is_named(self, word: str) -> bool:
        """Whether a word is its path, from some folder."""
        return PurePosixPath(word.replace("\\", "/")).name.casefold() == self.name


Runs: TypeAlias = Callable[[str, "str | None", Named], bool]
"""Whether a program in a language, None for a command line, runs a file."""
