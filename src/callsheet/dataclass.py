"""`dataclass` of the standard library, for classes that cost a third of the time to define.

The standard library compiles six functions for a frozen class, which is half of what it takes to import a
module of values. Here only `__init__` is compiled; the other methods are closures over the names of the
fields, and do the same. What is special (`order`, `InitVar`, a base that is one) is left to the standard
library.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr

TYPE_CHECKING = False  # as in `lazy`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import Field, dataclass
    from typing import Any

__all__ = ["dataclass"]  # to type checkers it is that of the standard library

_OWN = frozenset({"frozen", "slots", "kw_only", "repr", "eq"})
"""The options that are followed here."""


class _Factory:
    """The default of an argument whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Factory()


def _dataclass(cls: type[Any] | None = None, /, **options: Any) -> Any:
    if cls is None:

        def decorate(decorated: type[Any]) -> Any:
            return _dataclass(decorated, **options)

        return decorate
    if not options.keys() <= _OWN or _is_special(cls, options.get("frozen", False)):
        return dataclasses.dataclass(cls, **options)
    return _made(cls, **options)


def _is_special(cls: type[Any], frozen: bool) -> bool:
    own = vars(cls)
    if "__mypyc_attrs__" in own:  # its compiler reads and changes the class itself, whatever is returned
        return True
    if "__init__" in own or (frozen and {"__setattr__", "__delattr__"} & own.keys()):
        return True
    if any("InitVar" in str(each) for each in own.get("__annotations__", {}).values()):
        return True
    return any("__dataclass_params__" in vars(base) for base in cls.__mro__[1:])


def _made(
    cls: type[Any],
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    repr: bool = True,  # noqa: A002 - the name in the standard library
    eq: bool = True,
) -> type[Any]:
    written = dict(vars(cls))
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    made: Any = plain(cls)
    made.__dataclass_params__.frozen, made.__dataclass_params__.eq = (
        frozen,
        eq,
    )  # for classes that derive from it
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {"__init__": _initializer(made, fields, frozen=frozen)}
    if repr and "__repr__" not in written:
        methods["__repr__"] = _printer([each.name for each in fields if each.repr])
    if eq and "__eq__" not in written:
        methods["__eq__"] = _comparison(_values([each.name for each in fields if each.compare]))
    if eq and ("__hash__" not in written or (written["__hash__"] is None and "__eq__" in written)):
        hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
        methods["__hash__"] = _hashing(_values(hashed)) if frozen else None
    if frozen:
        names = frozenset(each.name for each in fields)
        methods["__setattr__"], methods["__delattr__"] = _refusals(made, names)
        if slots and "__getstate__" not in written:
            ordered = [each.name for each in fields]
            methods["__getstate__"], methods["__setstate__"] = _states(ordered)
    for name, method in methods.items():
        if method is not None:
            method.__qualname__ = f"{made.__qualname__}.{name}"
            method.__module__ = made.__module__
        setattr(made, name, method)
    return made


def _initializer(made: Any, fields: Sequence[Field[Any]], *, frozen: bool) -> Any:
    """`__init__`, compiled: it is called for each value that a run makes."""
    known: dict[str, Any] = {"MADE": _MADE, "setting": object.__setattr__}
    placed, named, body = list[str](), list[str](), list[str]()
    for number, each in enumerate(fields):
        name, value = each.name, each.name
        parameter = name
        if each.default_factory is not dataclasses.MISSING:
            known[f"factory{number}"] = each.default_factory
            value = f"factory{number}()"
            if each.init:
                parameter, value = f"{name}=MADE", f"{value} if {name} is MADE else {name}"
        elif each.default is not dataclasses.MISSING:
            known[f"default{number}"] = each.default
            parameter = f"{name}=default{number}"
            value = name if each.init else f"default{number}"
        elif not each.init:
            continue
        if each.init:
            (named if each.kw_only else placed).append(parameter)
        body.append(f" setting(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    star = ["*"] if named else []
    head = ", ".join(["self", *placed, *star, *named])
    exec("\n".join([f"def __init__({head}):", *(body or [" pass"])]), known)
    made_init = known["__init__"]
    made_init.__annotations__ = {each.name: each.type for each in fields if each.init} | {"return": None}
    return made_init


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    of_one = attrgetter(names[0])
    return lambda value: (of_one(value),)


def _printer(names: Sequence[str]) -> Any:
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return recursive_repr()(__repr__)


def _comparison(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refusals(made: type[object], names: frozenset[str]) -> tuple[Any, Any]:
    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return __setattr__, __delattr__


def _states(names: Sequence[str]) -> tuple[Any, Any]:
    """How `pickle` and `copy` read and write a frozen class with slots."""

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __getstate__, __setstate__


if not TYPE_CHECKING:
    dataclass = _dataclass
