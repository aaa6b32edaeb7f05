"""The parameters of a stored plan: variables that are given for each run, with types and defaults.

In: their declarations on a command line (`repo:text`, `count:integer=5`), and the values of a run. Out:
parameters, and the variables of the run; CallsheetError with a PLN code that names the parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean, meant
from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Plan, Value, types
from callsheet.ir.flow import flow_of, uses_of
from callsheet.ir.tree import Input

_SPEC = lazy.pattern(
    r"\s*\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?::\s*(?P<kind>[A-Za-z]+)\s*)?(?:=(?P<default>.*))?",
    re.ASCII | re.DOTALL,
)
_OPENING, _CLOSING = "[{", "]}"


class ParamKind(StrEnum):
    """The type of a parameter."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    OBJECT = "object"
    ANY = "any"


_KINDS = {
    "string": ParamKind.TEXT,
    "str": ParamKind.TEXT,
    "int": ParamKind.INTEGER,
    "float": ParamKind.NUMBER,
    "bool": ParamKind.BOOLEAN,
    "array": ParamKind.LIST,
    "dict": ParamKind.OBJECT,
    **{str(kind): kind for kind in ParamKind},
}
_TYPES: Mapping[ParamKind, tuple[type, ...]] = {
    ParamKind.TEXT: (str,),
    ParamKind.INTEGER: (int,),
    ParamKind.NUMBER: (int, float),
    ParamKind.BOOLEAN: (bool,),
    ParamKind.LIST: (list,),
    ParamKind.OBJECT: (dict,),
}
_A = {
    ParamKind.TEXT: "a text",
    ParamKind.INTEGER: "a whole number",
    ParamKind.NUMBER: "a number",
    ParamKind.BOOLEAN: "true or false",
    ParamKind.LIST: "a list",
    ParamKind.OBJECT: "an object",
}


@dataclass(frozen=True, slots=True)
class Param:
    """A variable that is given for each run; it is required if it has no default."""

    name: str
    kind: ParamKind = ParamKind.ANY
    default: JSON = None
    has_default: bool = False

    def __str__(self) -> str:
        kind = "" if self.kind is ParamKind.ANY else f":{self.kind}"
        return f"{self.name}{kind}" + (
            f"={json.dumps(self.default, ensure_ascii=False)}" if self.has_default else ""
        )

    def to_json(self) -> dict[str, Any]:
        """The parameter as JSON data."""
        data: dict[str, Any] = {"name": self.name, "kind": str(self.kind)}
        return {**data, "default": self.default} if self.has_default else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Param:
        """The parameter in JSON data; raises KeyError, TypeError or ValueError if it is invalid."""
        if _SPEC.fullmatch(data["name"]) is None:
            raise ValueError(f"{data['name']!r} is not a name")
        return cls(data["name"], ParamKind(data["kind"]), data.get("default"), "default" in data)

    def takes(self, value: JSON) -> bool:
        """Whether a value is of this type."""
        types = _TYPES.get(self.kind)
        if types is None:
            return True
        return isinstance(value, types) and isinstance(value, bool) == (self.kind is ParamKind.BOOLEAN)


_OF_TYPES = {
    types.Basic.STR: ParamKind.TEXT,
    types.Basic.INT: ParamKind.INTEGER,
    types.Basic.FLOAT: ParamKind.NUMBER,
    types.Basic.BOOL: ParamKind.BOOLEAN,
}


def declared_params(inputs: Iterable[Input]) -> tuple[Param, ...]:
    """The inputs that a plan with blocks declares, as parameters; a secret one has no default here."""
    return tuple(
        Param(one.name, _kind_of(one.type), None if one.is_secret else one.default, not one.must_be_given)
        for one in inputs
    )


def _kind_of(declared: types.Type) -> ParamKind:
    kind = declared.of if isinstance(declared, types.Maybe) else declared
    if isinstance(kind, types.Basic):
        return _OF_TYPES.get(kind, ParamKind.ANY)
    if isinstance(kind, types.ListOf):
        return ParamKind.LIST
    return ParamKind.OBJECT if isinstance(kind, types.DictOf | types.Record) else ParamKind.ANY


def read_params(specs: Iterable[str]) -> tuple[Param, ...]:
    """Parse declarations such as `repo,label:text="bug"`; raises CallsheetError (PLN022).

    A default is JSON, or else a text; commas inside quotes or brackets do not separate parameters.

    >>> [str(param) for param in read_params(["repo,count:int=5", "tags:list=[1, 2]"])]
    ['repo', 'count:integer=5', 'tags:list=[1, 2]']
    """
    params: dict[str, Param] = {}
    for spec in specs:
        for part in _parts(spec):
            param = _read(part)
            if param.name in params:
                raise _unusable(f"the parameter {param.name} is given twice", "give each parameter once")
            params[param.name] = param
    return tuple(params.values())


def _read(text: str) -> Param:
    match = _SPEC.fullmatch(text)
    if match is None:
        hint = "write NAME, NAME:KIND or NAME:KIND=DEFAULT, with commas between several"
        raise _unusable(f"{text.strip()[:60]!r} is not a parameter", hint)
    name, kind_name, default = match["name"], match["kind"] or str(ParamKind.ANY), match["default"]
    kind = _KINDS.get(kind_name.lower())
    if kind is None:
        hint = meant(kind_name, _KINDS, f"kinds are {', '.join(ParamKind)}")
        raise _unusable(f"there is no kind {kind_name[:40]} of parameters", hint)
    if default is None:
        return Param(name, kind)
    value = _value(default.strip(), kind)
    param = Param(name, kind, value, has_default=True)
    if not param.takes(value):
        raise _unusable(f"the default of the parameter {name} is not {_A[kind]}", f"write {name}:{kind}=…")
    return param


def _value(text: str, kind: ParamKind) -> JSON:
    """The value of a JSON text; another text unchanged."""
    try:
        value: JSON = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return text if kind is ParamKind.TEXT and not isinstance(value, str) else value


def _refuse(name: str) -> None:
    raise ValueError(name)


def _parts(spec: str) -> Iterator[str]:
    """The parts between commas outside of quotes and brackets."""
    depth, quoted, start, at = 0, False, 0, 0
    while at < len(spec):
        char = spec[at]
        if quoted and char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in _OPENING:
            depth += 1
        elif not quoted and char in _CLOSING:
            depth -= 1
        elif not quoted and char == "," and depth <= 0:
            yield spec[start:at]
            start = at + 1
        at += 1
    yield spec[start:]


# ---------------------------------------------------------------- with a plan


def free_variables(plan: Plan) -> tuple[str, ...]:
    """The variables that a plan reads but does not set, in the order of the text; in version 2 its inputs."""
    if plan.tree is not None:
        return tuple(one.name for one in plan.tree.inputs if one.is_required)
    known = {*flow_of(plan).definitions, *(name for name, _ in plan.variables)}
    return tuple(name for name in _read_names(plan) if name not in known)


def fitted(params: Iterable[Param], plan: Plan) -> tuple[Param, ...]:
    """The parameters of a plan, with its own initial values as defaults.

    Raises CallsheetError (PLN022) for one that the plan never reads.
    """
    read, initial = _read_names(plan), _initial_values(plan)
    params_fitted: list[Param] = []
    for param in params:
        if param.name not in read:
            free = ", ".join(free_variables(plan))
            known = (
                f"variables that the plan reads and nothing sets: {free}"
                if free
                else f"write ${param.name} in the plan where the value is to be used"
            )
            hint = meant(param.name, read, known)
            raise _unusable(f"no step of the plan reads ${param.name}", hint)
        if param.has_default or param.name not in initial:
            params_fitted.append(param)
        else:
            params_fitted.append(Param(param.name, param.kind, initial[param.name], has_default=True))
    return tuple(params_fitted)


def _initial_values(plan: Plan) -> dict[str, JSON]:
    if plan.tree is not None:
        return {one.name: one.default for one in plan.tree.inputs if not one.is_required}
    return {name: _json_of(value) for name, value in plan.variables}


def _read_names(plan: Plan) -> tuple[str, ...]:
    if plan.tree is not None:
        return tuple(one.name for one in plan.tree.inputs)
    uses = (use for number, step in enumerate(plan.steps) for use in uses_of(step, number))
    return tuple(dict.fromkeys(use.ref.name for use in uses))


def _json_of(value: Value) -> JSON:
    match value:
        case Literal(value=scalar):
            return scalar
        case ListExpr(items=items):
            return [_json_of(item) for item in items]
        case DictExpr(items=pairs):
            return {key: _json_of(item) for key, item in pairs}
        case _:
            raise ValueError("an initial value must not contain a reference")


def bind(
    plan_id: str, params: Iterable[Param], values: Mapping[str, JSON], texts: Mapping[str, str] | None = None
) -> dict[str, JSON]:
    """The variables of a run: the given values, and the defaults of other parameters.

    `texts` are the values as typed, which are used for parameters of type text. Raises CallsheetError
    with a diagnostic for each parameter that is missing (PLN023) or of another type (PLN024).
    """
    params = tuple(params)
    bound, wrong = dict(values), list[Diagnostic]()
    others = [name for name in values if all(param.name != name for param in params)]
    for param in params:
        if param.name not in values:
            if param.has_default:
                bound[param.name] = param.default
            else:
                wrong.append(_missing(plan_id, param, others))
            continue
        value = values[param.name]
        if param.kind is ParamKind.TEXT and not isinstance(value, str) and texts and param.name in texts:
            bound[param.name] = value = texts[param.name]
        if not param.takes(value):
            message = f"the parameter {param.name} of the plan {plan_id} must be {_A[param.kind]}"
            shown = json.dumps(value, ensure_ascii=False, default=repr)
            wrong.append(_error("PLN024", f"{message}, not {shown[:60]}", f"--var {param.name}=…"))
    if wrong:
        raise CallsheetError(wrong)
    return bound


def _missing(plan_id: str, param: Param, others: list[str]) -> Diagnostic:
    kind = "" if param.kind is ParamKind.ANY else f" ({_A[param.kind]})"
    suggestions = did_you_mean(param.name, others)
    meant = f"; is {suggestions[0]} a misspelling of it?" if suggestions else ""
    message = f"the parameter {param.name}{kind} of the plan {plan_id} is missing"
    return _error("PLN023", message, f"give --var {param.name}=VALUE{meant}")


def _error(code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, message, help=hint)


def _unusable(message: str, hint: str) -> CallsheetError:
    return CallsheetError.single("PLN022", message, help=hint)
