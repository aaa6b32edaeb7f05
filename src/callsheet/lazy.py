"""What is made only when first used: names of packages, modules, patterns, methods of dataclasses.

A command then pays for what it needs. A small plan needs no verifier, no servers and few of the patterns.
"""

from __future__ import annotations

import sys
from _thread import RLock
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


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - type checkers know it only by this name
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, but with `slots` the methods are made when they are first called.

        Making them takes about as long as importing a small module. A command creates objects of few of the
        classes that it imports, and compares fewer still.

        >>> @dataclass(frozen=True, slots=True)
        ... class Place:
        ...     line: int
        ...     column: int = 1
        >>> Place(3), Place(3) == Place(3, 1)
        (Place(line=3, column=1), True)
        """
        return _class_of(cls, options) if cls is not None else lambda cls: _class_of(cls, options)


_MADE_OF_FIELDS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_OF_FROZEN = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
_completing = RLock()


def _class_of(cls: type, options: Mapping[str, Any]) -> type:
    """The class with slots for its fields, whose methods are made when one is first called."""
    bases = cls.__mro__[1:-1]
    is_compiled = hasattr(cls, "__mypyc_attrs__")
    if is_compiled or not options.get("slots") or any("__slots__" not in vars(base) for base in bases):
        return _made_at_once(cls, options)
    given = dict(vars(cls))
    fields = [name for name, kind in cls.__annotations__.items() if not str(kind).startswith("ClassVar")]
    inherited = {name for base in bases for name in _slots_of(base)}
    left_out = {*fields, "__dict__", "__weakref__"}
    members = {name: value for name, value in given.items() if name not in left_out}
    members["__slots__"] = tuple(name for name in fields if name not in inherited)
    rest = _Rest(cls, options, given, fields)
    for name in _missing(given, options):
        members[name] = _completing_method(rest, name)
    for name in _MADE_OF_FIELDS:
        members.setdefault(name, _CompletingAttribute(rest, name))
    if "__new__" not in given and options.get("init", True):
        members.setdefault("__signature__", _Signature(rest))
    rest.owner = type(cls)(cls.__name__, cls.__bases__, members)
    rest.owner.__qualname__ = cls.__qualname__
    return rest.owner


def _made_at_once(cls: type, options: Mapping[str, Any]) -> type:
    import dataclasses  # noqa: PLC0415 - brings `inspect`

    make: Any = dataclasses.dataclass
    return make(**options)(cls)


def _slots_of(base: type) -> Sequence[str]:
    slots = vars(base)["__slots__"]
    return (slots,) if isinstance(slots, str) else slots


def _missing(given: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """The methods that `dataclasses.dataclass` adds to a class with these members."""
    has_eq, is_frozen = options.get("eq", True), options.get("frozen", False)
    added = [f"__{name}__" for name in ("init", "repr", "eq") if options.get(name, True)]
    missing = [name for name in (*added, *(_OF_FROZEN if is_frozen else ())) if name not in given]
    has_hash = given.get("__hash__") is not None or ("__hash__" in given and "__eq__" not in given)
    return [*missing, "__hash__"] if has_eq and is_frozen and not has_hash else missing


class _Rest:
    """What a class still lacks, to be made of its members as they were given."""

    owner: type

    def __init__(
        self, cls: type, options: Mapping[str, Any], given: Mapping[str, Any], fields: Sequence[str]
    ) -> None:
        self._cls: type | None = cls
        self._options = options
        self._given = given
        self._fields = fields

    def complete(self) -> type:
        """Add all that is missing, once; returns the class."""
        with _completing:
            if self._cls is not None:
                # without a docstring it would be given one, made of its signature
                self._cls.__doc__ = self._cls.__doc__ or self.owner.__name__
                made: Mapping[str, Any] = vars(_made_at_once(self._cls, self._options))
                kept = {*self._fields, "__slots__", "__doc__", "__dict__", "__weakref__"}
                for name, value in made.items():
                    if name not in kept and value is not self._given.get(name, self):
                        setattr(self.owner, name, value)
                self._cls = None
        return self.owner

    def add(self, name: str) -> Callable[..., Any]:
        """Add a method, for `__init__` only this one if possible; returns it."""
        with _completing:
            if name == "__init__" and self._cls is not None and self._cls.__bases__ == (object,):
                made = _initializer(self._fields, self._given, self._options)
                if made is not None:
                    made.__qualname__ = f"{self.owner.__qualname__}.__init__"
                    setattr(self.owner, name, made)
                    return made
        return vars(self.complete())[name]


def _initializer(
    fields: Sequence[str], given: Mapping[str, Any], options: Mapping[str, Any]
) -> Callable[..., None] | None:
    """The `__init__` of a class without bases; None if a field says more than its default."""
    import dataclasses  # noqa: PLC0415 - not for `import callsheet`

    missing: Any = dataclasses.MISSING
    described: Any = dataclasses.Field
    known: dict[str, Any] = {"__set": object.__setattr__, "__later": missing}
    required: list[str] = []
    optional: list[str] = []
    lines: list[str] = []
    for name in fields:
        default, value = given.get(name, missing), name
        if isinstance(default, described):
            if not default.init or default.kw_only is not missing:
                return None
            if default.default_factory is not missing:
                known[f"__make_{name}"] = default.default_factory
                value = f"__make_{name}() if {name} is __later else {name}"
                optional.append(f"{name}=__later")
            default = default.default
        if default is not missing:
            if default.__class__.__hash__ is None:
                return None  # an error
            known[f"__default_{name}"] = default
            optional.append(f"{name}=__default_{name}")
        elif value is name:
            if optional and not options.get("kw_only"):
                return None  # an error
            required.append(name)
        lines.append(
            f"__set(__self, {name!r}, {value})" if options.get("frozen") else f"__self.{name} = {value}"
        )
    if "__post_init__" in given:
        lines.append("__self.__post_init__()")
    first = ["__self", "*"] if options.get("kw_only") and fields else ["__self"]
    text = f"def __init__({', '.join([*first, *required, *optional])}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)
    return known["__init__"]


class _CompletingAttribute:
    """An attribute of a class that completes it when it is asked for."""

    def __init__(self, rest: _Rest, name: str) -> None:
        self._rest, self._name = rest, name

    def __get__(self, instance: object, owner: type) -> Any:
        return vars(self._rest.complete())[self._name]


class _Signature:
    """The signature of a class, which `inspect` would else read from a method that completes it."""

    def __init__(self, rest: _Rest) -> None:
        self._rest = rest

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is not None:
            raise AttributeError("__signature__")
        if owner is not self._rest.complete():
            return None
        from inspect import signature  # noqa: PLC0415 - few ask

        found = signature(vars(owner)["__init__"])
        return found.replace(parameters=[*found.parameters.values()][1:])


def _completing_method(rest: _Rest, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        return rest.add(name)(self, *args, **named)

    return method
