"""The form of a call: all that its judgement may depend on apart from labels and texts.

In: the arguments of a step as written. Out: a key, which is equal for calls that differ only in their texts
and in the names of the variables they read; and the slots of these variables.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from callsheet.ir import Literal, Ref, Template, Value
from callsheet.ir.expr import names_in
from callsheet.machine.closures import SlotOf

CallForm: TypeAlias = "tuple[Hashable, ...]"
Written: TypeAlias = "tuple[tuple[str, Value], ...]"
"""Arguments by name, as written in the plan."""

_TEMPLATE, _TEXT, _MEMBERS = -1, -2, -3
"""In a form: the argument is a template, it has text of the plan, it is a list or a dict."""


def form_of(tool: str, retries: int, written: Written, slot_of: SlotOf) -> tuple[CallForm, tuple[int, ...]]:
    """The form of a call, and the slots that its arguments read: each once, in the order of their use.

    A form has the tool, the number of retries, and for each argument its name and the variables in it,
    numbered in the order of their use.

    >>> slots = {"a": 7}
    >>> url = Template(("https://c.example/", Ref("a")))
    >>> form_of("SEND", 0, (("to", Literal("x")), ("url", url), ("body", Ref("a"))), slots.__getitem__)
    (('SEND', 0, 'to', 'url', -1, 0, -2, 'body', 0), (7,))
    """
    places: dict[str, int] = {}
    form: list[Hashable] = [tool, retries]
    for name, value in written:
        form.append(name)
        if type(value) is Ref:  # nearly all values are references, templates or literals
            form.append(places.setdefault(value.name, len(places)))
        elif type(value) is Template:
            form.append(_TEMPLATE)
            before = len(form)
            for part in value.parts:
                if type(part) is Ref:
                    form.append(places.setdefault(part.name, len(places)))
            if len(form) - before < len(value.parts):
                form.append(_TEXT)
        elif type(value) is not Literal:
            form.append(_MEMBERS)
            form += [places.setdefault(read, len(places)) for read in names_in((value,))]
    return tuple(form), tuple([slot_of(name) for name in places])
