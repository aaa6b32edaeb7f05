"""Describes the type of a step's result, from its cast, loop or operation.

In: a step. Out: a short phrase, for hovers and lists of variables.
"""

from __future__ import annotations

from callsheet.ir import Call, CallKind, Cast, ListExpr, Literal, Step

_CASTS = {
    Cast.INT: "whole number",
    Cast.FLOAT: "number",
    Cast.BOOL: "true or false",
    Cast.LIST: "list",
    Cast.JSON: "JSON value",
}
_OPERATIONS = {
    "LLM_EVALUATE": "TRUE or FALSE",
    "CALC": "number",
    "FORMAT": "text",
    "SELECT": "JSON value",
    "ASK_HUMAN": "a person's answer",
}


def kind_of_result(step: Step) -> str:
    """Returns the type of a step's result as a phrase.

    >>> from callsheet.ir import Output
    >>> kind_of_result(Step("S1", Call("READ_FILE"), output=Output("n", Cast.INT)))
    'whole number'
    """
    if step.output is not None and step.output.cast is not None:
        each = _CASTS[step.output.cast]
    elif isinstance(step.action, Call):
        each = _of_call(step.action)
    else:
        return "no result"
    return f"list, for each item: {each}" if step.foreach is not None else each


def _of_call(call: Call) -> str:
    if call.tool == "LLM_CLASSIFY":
        categories = dict(call.named).get("categories")
        items = categories.items if isinstance(categories, ListExpr) else ()
        words = [f'"{item.value}"' for item in items if isinstance(item, Literal)]
        return f"one of {', '.join(words)}" if words and len(words) == len(items) else "one of its categories"
    if call.tool in _OPERATIONS:
        return _OPERATIONS[call.tool]
    return "text" if call.kind is CallKind.MODEL else f"result of @{call.tool}"
