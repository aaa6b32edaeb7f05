"""The functions `v1.…`: the lenient values of version 1, for plans that `callsheet upgrade` has rewritten.

In: an environment and values. Out: what version 1 makes of them; nothing fails but for the work it takes.
A failure counts as the text of its error, as version 1 stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from callsheet.ir import Cast, CompareOp
from callsheet.machine import values as version1
from callsheet.machine.expressions.encoding import limited, to_json
from callsheet.machine.expressions.values import Environment, FailureRecord, type_of, weight

_JSON: Final = frozenset({str, int, float, bool, list, dict, type(None)})


def _plain(env: Environment, value: Any) -> Any:
    """A value as version 1 knows it, its work counted."""
    kind = type_of(value)
    if kind is FailureRecord:
        return value["error"]
    if kind not in _JSON:
        value = to_json(value)
    env.spend(weight(value))
    return value


def _path(env: Environment, value: Any, *path: str | int) -> Any:
    return version1.walk(_plain(env, value), path) if path else _plain(env, value)


def _text(env: Environment, value: Any, *path: str | int) -> str:
    return limited(env, version1.to_text(_path(env, value, *path)))


def _joined(env: Environment, *values: Any) -> str:
    texts = [version1.to_text(_plain(env, value)) for value in values]
    return limited(env, " ".join(text for text in texts if text))


def _elements(env: Environment, value: Any) -> list[Any]:
    return version1.items_of(_plain(env, value))


def _is_empty(env: Environment, value: Any) -> bool:
    return version1.is_empty(_plain(env, value))


def _compared(op: CompareOp) -> Callable[[Environment, Any, Any], bool]:
    def compare(env: Environment, left: Any, right: Any) -> bool:
        return version1.compare(op, _plain(env, left), _plain(env, right))

    return compare


def _cast(cast: Cast) -> Callable[[Environment, Any], Any]:
    def convert(env: Environment, value: Any) -> Any:
        known = _plain(env, value)
        return known if type(value) is FailureRecord else version1.cast_value(cast, known)[0]

    return convert


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "v1.value": _path,
    "v1.path": _path,
    "v1.text": _text,
    "v1.joined": _joined,
    "v1.elements": _elements,
    "v1.empty": _is_empty,
    "v1.equal": _compared(CompareOp.EQ),
    "v1.contains": _compared(CompareOp.CONTAINS),
    "v1.greater": _compared(CompareOp.GT),
    "v1.less": _compared(CompareOp.LT),
    "v1.at_least": _compared(CompareOp.GE),
    "v1.at_most": _compared(CompareOp.LE),
    **{f"v1.{cast.value}": _cast(cast) for cast in Cast},
}
"""By their names, which `frontends.expressions.names.VERSION_1` lists."""
