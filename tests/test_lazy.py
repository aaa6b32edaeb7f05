"""Classes whose methods are made when they are first called are like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from inspect import signature
from weakref import ref

import pytest

from callsheet.ir.expr import Literal, Ref
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine.limits import Limits
from callsheet.policy.model import Policy


def variants():
    """Classes in pairs: as `callsheet.lazy` makes them, and as `dataclasses` does."""
    for options in ({"frozen": True}, {"frozen": True, "kw_only": True}, {}, {"eq": False}, {"repr": False}):
        yield [_declared(make, options) for make in (dataclass, dataclasses.dataclass)]


def _declared(make, options):
    @make(slots=True, **options)
    class Place:
        line: int
        column: int = 1
        notes: list[str] = dataclasses.field(default_factory=list)
        names: tuple[str, ...] = dataclasses.field(default=(), compare=False)

        def __post_init__(self):
            if self.line < 0:
                raise ValueError("no such line")

    return Place


@pytest.mark.parametrize(("deferred", "at_once"), list(variants()))
def test_class_is_as_dataclasses_makes_it(deferred, at_once):
    def of(cls):
        one, other = cls(line=2), cls(line=2, names=("a",))
        one.notes.append("x")
        with pytest.raises(TypeError):
            cls(1, 2, 3, 4, 5)
        with pytest.raises(ValueError, match="no such line"):
            cls(line=-1)
        try:
            one.line = 3
        except dataclasses.FrozenInstanceError as error:
            changed = str(error)
        else:
            changed = one.line
        same = one == other, one == dataclasses.replace(one), copy.deepcopy(one) == one
        shown = repr(one) if "Place(" in repr(one) else None
        return changed, same, shown, cls.__hash__ is None, cls.__match_args__, cls.__slots__

    def refused(cls, *values, **named):
        with pytest.raises(TypeError) as error:
            cls(*values, **named)
        return str(error.value)

    assert str(signature(deferred)) == str(signature(at_once))
    for wrong in ({}, {"line": 1, "row": 2}):
        assert refused(deferred, **wrong) == refused(at_once, **wrong)
    assert of(deferred) == of(at_once)
    assert str(signature(deferred.__init__)) == str(signature(at_once.__init__))
    assert typing.get_type_hints(deferred.__init__) == typing.get_type_hints(at_once.__init__)


def test_named_tuple_is_as_typing_makes_it():
    def of(base):
        class Place(base):
            """Where it is."""

            line: int
            column: int = 1

            def after(self) -> int:
                return self.line + 1

        size = len(signature(Place).parameters)
        one = Place(3)
        found = (
            one,
            one.after(),
            one._replace(column=2),
            Place._make([4, 5]),
            one._asdict(),
            [*map(type, one)],
        )
        with pytest.raises(TypeError) as few:
            Place()
        with pytest.raises(TypeError) as other:
            Place(1, row=2)
        with pytest.raises(AttributeError):
            one.line = 4
        match one:
            case Place(line, column=1):
                found += (line,)
        names = Place.__doc__, Place.__mro__[1:], Place.__match_args__, Place._field_defaults
        hints = typing.get_type_hints(Place)
        return repr(found), copy.copy(one) == one, names, hints, str(few.value), str(other.value), size

    assert of(NamedTuple) == of(typing.NamedTuple)
    assert pickle.loads(pickle.dumps(Ran("a"))) == Ran("a")
    with pytest.raises(TypeError, match="without a default"):

        class Wrong(NamedTuple):
            line: int = 1
            column: str  # pyright: ignore


class Ran(NamedTuple):
    name: str


def test_what_is_no_plain_field_is_as_dataclasses_makes_it():
    def of(make):
        @make(slots=True, order=True, weakref_slot=True)
        class Place:
            most: typing.ClassVar[int] = 9
            line: int
            offset: dataclasses.InitVar[int] = 0
            _: dataclasses.KW_ONLY
            column: int = 1

            def __post_init__(self, offset):
                self.line += offset

        one, other = Place(1, 2, column=3), Place(4)
        return repr(one), one < other, ref(one)() is one, Place.most, Place.__slots__, str(signature(Place))

    assert of(dataclass) == of(dataclasses.dataclass)


def test_objects_that_were_pickled_are_equal():
    for one in (Literal(1, None), Ref("x", (), None), Limits(), Policy()):
        assert pickle.loads(pickle.dumps(one)) == one
