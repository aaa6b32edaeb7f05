"""What a module imports by name, read from its text: to parse every module takes seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = re.compile(r"#.*")
_IMPORT = re.compile(r"^[ \t]*from (\S+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Each name in a `from … import …`, with its module."""
    for module, lines, line in _IMPORT.findall(_COMMENT.sub("", text)):
        for name in (lines or line).split(","):
            if words := name.split():
                yield module, words[0]
