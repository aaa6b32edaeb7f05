"""Enumerations whose members are texts or numbers too: which there are, and what their members do as these.

In: the type that the members are of. Out: the methods that their class has on the executor, as expressions.
"""

from __future__ import annotations

from collections.abc import Iterable

ENUMS = {"Enum": "", "IntEnum": "int", "StrEnum": "str"}
"""The kinds of enumerations, and of which type their members are too."""
_OF_NUMBERS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip


def value_methods(mixin: str, ordered: Iterable[str]) -> dict[str, str]:
    """What the members of an enumeration do as the values that they are, by the names of the methods."""
    made = {
        "__eq__": "self is other or self.value == _cs_raw(other)",
        "__hash__": "hash(self.value)",
        "__bool__": "bool(self.value)",
        **{name: f"_cs_native_order(self.value, _cs_raw(other), {name!r})" for name in ordered},
    }
    signs = {"add": "+", "mul": "*", "mod": "%"} if mixin == "str" else _OF_NUMBERS
    for name, sign in signs.items():
        made[f"__{name}__"] = f"self.value {sign} _cs_raw(other)"
        if name != "mod" or mixin != "str":
            made[f"__r{name}__"] = f"_cs_raw(other) {sign} self.value"
    if mixin == "str":
        made["__len__"] = "len(self.value)"
        made["__iter__"] = "iter(self.value)"
        made["__contains__"] = "_cs_raw(other) in self.value"
        made["__getitem__"] = "self.value[other]"
    else:
        made |= {"__neg__": "-self.value", "__abs__": "abs(self.value)", "__float__": "float(self.value)"}
        made |= {"__int__": "int(self.value)"}
        if mixin == "int":
            made["__index__"] = "self.value"
    return made
