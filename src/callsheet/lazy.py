"""What is made only when first used: names of packages, modules, patterns, methods of classes of fields.

A command then pays for what it needs. A small plan needs no verifier, no servers and few of the patterns.
"""

from __future__ import annotations

import sys
from _thread import RLock
from importlib import import_module

TYPE_CHECKING = False  # what type checkers take as true; `typing` would cost half of importing callsheet
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, AnyStr

    _tuplegetter: Callable[[int, str], Any]
else:
    from _collections import _tuplegetter

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")


def names_of(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names are in the modules of `places`, by their full names.

    The names of a module are separated by blanks. It is imported when one of them is first asked for; the
    name is then an attribute of the package like any other.
    """
    place_of = {name: place for place, names in places.items() for name in names.split()}

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
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - as above
else:

    class _Tuples(type):
        """Makes a class of named tuples of one that has `NamedTuple` as its base."""

        def __new__(cls, name, bases, members):
            if not bases:
                return super().__new__(cls, name, bases, members)
            return _tuples_of(name, (tuple, *bases[1:]), members)

    class NamedTuple(metaclass=_Tuples):
        """As `typing.NamedTuple`, but the constructor is made when it is first called.

        Nor are the types of the fields looked at, each of which would be compiled.

        >>> class Place(NamedTuple):
        ...     line: int
        ...     column: int = 1
        >>> Place(3), Place(3)._replace(column=2) == (3, 2), Place(3) < Place(column=0, line=4)
        (Place(line=3, column=1), True, True)
        """

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, but with `slots` the methods are made when they are first called.

        So are the errors of a declaration: they come with the first object.

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


_OPTIONS = {"slots", "frozen", "kw_only", "eq", "repr", "init"}
_MADE_OF_FIELDS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_OF_FROZEN = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")
_completing = RLock()


def _class_of(cls: type, options: Mapping[str, Any]) -> type:
    """The class with slots for its fields, whose methods are made when one is first called."""
    bases = cls.__mro__[1:-1]
    kinds = {name: str(kind) for name, kind in cls.__annotations__.items()}
    fields = [name for name, kind in kinds.items() if not kind.startswith(("ClassVar", "typing.ClassVar"))]
    if (
        hasattr(cls, "__mypyc_attrs__")
        or not options.get("slots")
        or not options.keys() <= _OPTIONS
        or any("__slots__" not in vars(base) for base in bases)
        or any(word in kinds[name] for name in fields for word in _NO_FIELDS)
    ):
        return _made_at_once(cls, options)
    inherited = {name for base in bases for name in _slots_of(base)}
    left_out = {*fields, "__dict__", "__weakref__"}
    members = {name: value for name, value in vars(cls).items() if name not in left_out}
    members["__slots__"] = tuple(name for name in fields if name not in inherited)
    rest = _Rest(cls, options, fields)
    members |= {name: _Missing(rest, name) for name in _missing(vars(cls), options)}
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
    """What `dataclasses.dataclass` adds to a class with these members."""
    has_eq, is_frozen = options.get("eq", True), options.get("frozen", False)
    added = [f"__{name}__" for name in ("init", "repr", "eq") if options.get(name, True)]
    added += ["__replace__"] if sys.version_info >= (3, 13) else []
    added += [*_MADE_OF_FIELDS, *(_OF_FROZEN if is_frozen else ())]
    missing = [name for name in added if name not in given]
    has_hash = given.get("__hash__") is not None or ("__hash__" in given and "__eq__" not in given)
    return [*missing, "__hash__"] if has_eq and is_frozen and not has_hash else missing


class _Rest:
    """What a class still lacks, to be made of its members as they were given."""

    owner: type

    def __init__(self, cls: type, options: Mapping[str, Any], fields: Sequence[str]) -> None:
        self._cls: type | None = cls
        self._options = options
        self._fields = fields

    def add(self, name: str) -> Any:
        """Add all that is missing, once, or if possible only an `__init__`; returns what has the name."""
        with _completing:
            cls = self._cls
            if cls is not None and isinstance(vars(self.owner).get("__init__"), _Missing):
                made = _initializer(cls, self.owner, self._fields, self._options)
                if made is not None:
                    type.__setattr__(self.owner, "__init__", made)
                    if name == "__init__":
                        return made
            if cls is not None:
                # without a docstring it would be given one, made of its signature
                cls.__doc__ = cls.__doc__ or self.owner.__name__
                whole = vars(_made_at_once(cls, self._options))
                for missing, value in [*vars(self.owner).items()]:
                    if isinstance(value, _Missing):
                        setattr(self.owner, missing, whole[missing])
                self._cls = None
            return vars(self.owner)[name]


class _Missing:
    """Stands for an attribute of a class, which is made when it is asked for."""

    def __init__(self, rest: _Rest, name: str) -> None:
        self._rest, self._name = rest, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._rest.add(self._name)
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


class _Later:
    """The default of an argument whose value is made by a call, shown as `dataclasses` does."""

    def __repr__(self) -> str:
        return "<factory>"


def _initializer(
    cls: type, owner: type, fields: Sequence[str], options: Mapping[str, Any]
) -> Callable[..., None] | None:
    """The `__init__` of a class without bases; None for others, and if a field says more than its default.

    It fills the slots of a frozen class by their descriptors, twice as fast as `object.__setattr__`.
    """
    if cls.__bases__ != (object,):
        return None
    import dataclasses  # noqa: PLC0415 - not for `import callsheet`

    missing: Any = dataclasses.MISSING
    described: Any = dataclasses.Field
    known: dict[str, Any] = {"__later": _Later()}
    this = "__self" if "self" in fields else "self"
    parameters = [this, "*"] if options.get("kw_only") and fields else [this]
    has_default = False
    lines: list[str] = []
    for name in fields:
        default, value, parameter = vars(cls).get(name, missing), name, name
        if isinstance(default, described):
            if not default.init or default.kw_only is not missing:
                return None
            if default.default_factory is not missing:
                known[f"__make_{name}"] = default.default_factory
                value = f"__make_{name}() if {name} is __later else {name}"
                parameter = f"{name}=__later"
            default = default.default
        if default is not missing:
            if default.__class__.__hash__ is None:
                return None  # an error
            known[f"__default_{name}"] = default
            parameter = f"{name}=__default_{name}"
        if parameter is name and has_default and not options.get("kw_only"):
            return None  # an error
        has_default = parameter is not name
        parameters.append(parameter)
        if options.get("frozen"):
            known[f"__put_{name}"] = vars(owner)[name].__set__
            lines.append(f"__put_{name}({this}, {value})")
        else:
            lines.append(f"{this}.{name} = {value}")
    if "__post_init__" in vars(cls):
        lines.append(f"{this}.__post_init__()")
    body = "\n  ".join(lines or ["pass"])
    text = (
        f"def make({', '.join(known)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    )
    makers: dict[str, Any] = {}
    exec(text, getattr(sys.modules.get(cls.__module__), "__dict__", {}), makers)
    made = makers["make"](**known)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {**{name: cls.__annotations__[name] for name in fields}, "return": None}
    return made


_tuple: Any = tuple
_new_tuple = _tuple.__new__


def _tuples_of(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    """A class of named tuples; raises TypeError for a field without a default behind one with it."""
    fields = tuple(members.get("__annotations__", ()))
    defaults = {field: members.pop(field) for field in fields if field in members}
    if fields[len(fields) - len(defaults) :] != tuple(defaults):
        raise TypeError(f"{name}: a field without a default follows one with a default")
    getters = {field: _tuplegetter(at, f"The field {field}.") for at, field in enumerate(fields)}
    own = {"__slots__": (), "__match_args__": fields, "_fields": fields, "_field_defaults": defaults}
    made: Any = type(name, bases, {**_OF_TUPLES, **members, **getters, **own})

    def new(cls: Any, /, *given: Any, **named: Any) -> Any:
        return _constructor(made)(cls, *given, **named)

    made.__new__ = staticmethod(new)
    return made


def _constructor(made: Any) -> Any:
    """The constructor of a class of named tuples, which takes the place of the one that asks for it."""
    listed = "".join(f"{field}, " for field in made._fields)
    new: Any = eval(f"lambda _cls, {listed}: _new(_cls, ({listed}))", {"_new": _new_tuple})
    new.__defaults__ = tuple(made._field_defaults.values())
    new.__name__, new.__qualname__ = "__new__", f"{made.__name__}.__new__"
    new.__module__, new.__annotations__ = made.__module__, {**made.__annotations__}
    made.__new__ = staticmethod(new)
    return new


class _Signature:
    """What `inspect` takes for the signature of a class of named tuples."""

    def __get__(self, instance: object, owner: Any) -> Any:
        import inspect  # noqa: PLC0415 - not for `import callsheet`

        made = next(base for base in owner.__mro__ if "_fields" in vars(base))
        whole = inspect.signature(_constructor(made))
        return whole.replace(parameters=[*whole.parameters.values()][1:])


class _OfTuples:
    """The methods of named tuples."""

    _fields: tuple[str, ...]
    __signature__ = _Signature()

    @classmethod
    def _make(cls: Any, iterable: Iterable[Any]) -> Any:
        """A new object from a sequence or iterable."""
        made = _new_tuple(cls, iterable)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **named: Any) -> Any:
        """A new object with other values for some fields."""
        made = self._make(map(named.pop, self._fields, self))
        if named:
            raise TypeError(f"Got unexpected field names: {[*named]!r}")
        return made

    def _asdict(self: Any) -> dict[str, Any]:
        """A new dict which maps field names to their values."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
        return f"{type(self).__name__}({shown})"

    def __getnewargs__(self: Any) -> tuple[Any, ...]:
        return tuple(self)

    __replace__ = _replace


_OF_TUPLES: dict[str, Any] = {
    name: vars(_OfTuples)[name]
    for name in ("__signature__", "_make", "_replace", "_asdict", "__repr__", "__getnewargs__", "__replace__")
}
