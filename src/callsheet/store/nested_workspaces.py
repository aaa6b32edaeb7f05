"""Translates names between nested workspaces, so that labels recorded in one are found from the others.

In: the folders of workspaces, names of places in one. Out: the names of these places in another. Names are
normalised by `file_key`, so they can be compared as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callsheet.policy.paths import file_key


class Nesting(NamedTuple):
    """Another workspace: it contains this one at the path `above`, or is inside this one at the path `below`.

    The other path is empty.
    """

    root: str
    above: str = ""
    below: str = ""

    def there(self, names: Iterable[str]) -> list[str]:
        """The names in the other workspace of those places of this one that are in it.

        >>> Nesting("/w", above="docs").there(["a.md"]), Nesting("/w/x", below="x").there(["x/a.md", "b.md"])
        (['docs/a.md'], ['a.md'])
        """
        if self.above:
            return [f"{self.above}/{name}" if name else self.above for name in names]
        return [name[len(self.below) + 1 :] for name in names if name.startswith(f"{self.below}/")]

    def folder(self, name: str) -> str | None:
        """What a folder of this workspace has of the other one: a folder, "" for all, None for nothing."""
        if self.above:
            return f"{self.above}/{name}" if name else self.above
        if not name or self.below == name or self.below.startswith(f"{name}/"):
            return ""
        return name[len(self.below) + 1 :] if name.startswith(f"{self.below}/") else None

    def here(self, name: str) -> str | None:
        """The name in this workspace of a place of the other one; "" if it contains all of this one.

        >>> Nesting("/w", above="docs").here("docs/a.md"), Nesting("/w", above="docs").here("docs")
        ('a.md', '')
        >>> Nesting("/w/x", below="x").here("a.md"), Nesting("/w/x", below="x").here("")
        ('x/a.md', 'x')
        """
        if self.below:
            return f"{self.below}/{name}" if name else self.below
        if not name or self.above == name or self.above.startswith(f"{name}/"):
            return ""
        return name[len(self.above) + 1 :] if name.startswith(f"{self.above}/") else None


def near(root: str, roots: Iterable[str]) -> Iterator[Nesting]:
    """The folders that contain `root` or are inside it.

    >>> list(near("/w/x", ["/w", "/w/x", "/w/x/y/z", "/w/xy"]))
    [Nesting(root='/w', above='x', below=''), Nesting(root='/w/x/y/z', above='', below='y/z')]
    """
    own = _parts(root)
    for other in roots:
        parts = _parts(other)
        if len(parts) < len(own) and own[: len(parts)] == parts:
            yield Nesting(other, above="/".join(own[len(parts) :]))
        elif len(parts) > len(own) and parts[: len(own)] == own:
            yield Nesting(other, below="/".join(parts[len(own) :]))


def _parts(root: str) -> list[str]:
    return [part for part in file_key(root).split("/") if part]
