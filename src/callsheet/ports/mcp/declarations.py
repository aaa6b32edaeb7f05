"""Turns a server's declaration of a tool into a ToolSpec, with its effect and pin.

In: the object from `tools/list`, as the server sent it. Out: a ToolSpec. A server's hints relax nothing
unless the operator trusts the server; then they count unless one contradicts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean
from callsheet.ir import CallKind, Effect, OnInDoubt, ToolClass, call_kind, canonical_tool_name
from callsheet.ir.canon import canonical_bytes
from callsheet.ir.inverse import Inverse
from callsheet.ir.operations import CONTROL_WORDS, ORDERED, Independence
from callsheet.ports.mcp.server_labels import said_of_tool
from callsheet.ports.mcp.servers import DEFAULT_TIMEOUT, McpServerConfig, ToolRule
from callsheet.ports.tools import OF_SERVERS, ToolSpec

_NAME = lazy.pattern(r"[A-Z][A-Z0-9_]*")


RESOURCE, PROMPT = "RESOURCE", "PROMPT"


def _offer(name: str, description: str, /, **properties: Any) -> ToolSpec:
    """A tool that is a request to any server that offers the thing."""
    fields = {**properties, "server": {"type": "string"}}
    shape: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    shape["required"] = [next(iter(properties))]
    return ToolSpec(
        name, name.lower(), description, shape, effect=Effect.READ, origin=OF_SERVERS, is_declared=True
    )


OFFERS: Mapping[str, ToolSpec] = {
    "resources": _offer(
        RESOURCE,
        "Reads a resource of an MCP server by its URI. `server` names the server, if several have that URI.",
        uri={"type": "string"},
    ),
    "prompts": _offer(
        PROMPT,
        "Gets a prompt of an MCP server with its arguments. `server` names it, if several have the prompt.",
        name={"type": "string"},
        arguments={"type": "object", "additionalProperties": {"type": "string"}},
    ),
}
"""The tools for what servers offer besides tools, by the capability that they declare for it."""


def argument_order(declaration: Mapping[str, Any]) -> list[str]:
    """The names of a declared tool's arguments in the order in which positional values fill them."""
    schema: Any = declaration.get("inputSchema")
    properties: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    return [*cast("dict[str, Any]", properties)] if isinstance(properties, dict) else []


def needs_task(declaration: Mapping[str, Any]) -> bool:
    """Whether a declared tool of 2025-11-25 takes calls as tasks only."""
    execution: Any = declaration.get("execution")
    return isinstance(execution, dict) and cast("dict[str, Any]", execution).get("taskSupport") == "required"


def pin_of(declaration: Mapping[str, Any]) -> str:
    """The hash of a whole declaration with the order of its arguments; no other order of keys counts.

    >>> pin_of({"name": "a", "inputSchema": {}}) == pin_of({"inputSchema": {}, "name": "a"})
    True
    >>> schemas = ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "a": {}}})
    >>> len({pin_of({"name": "t", "inputSchema": schema}) for schema in schemas})
    2
    """
    order = argument_order(declaration)
    return hash_of(declaration if len(order) < 2 else [declaration, order])


def orderless_pin_of(declaration: Mapping[str, Any]) -> str:
    """The pin in its first form, which policies, runs and plans of earlier versions contain.

    It differs from `pin_of` only for a tool with several arguments, whose order it does not cover.
    """
    return hash_of(declaration)


def hash_of(data: Any) -> str:
    """The SHA-256 of data in its canonical form, as declarations and identities are recorded."""
    return f"sha256:{hashlib.sha256(canonical_bytes(data)).hexdigest()}"


class EffectSource(StrEnum):
    """Who says which effect a tool has."""

    CONFIGURED = "configured"
    """The operator, in the configuration of the server."""
    ACCEPTED = "accepted"
    """The server, by a hint that a person has accepted into `callsheet.lock`."""
    TRUSTED = "trusted"
    """The server, by a hint that counts because the operator trusts the server."""
    NOBODY = "nobody"


class ToolTerms(NamedTuple):
    """What the operator says of a tool beside its declaration; `timeout` is that of its server.

    `does` is what kind of thing it does, `tells` the argument that says who is told,
    `undo` the call that takes back what a call did, `independence` what is declared of the order of calls.
    """

    effect: Effect = Effect.UNSAFE
    source: EffectSource = EffectSource.NOBODY
    key_argument: str | None = None
    on_in_doubt: OnInDoubt | None = None
    timeout: float = DEFAULT_TIMEOUT
    does: ToolClass | None = None
    tells: str | None = None
    undo: Inverse | None = None
    independence: Independence = ORDERED


def terms_of(
    config: McpServerConfig, declaration: Mapping[str, Any], accepted: Effect | None = None
) -> ToolTerms:
    """The terms of a declared tool by the configuration of its server.

    `accepted` is the effect of a hint that a person has accepted; a configured effect precedes it.
    """
    name = str(declaration["name"])
    rule = config.rules.get(name, ToolRule())
    effect, source = _effect(config, declaration, accepted)
    doubt, timeout, key = rule.on_in_doubt, config.timeout, rule.key_argument
    if key is None and effect in (Effect.KEYED, Effect.PROBE):
        key = declared_key(declaration)
    own = rule.does, rule.to, rule.undo, rule.independence
    return ToolTerms(effect, source, key, doubt, timeout, *own)


def declared_key(declaration: Mapping[str, Any]) -> str | None:
    """The argument of a tool that takes an idempotency key, by the names that APIs give it; None without one.

    >>> declared_key({"name": "pay", "inputSchema": {"properties": {"idempotencyKey": {"type": "string"}}}})
    'idempotencyKey'
    """
    schema: Any = declaration.get("inputSchema")
    properties: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    for name, said in cast("dict[str, Any]", properties).items():
        is_text = isinstance(said, dict) and "string" in str(
            cast("dict[str, Any]", said).get("type", "string")
        )
        if is_text and name.lower().replace("_", "").replace("-", "") in _KEYS:
            return name
    return None


_KEYS = frozenset(
    {"idempotencykey", "xidempotencykey", "idempotencytoken", "clienttoken", "clientrequesttoken"}
)
"""What APIs call the argument for an idempotency key, such as Stripe's, AWS's and those of the IETF draft."""


def _effect(
    config: McpServerConfig, declaration: Mapping[str, Any], accepted: Effect | None
) -> tuple[Effect, EffectSource]:
    configured = config.effects.get(str(declaration["name"]))
    if configured is not None:
        return configured, EffectSource.CONFIGURED
    if accepted is not None:
        return accepted, EffectSource.ACCEPTED
    hinted = hinted_effect(declaration) if config.trusted else None
    if hinted is None and config.trusted and declared_key(declaration) is not None:
        hinted = Effect.KEYED
    return (Effect.UNSAFE, EffectSource.NOBODY) if hinted is None else (hinted, EffectSource.TRUSTED)


def hinted_effect(declaration: Mapping[str, Any]) -> Effect | None:
    """The effect that a server's hints give to its tool; None without a hint, or if one contradicts it.

    >>> str(hinted_effect({"name": "t", "annotations": {"readOnlyHint": True}}))
    'read'
    """
    hints = declaration.get("annotations")
    given = cast("dict[str, Any]", hints) if isinstance(hints, dict) else {}
    if given.get("readOnlyHint") is True and given.get("destructiveHint") is not True:
        return Effect.READ
    return Effect.IDEMPOTENT if given.get("idempotentHint") is True else None


def hint_against(config: McpServerConfig, declaration: Mapping[str, Any]) -> str | None:
    """A hint that contradicts the configured effect of a tool; None if there is none.

    The configured effect applies anyway; the contradiction is only reported.
    """
    effect = config.effects.get(str(declaration["name"]))
    hints = declaration.get("annotations")
    if effect not in (Effect.PURE, Effect.READ) or not isinstance(hints, dict):
        return None
    fields = cast("dict[str, Any]", hints)
    # Some libraries write out every default, so only hints that deviate from it are meaningful.
    return "destructiveHint" if fields.get("destructiveHint") is True else None


_LONGEST_NAME = 128


def is_plain(name: str) -> bool:
    """Whether a tool's name cannot be mistaken for another: printable ASCII of at most 128 characters.

    >>> is_plain("git-log"), is_plain("g\u0456t_log"), is_plain("git_log\u200b")
    (True, False, False)
    """
    seen = all(" " <= char <= "~" for char in name)
    return seen and 0 < len(name) <= _LONGEST_NAME and name == name.strip()


def no_two_alike(server: str, names: Iterable[str]) -> None:
    """Raise CallsheetError (TOL016) if two tool names of a server map to the same plan name."""
    seen: dict[str, str] = {}
    for name in filter(is_plain, names):
        own = {plan_name(server, name), qualified_name(server, name)}
        earlier = next((seen[each] for each in own if each in seen), None)
        seen.update(dict.fromkeys(own, name))
        if earlier is not None:
            both = f"two tools called {name!r}" if earlier == name else f"both {earlier!r} and {name!r}"
            raise CallsheetError.single(
                "TOL016",
                f"the MCP server {server!r} lists {both}, which a plan cannot tell apart",
                help="remove the server, or ask its developers which of the two is the tool",
            )


def qualified_name(server: str, tool: str) -> str:
    """The name by which a tool can always be called: `SERVER__TOOL`."""
    name = f"{canonical_tool_name(server)}__{canonical_tool_name(tool)}"
    return name if name[0].isalpha() else f"MCP_{name}"


def plan_name(server: str, tool: str) -> str:
    """The name by which plans call a tool.

    The qualified name is used if a plan cannot write the name or it is a word of the language.
    """
    name = canonical_tool_name(tool)
    taken = name in CONTROL_WORDS or call_kind(name) is not CallKind.TOOL
    if taken or not tool.isascii() or not _NAME.fullmatch(name):
        return qualified_name(server, tool)
    return name


def spec_of(config: McpServerConfig, declaration: Mapping[str, Any]) -> ToolSpec:
    """The spec of a declared tool of which a person has accepted nothing."""
    return spec_under(config.name, declaration, terms_of(config, declaration))


def spec_under(server: str, declaration: Mapping[str, Any], terms: ToolTerms) -> ToolSpec:
    """The spec of a tool that a server declares, under the terms of the operator."""
    given = str(declaration["name"])
    schema, output = declaration.get("inputSchema"), declaration.get("outputSchema")
    parameters = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    return ToolSpec(
        name=plan_name(server, given),
        executor=given,
        description=str(declaration.get("description") or declaration.get("title") or ""),
        parameters=_seen_by_plans(parameters, terms.key_argument),
        effect=terms.effect,
        origin=f"mcp:{server}",
        timeout=terms.timeout,
        pin=pin_of(declaration),
        orderless_pin=orderless_pin_of(declaration),
        is_declared=terms.source in (EffectSource.CONFIGURED, EffectSource.ACCEPTED),
        on_in_doubt=terms.on_in_doubt,
        gives_list=_gives_list(output),
        result=_result_schema(output),
        effect_source=_SOURCES[terms.source],
        server_label=said_of_tool(declaration).label,
        hint=hinted_effect(declaration),
        does=terms.does,
        tells=terms.tells,
        undo=terms.undo,
        independence=terms.independence,
    )


_SOURCES = {
    EffectSource.CONFIGURED: "the server's configuration",
    EffectSource.ACCEPTED: "the server's hint, accepted in callsheet.lock",
    EffectSource.TRUSTED: "the server's hint; the configuration trusts the server",
    EffectSource.NOBODY: "nobody declares it",
}


def _gives_list(schema: object) -> bool:
    """Whether the output schema declares a list, which server libraries wrap as the only property `result`.

    >>> _gives_list({"properties": {"result": {"type": "array"}}})
    True
    >>> _gives_list({"properties": {"result": {"type": "array"}, "more": {}}})
    False
    """
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    properties = given.get("properties")
    if not isinstance(properties, dict) or list(cast("dict[str, Any]", properties)) != ["result"]:
        return False
    result: Any = cast("dict[str, Any]", properties)["result"]
    return isinstance(result, dict) and cast("dict[str, Any]", result).get("type") == "array"


def _result_schema(schema: object) -> Mapping[str, Any]:
    """The schema of a result as plans see it: without the wrapper around what is no object.

    Empty if none is declared.

    >>> _result_schema({"properties": {"result": {"type": "array"}}})
    {'type': 'array'}
    """
    if not isinstance(schema, dict):
        return {}
    given = cast("dict[str, Any]", schema)
    properties: Any = given.get("properties")
    if not isinstance(properties, dict) or list(cast("dict[str, Any]", properties)) != ["result"]:
        return given
    inner: Any = cast("dict[str, Any]", properties)["result"]
    if not isinstance(inner, dict):
        return {}
    whole = {name: given[name] for name in ("$defs", "definitions") if name in given}
    return {**cast("dict[str, Any]", inner), **whole}


def _seen_by_plans(schema: dict[str, Any], key_argument: str | None) -> dict[str, Any]:
    """The schema without the argument that receives the idempotency key."""
    name, properties, required = key_argument, schema.get("properties"), schema.get("required")
    if name is None or not isinstance(properties, dict) or name not in properties:
        return schema
    fields = cast("dict[str, Any]", properties)
    schema = {**schema, "properties": {key: value for key, value in fields.items() if key != name}}
    if isinstance(required, list):
        schema["required"] = [key for key in cast("list[Any]", required) if key != name]
    return schema


def unused_settings(config: McpServerConfig, offered: Collection[str]) -> Iterator[Diagnostic]:
    """Warnings about effects, rules and probes configured for tools that the server does not offer."""
    probes = [rule.probe.tool for rule in config.rules.values() if rule.probe is not None and rule.probe.tool]
    for name in dict.fromkeys((*config.effects, *config.rules, *probes)):
        if name in offered:
            continue
        suggestions = did_you_mean(name, offered)
        message = f"an effect is declared for {name!r}, which the MCP server {config.name!r} does not offer"
        hint = (
            f"did you mean {' or '.join(suggestions)}?"
            if suggestions
            else f"it offers {', '.join(offered) or 'nothing'}"
        )
        yield Diagnostic("TOL015", Severity.WARNING, message, help=hint)


def declaration_warnings(
    config: McpServerConfig, declarations: Mapping[str, Mapping[str, Any]], unusable: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Warnings about declared tools: those against the protocol, names that are not plain, hints that
    contradict the configuration.
    """
    server = f"the MCP server {config.name!r}"
    for name, why in unusable.items():
        message = f"the tool {name!a} of {server} is not declared as the protocol has it: {why}"
        hint = "it is ignored, and the server's other tools are not; tell the server's authors"
        yield Diagnostic("TOL018", Severity.WARNING, message, help=hint)
    for name, declaration in declarations.items():
        if not is_plain(name):
            message = f"{server} has a tool called {ascii(name)[:200]}, which could be mistaken for another"
            hint = "it is ignored; tool names have at most 128 characters, all of them ASCII"
            yield Diagnostic("TOL017", Severity.WARNING, message, help=hint)
        rule = config.rules.get(name, ToolRule())
        arguments = argument_order(declaration)
        for argument in rule.independence.resource:
            if argument not in arguments:
                message = f"{name!r} of {server} has no argument {argument!r}, which `resource` names"
                hint = f"it has {', '.join(arguments) or 'none'}; until then its calls stay in order"
                yield Diagnostic("TOL015", Severity.WARNING, message, help=hint)
        contradicted = hint_against(config, declaration)
        if contradicted is not None:
            effect = config.effects[name]
            message = f"{name!r} is declared to have the effect {effect}, but {server} says {contradicted}"
            hint = "the configuration takes precedence; check that the effect is right"
            yield Diagnostic("TOL024", Severity.WARNING, message, help=hint)
