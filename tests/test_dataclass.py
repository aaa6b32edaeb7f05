"""`callsheet.dataclass` does what the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import ClassVar

import pytest

from callsheet.dataclass import dataclass


def classes_by(dataclass):
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: float = 0.5
        seen: list[int] = field(default_factory=list, compare=False)
        hidden: str = field(default="h", repr=False)
        kind: ClassVar[str] = "point"

    @dataclass(frozen=True, slots=True)
    class Place(Point):
        """A point with a name."""

        name: str = field(default="?", kw_only=True)

        def __str__(self):
            return self.name

    @dataclass(slots=True)
    class Counter:
        """What changes."""

        count: int = 0
        total: int = field(init=False, default=3)
        made: list[int] = field(init=False, default_factory=list)

        def __post_init__(self):
            self.made.append(self.count)

    @dataclass(frozen=True, kw_only=True, repr=False)
    class Named:
        """Without slots, with a hash of its own."""

        a: int
        b: int = 2

        def __hash__(self):
            return 7

    @dataclass(slots=True, eq=False)
    class Same:
        """Compared by identity."""

        a: object

    @dataclass(frozen=True)
    class Empty:
        """Nothing."""

    @dataclass(order=True)
    class Sorted:
        """Left to the standard library."""

        a: int

    return {each.__name__: each for each in (Point, Place, Counter, Named, Same, Empty, Sorted)}


OURS, THEIRS = classes_by(dataclass), classes_by(dataclasses.dataclass)
for made in OURS.values():  # where `pickle` finds them
    made.__qualname__ = made.__name__
globals().update(OURS)
NAN = float("nan")
CALLS = [
    ("Point", (1,), {}),
    ("Point", (1, 2.0), {}),
    ("Point", (1, NAN), {"seen": [1]}),
    ("Point", (1,), {"seen": [2], "hidden": "x"}),
    ("Point", (), {}),
    ("Point", (1,), {"z": 3}),
    ("Place", (1, 2.0), {"name": "home"}),
    ("Place", (1, 2.0, [], "h", "home"), {}),
    ("Counter", (4,), {}),
    ("Counter", (), {"total": 1}),
    ("Named", (), {"a": 1}),
    ("Named", (1,), {}),
    ("Same", (1,), {}),
    ("Empty", (), {}),
    ("Sorted", (1,), {}),
]


def told(classes, name, args, kwargs):
    """What can be seen of a value; its error if there is none."""
    made = classes[name]
    try:
        value, other = made(*args, **kwargs), made(*args, **kwargs)
    except TypeError as error:
        return str(error).rpartition(".")[2]
    names = [each.name for each in dataclasses.fields(value)]
    is_plain = made.__repr__ is object.__repr__
    shown = "" if is_plain else repr(value).rpartition("<locals>.")[2]
    seen = [is_plain, shown, value == other, value == 1, made.__match_args__, names]
    if name != "Same":
        seen.append(_hash_of(value))
    seen.append(_error(lambda: setattr(value, names[0], 5)) if names else "")
    if hasattr(value, "__dict__"):  # with slots it is always an error
        seen.append(_error(lambda: setattr(value, "other", 5)))
        seen.append(_error(lambda: delattr(value, "other")))
    seen.append(made.__hash__ is None)
    seen.append(hasattr(value, "__dict__"))
    return [*seen, *(repr(getattr(value, each)) for each in names)]


def _hash_of(value):
    try:
        return hash(value)
    except TypeError as error:
        return str(error).rpartition(".")[2]


def _error(work):
    try:
        work()
    except Exception as error:
        return type(error), str(error).rpartition(".")[2]
    return None


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_values_are_those_of_the_standard_library(name, args, kwargs):
    assert told(OURS, name, args, kwargs) == told(THEIRS, name, args, kwargs)


@pytest.mark.parametrize("name", OURS)
def test_signatures_and_annotations_are_the_same(name):
    ours, theirs = OURS[name], THEIRS[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__init__.__annotations__ == theirs.__init__.__annotations__
    assert ours.__init__.__qualname__.endswith(f"{name}.__init__")


def test_values_are_copied_pickled_and_replaced():
    place = OURS["Place"](1, 2.5, [3], name="home")
    assert pickle.loads(pickle.dumps(place)) == copy.deepcopy(place) == copy.copy(place) == place
    assert copy.copy(place).seen is place.seen
    assert dataclasses.replace(place, x=2).x == 2
    assert dataclasses.asdict(place)["name"] == "home"
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.copy(place).x = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        del place.x


def test_value_inside_itself_is_printed():
    same = OURS["Same"](None)
    same.a = [same]
    assert repr(same) == "Same(a=[...])"


def test_mutable_defaults_are_refused():
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True, slots=True)
        class Wrong:
            a: list[int] = []  # noqa: RUF012 - what is tested


@pytest.mark.parametrize(
    ("base", "deriving"), [(THEIRS, dataclass), (OURS, dataclasses.dataclass)], ids=["ours", "theirs"]
)
def test_classes_derive_from_those_of_the_other_kind(base, deriving):
    @deriving(frozen=True, slots=True)
    class Derived(base["Point"]):
        z: int = 3

    assert Derived(1).z == 3
    assert hash(Derived(1)) == hash(Derived(1))
    with pytest.raises(TypeError, match="frozen"):
        deriving(slots=True)(type("Changing", (base["Point"],), {}))
