"""Dataclasses whose methods are made when they are first called are like those of `dataclasses`."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from inspect import signature

import pytest

from callsheet.ir.expr import Literal, Ref
from callsheet.lazy import dataclass
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

    assert of(deferred) == of(at_once)
    assert str(signature(deferred)) == str(signature(at_once))


def test_objects_that_were_pickled_are_equal():
    for one in (Literal(1, None), Ref("x", (), None), Limits(), Policy()):
        assert pickle.loads(pickle.dumps(one)) == one
