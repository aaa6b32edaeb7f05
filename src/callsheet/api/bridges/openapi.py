"""The operations of an OpenAPI document as tools of plans.

In: the document of an HTTP API (3.0 or 3.1), where it is served, and its keys. Out: a tool for each
operation, whose arguments are the parameters and the fields of the body. The method says the effect: GET and
HEAD read, PUT and DELETE may be repeated, POST and PATCH are unsafe. Redirects are not followed, and requests
go only to the base address: an argument cannot change the host or climb out of its path.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import quote, urlsplit

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wrong
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    import httpx2

_NOTHING: dict[str, Any] = {}
_PLACES = ("path", "query", "header", "cookie")
_METHODS = {
    "get": Effect.READ,
    "head": Effect.READ,
    "put": Effect.IDEMPOTENT,
    "delete": Effect.IDEMPOTENT,
    "post": Effect.UNSAFE,
    "patch": Effect.UNSAFE,
}
_SECONDS = 60.0
_LARGEST = 20_000_000
_MOST_SHOWN = 300
Secret: TypeAlias = "str | Callable[[], str]"
"""A key, or a function that gives it at each call."""


@dataclass(frozen=True, slots=True)
class _Argument:
    """Where an argument of a tool goes in the request."""

    name: str
    place: str
    field: str
    explode: bool = True


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    path: str
    arguments: tuple[_Argument, ...]
    whole_body: str = ""
    """The argument that is the whole body; "" if its fields are arguments."""
    body_type: str = ""
    security: tuple[tuple[str, ...], ...] = ()
    """The alternatives, each the names of the schemes that a request needs."""


def from_openapi(
    document: str | os.PathLike[str] | Mapping[str, Any],
    *,
    base_url: str | None = None,
    auth: Mapping[str, Secret] | None = None,
    only: Iterable[str] | None = None,
    effects: Mapping[str, Effect | str] | None = None,
    prefix: str = "",
    client: httpx2.AsyncClient | None = None,
) -> list[Tool]:
    """A tool for each operation of an OpenAPI document: its path (JSON or YAML) or its content.

    The tools have the operation's id as their name, or else method and path, after `prefix`; `only` names the
    operations that are wanted. `base_url` is where the API is served, by default the first server of the
    document. `auth` has the keys by the names of the document's security schemes: an API key, a bearer token,
    `user:password` for basic authentication, or a function that gives it. `effects` says other effects than
    the methods do, by operation. `client` makes the requests, by default one for each.

    Raises CallsheetError (CFG234) for a document that cannot be used, or one without an operation that is
    named.
    """
    spec = _document(document)
    base = _base(spec, base_url)
    components = _object(spec.get("components") or {}, "components")
    schemes = {
        name: _object(_resolved(spec, one), f"the security scheme {name}")
        for name, one in _object(components.get("securitySchemes", {}), "securitySchemes").items()
    }
    keys = dict(auth or {})
    unknown = sorted(keys.keys() - schemes.keys())
    if unknown:
        raise _unusable(f"it has no security scheme {unknown[0]!r}, for which `auth` has a key")
    wanted = None if only is None else set(only)
    said = dict(effects or {})
    tools: list[Tool] = []
    seen: set[str] = set()
    for path, given in _object(spec.get("paths", {}), "paths").items():
        item = _object(_resolved(spec, given), path)
        shared = _parameters(spec, item, path)
        for method, effect in _METHODS.items():
            if method not in item:
                continue
            operation = _object(item[method], f"{method.upper()} {path}")
            name = str(operation.get("operationId") or f"{method}_{path.strip('/')}")
            seen.add(name)
            if wanted is not None and name not in wanted:
                continue
            plan, schema = _operation(spec, method, path, shared, operation)
            caller = _Caller(base, plan, schemes, keys, client)
            about = operation.get("summary") or operation.get("description") or f"{method.upper()} {path}"
            tools.append(
                Tool.of(
                    prefix + re.sub(r"\W+", "_", name).strip("_"),
                    caller.call,
                    schema,
                    effect=said.get(name, effect),
                    description=str(about),
                    origin=f"openapi:{urlsplit(base).netloc}",
                    result=_result(spec, operation),
                    takes_context=True,
                )
            )
    missing = sorted(((wanted or set()) | said.keys()) - seen)
    if missing:
        raise _unusable(f"it has no operation {missing[0]!r}")
    return tools


def _document(given: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        spec: Any = dict(given)
    elif not isinstance(cast("object", given), str | os.PathLike):
        raise wrong("document", given, "the path of an OpenAPI document or its content")
    else:
        import yaml  # noqa: PLC0415 - only where a file is read; JSON is YAML

        try:
            spec = yaml.safe_load(Path(given).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise _unusable(f"{given} cannot be read: {error}") from error
    version = str(cast("dict[str, Any]", spec).get("openapi", "")) if isinstance(spec, dict) else ""
    if not version.startswith(("3.0", "3.1")):
        raise _unusable(f"it is of no known version: openapi is {version or 'missing'}, not 3.0 or 3.1")
    return cast("dict[str, Any]", spec)


def _base(spec: Mapping[str, Any], given: str | None) -> str:
    servers = _array(spec.get("servers") or [], "servers")
    url = given or str(_object(servers[0], "the first server").get("url", "") if servers else "")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise _unusable(f"it does not say where it is served ({url or 'no server'})", "give base_url=…")
    if "{" in url:
        raise _unusable(f"its server {url} has variables", "give base_url=…")
    return url.rstrip("/")


def _unusable(why: str, hint: str | None = None) -> CallsheetError:
    return CallsheetError.single("CFG234", f"the OpenAPI document cannot be used: {why}", help=hint)


# ------------------------------------------------------------------ schemas


def _object(given: Any, what: str) -> dict[str, Any]:
    """An object of the document; raises CallsheetError (CFG234) for anything else."""
    if not isinstance(given, dict):
        raise _unusable(f"{what} is no object")
    return cast("dict[str, Any]", given)


def _array(given: Any, what: str) -> list[Any]:
    """A list of the document; raises CallsheetError (CFG234) for anything else."""
    if not isinstance(given, list):
        raise _unusable(f"{what} is no list")
    return cast("list[Any]", given)


def _resolved(spec: Mapping[str, Any], given: Any) -> Any:
    """A part of the document, behind its reference."""
    for _ in range(20):
        if not isinstance(given, dict) or "$ref" not in given:
            break
        reference = str(cast("dict[str, Any]", given)["$ref"])
        if not reference.startswith("#/"):
            raise _unusable(f"{reference} is in another document", "bundle it into one first")
        given = spec
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            given = cast("Mapping[str, Any]", given).get(name) if isinstance(given, Mapping) else None
        if given is None:
            raise _unusable(f"{reference} leads nowhere")
    return cast("Any", given)


def _schema(spec: Mapping[str, Any], schema: Any, depth: int = 0) -> Any:
    """A schema without references; deep inside, where one may contain itself, anything will do."""
    if depth > 12:
        return {}
    if isinstance(schema, list):
        return [_schema(spec, one, depth) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = cast("dict[str, Any]", schema)
    if "$ref" in table:
        return _schema(spec, _resolved(spec, table), depth + 1)
    out = {name: _schema(spec, one, depth + 1) for name, one in table.items() if name not in _NOT_JSON_SCHEMA}
    if table.get("nullable") is True and isinstance(out.get("type"), str):  # version 3.0
        out["type"] = [out["type"], "null"]
    return out


_NOT_JSON_SCHEMA = ("nullable", "discriminator", "xml", "externalDocs", "example")


def _operation(
    spec: Mapping[str, Any],
    method: str,
    path: str,
    shared: list[dict[str, Any]],
    operation: Mapping[str, Any],
) -> tuple[_Operation, dict[str, Any]]:
    """An operation, and the schema of its arguments."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    arguments: list[_Argument] = []
    where = f"{method.upper()} {path}"
    parameters = {(one["name"], one["in"]): one for one in [*shared, *_parameters(spec, operation, where)]}
    for (name, place), parameter in parameters.items():
        argument = _free(name, properties)
        contents = _object(parameter.get("content", {}), f"the content of {name} of {where}")
        content = _object(next(iter(contents.values()), _NOTHING), f"the content of {name} of {where}")
        schema = _schema(spec, parameter.get("schema") or content.get("schema") or {})
        if parameter.get("description"):
            schema = {**schema, "description": parameter["description"]}
        properties[argument] = schema
        arguments.append(_Argument(argument, place, name, parameter.get("explode", place != "header")))
        if parameter.get("required") or place == "path":
            required.append(argument)
    whole, body_type = "", ""
    body = _object(_resolved(spec, operation.get("requestBody", {})), f"the body of {where}")
    if body:
        whole, body_type = _body(spec, body, properties, required, arguments)
    given = _array(operation.get("security", spec.get("security", [])), f"the security of {where}")
    security = tuple(tuple(_object(one, f"the security of {where}")) for one in given)
    done = _Operation(method.upper(), path, tuple(arguments), whole, body_type, security)
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return done, schema


def _parameters(spec: Mapping[str, Any], table: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """The parameters of a path or an operation, each with a name and a place."""
    given = _array(table.get("parameters", []), f"the parameters of {where}")
    found = [_object(_resolved(spec, one), f"a parameter of {where}") for one in given]
    for one in found:
        if not isinstance(one.get("name"), str) or one.get("in") not in _PLACES:
            raise _unusable(f"a parameter of {where} has no name, or is in none of {', '.join(_PLACES)}")
    return found


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """The name of an argument, with a number behind it if others of the operation have it."""
    argument = re.sub(r"\W+", "_", name).strip("_") or "value"
    numbered = (f"{argument}_{number}" for number in count(2))
    return argument if argument not in taken else next(one for one in numbered if one not in taken)


def _body(
    spec: Mapping[str, Any],
    body: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
    arguments: list[_Argument],
) -> tuple[str, str]:
    """Take in the fields of a body as arguments; the argument that is the whole body, and its type."""
    content = _object(body.get("content", {}), "the content of a body")
    kind = next((one for one in content if one.partition(";")[0].endswith("json")), None)
    kind = kind or next(iter(content), "application/json")
    schema = _schema(spec, _object(content.get(kind, {}), f"the content {kind} of a body").get("schema", {}))
    fields = schema.get("properties")
    if (
        kind.partition(";")[0].endswith("json")
        and isinstance(fields, dict)
        and schema.get("type") == "object"
    ):
        needed = cast("list[str]", schema.get("required", []) if body.get("required", False) else [])
        for name, one in cast("dict[str, Any]", fields).items():
            argument = _free(name, properties)
            properties[argument] = one
            arguments.append(_Argument(argument, "body", name))
            if name in needed:
                required.append(argument)
        return "", kind
    argument = _free("body", properties)
    properties[argument] = schema
    if body.get("required", False):
        required.append(argument)
    return argument, kind


def _result(spec: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what a good answer contains; empty if it is not declared."""
    responses = _object(operation.get("responses", {}), "responses")
    good = next((one for code, one in responses.items() if str(code).startswith("2")), _NOTHING)
    content = _object(
        _object(_resolved(spec, good), "a response").get("content", {}), "the content of a response"
    )
    found = next((one for kind, one in content.items() if "json" in kind), _NOTHING)
    schema = _object(found, "the content of a response").get("schema")
    return {} if schema is None else cast("dict[str, Any]", _schema(spec, schema))


# ------------------------------------------------------------------ requests


@dataclass(slots=True)
class _Request:
    url: str
    query: list[tuple[str, str | int | float | bool | None]] = field(
        default_factory=list["tuple[str, str | int | float | bool | None]"]
    )
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cookies: list[str] = field(default_factory=list[str])
    content: bytes | None = None


class _Caller:
    """Makes the requests of one operation."""

    def __init__(
        self,
        base: str,
        operation: _Operation,
        schemes: Mapping[str, Any],
        keys: Mapping[str, Secret],
        client: httpx2.AsyncClient | None,
    ) -> None:
        self._base, self._operation = base, operation
        self._schemes, self._keys, self._client = schemes, keys, client

    async def call(self, args: dict[str, Any], context: CallContext) -> JSON:
        """The answer of a request; raises ToolFailed for an answer that is an error, or none at all."""
        import httpx2  # noqa: PLC0415 - loaded by the first call

        request = self._request(args)
        request.headers.setdefault("Idempotency-Key", context.idempotency_key)
        method, may_repeat = self._operation.method, self._operation.method not in ("POST", "PATCH")
        if request.cookies:
            request.headers["Cookie"] = "; ".join(request.cookies)
        client = self._client or httpx2.AsyncClient(timeout=_SECONDS)
        try:
            response = await client.request(
                method,
                request.url,
                params=[*request.query],
                headers=request.headers,
                content=request.content,
                follow_redirects=False,
            )
        except httpx2.ConnectError as error:
            raise ToolFailed(f"{self._host} cannot be reached: {error}") from error
        except httpx2.HTTPError as error:
            kind = "TIMEOUT" if isinstance(error, httpx2.TimeoutException) else ""
            text = f"{self._host} gave no answer: {type(error).__name__}: {error}".rstrip(": ")
            raise ToolFailed(text, in_doubt=not may_repeat, kind=kind) from error
        finally:
            if self._client is None:
                await client.aclose()
        return self._answer(response)

    @property
    def _host(self) -> str:
        return urlsplit(self._base).netloc

    def _answer(self, response: Any) -> JSON:
        text: str = response.text if len(response.content) <= _LARGEST else ""
        if response.status_code >= 300:
            shown = text.strip()[:_MOST_SHOWN]
            where = response.headers.get("location", "")
            why = f"it redirects to {where}, which is not followed" if where else shown
            raise ToolFailed(
                f"{self._operation.method} {self._operation.path} answered {response.status_code}"
                f"{f': {why}' if why else ''}"
            )
        if len(response.content) > _LARGEST:
            raise ToolFailed(f"the answer has more than {_LARGEST:,} bytes", final=True)
        if not response.content:
            return None
        if "json" in response.headers.get("content-type", ""):
            try:
                return json.loads(text)
            except ValueError as error:
                raise ToolFailed(
                    f"the answer is not the JSON that it says it is: {error}", final=True
                ) from error
        return text

    def _request(self, args: Mapping[str, Any]) -> _Request:
        operation = self._operation
        path, body = operation.path, dict[str, Any]()
        request = _Request("")
        for one in operation.arguments:
            value = args.get(one.name)
            if value is None and one.place != "body":
                if one.place == "path":
                    raise ToolFailed(f"the argument {one.name} is missing")
                continue
            match one.place:
                case "path":
                    segment = quote(_text(value), safe="")
                    if segment in ("", ".", ".."):
                        raise ToolFailed(f"the argument {one.name} cannot be a part of a path: {segment!r}")
                    path = path.replace("{" + one.field + "}", segment)
                case "query":
                    several = _several(value) if one.explode else [value]
                    request.query += [(one.field, _text(each)) for each in several]
                case "header":
                    request.headers[one.field] = _header(one.name, _text(value))
                case "cookie":
                    request.cookies.append(f"{one.field}={quote(_text(value))}")
                case _:
                    if one.name in args:
                        body[one.field] = value
        request.url = self._base + path
        whole = args.get(operation.whole_body) if operation.whole_body else None
        if operation.body_type and (whole is not None or not operation.whole_body):
            given = whole if operation.whole_body else body
            is_json = operation.body_type.partition(";")[0].endswith("json")
            text = json.dumps(given, ensure_ascii=False) if is_json or not isinstance(given, str) else given
            request.content = text.encode()
            request.headers["Content-Type"] = operation.body_type
        self._sign(request)
        return request

    def _sign(self, request: _Request) -> None:
        """Add the keys of the first alternative whose keys are all there; none if it allows that."""
        options = self._operation.security
        if not options:
            return
        chosen = next((names for names in options if all(name in self._keys for name in names)), None)
        if chosen is None:
            names = " or ".join("+".join(names) for names in options)
            raise ToolFailed(f"it needs a key for {names}: from_openapi(…, auth={{…}})")
        for name in chosen:
            given = self._keys[name]
            self._put(request, self._schemes[name], given if isinstance(given, str) else given())

    def _put(self, request: _Request, scheme: Mapping[str, Any], key: str) -> None:
        match scheme.get("type"), scheme.get("in"):
            case "apiKey", "header":
                request.headers[scheme["name"]] = _header(scheme["name"], key)
            case "apiKey", "query":
                request.query.append((scheme["name"], key))
            case "apiKey", "cookie":
                request.cookies.append(f"{scheme['name']}={quote(key)}")
            case "http", _ if str(scheme.get("scheme", "")).lower() == "basic":
                request.headers["Authorization"] = f"Basic {base64.b64encode(key.encode()).decode()}"
            case _:
                request.headers["Authorization"] = f"Bearer {_header('the token', key)}"


def _several(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(map(_text, cast("list[Any]", value)))
    return json.dumps(value, ensure_ascii=False)


def _header(name: str, value: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ToolFailed(f"{name} cannot be a header: it has control characters")
    return value
