"""Turns a function's signature into a JSON schema of its arguments, and converts arguments by it.

In: a function. Out: a `Signature`, or CallsheetError (CFG105) if the function cannot be a tool. The
function is not called here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast, get_args, get_type_hints

from callsheet.diagnostics import CallsheetError, did_you_mean, meant
from callsheet.lazy import dataclass
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_tools.results import (
    MISS,
    Check,
    for_pydantic,
    never,
    result_schema,
    simple,
    to_json,
)


@dataclass(slots=True)
class Parameter:
    """One parameter: its name, its type, the quick check, and pydantic's validator if that is needed."""

    name: str
    annotation: Any
    check: Check
    _adapter: Any = None

    def adapter(self) -> Any:
        """Pydantic's validator of the type, created at its first use."""
        if self._adapter is None:
            from pydantic import TypeAdapter  # noqa: PLC0415 - a quarter of a second

            self._adapter = TypeAdapter(for_pydantic(self.annotation))
        return self._adapter

    def convert(self, value: Any) -> Any:
        """The value converted to the parameter's type; raises ToolFailed naming the argument."""
        result = self.check(value)
        return self._convert_slowly(value) if result is MISS else result

    def _convert_slowly(self, value: Any) -> Any:
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            return self.adapter().validate_python(value)
        except ValidationError as error:
            raise ToolFailed(
                "; ".join(_complaint(self.name, e["loc"], e["msg"]) for e in error.errors())
            ) from None


def _complaint(name: str, place: tuple[int | str, ...], message: str) -> str:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place)
    return f"argument {name}{path}: {message[:1].lower()}{message[1:]}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, the schema of its arguments, and which parameter takes the context."""

    schema: dict[str, Any]
    parameters: dict[str, Parameter]
    required: frozenset[str]
    extra: Parameter | None
    """The type of additional arguments, for a function with `**kwargs`."""
    context: str | None
    """The name of the parameter that takes the CallContext."""
    result: dict[str, Any]
    """The schema of the result; empty if it is not annotated, or with a type that no schema describes."""
    _checks: dict[str, Check] = field(repr=False)

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments converted to the function's types; raises ToolFailed saying what is wrong."""
        out: dict[str, Any] = {}
        checks = self._checks
        for name, value in args.items():
            check = checks.get(name)
            result = MISS if check is None else check(value)
            out[name] = self._parameter(name).convert(value) if result is MISS else result
        if not self.required <= out.keys():
            missing = [name for name in self.parameters if name in self.required and name not in out]
            raise ToolFailed("; ".join(f"argument {name}: is missing" for name in missing))
        return out

    def without(self, function: Callable[..., Any], name: str | None) -> Signature:
        """The signature without a parameter that plans do not supply; raises CallsheetError (CFG105)."""
        if name is None:
            return self
        if name not in self.parameters:
            hint = meant(name, self.parameters, f"give it one: {name}: str")
            raise cannot(function, f"it has no parameter {name!r} for the idempotency key", hint)
        schema = {
            **self.schema,
            "properties": {k: v for k, v in self.schema["properties"].items() if k != name},
        }
        required = [other for other in self.schema.get("required", ()) if other != name]
        if required:
            schema["required"] = required
        else:
            schema.pop("required", None)
        parameters = {other: p for other, p in self.parameters.items() if other != name}
        checks = {other: check for other, check in self._checks.items() if other != name}
        return Signature(
            schema, parameters, self.required - {name}, self.extra, self.context, self.result, checks
        )

    def _parameter(self, name: str) -> Parameter:
        parameter = self.parameters.get(name, self.extra if name != self.context else None)
        if parameter is not None:
            return (
                parameter
                if parameter is not self.extra
                else Parameter(name, parameter.annotation, parameter.check)
            )
        suggestions = did_you_mean(name, self.parameters)
        known = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
        raise ToolFailed(f"argument {name}: is not one of {', '.join(self.parameters) or 'none'}{known}")


def cannot(function: Callable[..., Any], reason: str, help: str | None = None) -> CallsheetError:  # noqa: A002
    """The error that says why a function cannot be a tool."""
    name = getattr(function, "__qualname__", repr(function))
    return CallsheetError.single("CFG105", f"{name} cannot be a tool: {reason}", help=help)


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The object that holds the annotations: a partial's function, a callable object's `__call__`."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function if inspect.isroutine(function) or inspect.isclass(function) else function.__call__


def read_signature(function: Callable[..., Any]) -> Signature:
    """The signature of a function; raises CallsheetError (CFG105) if it cannot be a tool."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise cannot(function, "it yields values", "return a list")
    signature = inspect.signature(function)
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
    except Exception as error:
        raise cannot(function, f"its types cannot be read ({type(error).__name__}: {error})") from error
    parameters: dict[str, Parameter] = {}
    schemas: dict[str, dict[str, Any] | None] = {}
    required: set[str] = set()
    extra: Parameter | None = None
    context: str | None = None
    for name, parameter in signature.parameters.items():
        annotation = hints.get(name, Any)
        if annotation is CallContext or CallContext in get_args(annotation):
            context = name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise cannot(
                function, f"its parameter {name} has no name that a plan can use", "use named parameters"
            )
        known = simple(annotation)
        read = Parameter(name, annotation, known.check if known else never)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = read
        else:
            parameters[name] = read
        schemas[name] = known.schema if known else None
        if parameter.default is parameter.empty and extra is not read:
            required.add(name)
    schema = _object_schema(
        function, signature, [*parameters.values(), *([extra] if extra else [])], schemas, extra
    )
    checks = {name: p.check for name, p in parameters.items()}
    result = result_schema(hints["return"]) if "return" in hints else {}
    return Signature(schema, parameters, frozenset(required), extra, context, result, checks)


def _object_schema(
    function: Callable[..., Any],
    signature: inspect.Signature,
    parameters: list[Parameter],
    schemas: dict[str, dict[str, Any] | None],
    extra: Parameter | None,
) -> dict[str, Any]:
    """The schema of the arguments as one object, with shared type definitions in `$defs`."""
    ready = {name: schema for name, schema in schemas.items() if schema is not None}
    others = [p for p in parameters if p.name not in ready]
    definitions = _pydantic_schemas(function, others, ready) if others else {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        if parameter is extra:
            continue
        default = signature.parameters[parameter.name].default
        properties[parameter.name] = dict(ready[parameter.name])
        if default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            _put_default(properties[parameter.name], default)
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        out["required"] = required
    out["additionalProperties"] = False if extra is None else (ready[extra.name] or True)
    if definitions:
        out["$defs"] = definitions
    return out


def _put_default(schema: dict[str, Any], default: Any) -> None:
    """Add the default to the schema if it has a JSON form."""
    try:
        schema["default"] = to_json(default)
    except ToolFailed:
        return


def _pydantic_schemas(
    function: Callable[..., Any], parameters: list[Parameter], ready: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Put pydantic's schemas of the types into `ready`; returns the definitions that they refer to."""
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - a quarter of a second
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation  # noqa: PLC0415

    for parameter in parameters:
        try:
            parameter.adapter().json_schema()
        except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
            reason = str(error).splitlines()[0].partition(". Set ")[0]
            raise cannot(
                function, f"the type of its parameter {parameter.name} has no JSON form ({reason})"
            ) from error
    wanted: list[Any] = [(p.name, "validation", p.adapter()) for p in parameters]
    schemas, shared = TypeAdapter.json_schemas(wanted)
    for parameter in parameters:
        ready[parameter.name] = schemas[(parameter.name, "validation")]
    return shared.get("$defs", {})
