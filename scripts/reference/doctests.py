"""An extension of griffe that shows examples in docstrings as Python sessions."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Fences each block that begins with `>>>`, up to the next empty line."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object that has been loaded."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            blocks = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(map(_fenced, blocks))


def _fenced(block: str) -> str:
    text, mark, session = block.partition(">>> ")
    if not mark:
        return block
    before = text.strip("\n ")
    return f"{before}\n\n```pycon\n>>> {session}\n```".lstrip("\n")
