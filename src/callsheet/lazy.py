"""What is loaded or compiled only when it is first used: names of packages, modules, and regular expressions.

A command then pays for what it needs. A small plan needs no verifier, no servers and few of the patterns.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # what type checkers take as true; `typing` would cost half of importing callsheet
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, AnyStr

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")


def names_of(package: str, places: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names are in the modules of `places`, by their full names.

    A module is imported when one of its names is first asked for; the name is then an attribute of the
    package like any other.
    """
    place_of = {name: place for place, names in places.items() for name in names}

    def attribute(name: str) -> object:
        place = place_of.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(place), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute


class _Module:
    """Stands for a module, which is imported when one of its attributes is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what `inspect` and `doctest` look for
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def deferred(name: str) -> Any:
    """A module that is imported when one of its names is first used.

    For what only some functions of a module need. A type checker sees a plain import beside it:

        if TYPE_CHECKING:
            from callsheet.api import proving
        else:
            proving = deferred("callsheet.api.proving")

    >>> text = deferred("textwrap")
    >>> text.shorten("one two three", 9)
    'one [...]'
    """
    return _Module(name)


class _Pattern:
    """Stands for a compiled pattern; its methods are those of the real one from the first use on."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what `copy` and `pickle` look for
            raise AttributeError(name)
        import re  # noqa: PLC0415 - not for `import callsheet`

        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled when one of its methods is first used.

    For constants of modules. Functions of `re` do not take it in the place of a pattern.

    >>> word = pattern("[a-z]+")
    >>> word.findall("two words")
    ['two', 'words']
    """
    stand_in: Any = _Pattern(text, flags)
    return stand_in
