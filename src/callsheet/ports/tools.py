"""Tools as the runtime sees them: declaration (`ToolSpec`), handler, the `Registry` of all; `@ASK_HUMAN`.

In: declarations and handlers from built-ins, Python functions and MCP servers. Out: the tool of a name, or
a diagnostic. A tool is chosen by its name only, never by arguments or data.

Valid questions never reach the handler: the machine asks the person itself. Calls that do reach it have
invalid arguments and fail with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean
from callsheet.ir import (
    JSON,
    Effect,
    OnInDoubt,
    ToolClass,
    canonical_tool_name,
    class_of_effect,
    executor_name,
)
from callsheet.ir.canon import canonical_bytes
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.operations import ORDERED, Independence
from callsheet.lazy import dataclass
from callsheet.machine.questions import ASK, read_question, wrong_argument
from callsheet.ports.calls import CallContext, ToolFailed

if TYPE_CHECKING:
    from callsheet.ir.inverse import Inverse
    from callsheet.ports.answers import Prober
    from callsheet.ports.reconcilers import Reconciler


Handler: TypeAlias = Callable[[dict[str, Any], CallContext], Awaitable[JSON]]
"""Carries out a call: returns the value, or raises ToolFailed (any other exception is a failure too)."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The declaration of a tool.

    `name` is canonical (upper case, as `@NAME` in a plan), `executor` the name that its provider uses.
    `parameters` is the JSON schema of its arguments; the order of its properties assigns positional
    arguments. `timeout` is in seconds, None for no limit; the handler enforces it. `origin` says where the
    tool comes from (`builtin`, `python:FILE`, `mcp:SERVER`); `pin` is the hash of the declaration as its
    provider gave it; `refusal` says why it may not be called, None if it may: refused tools are not listed to
    models.
    """

    name: str
    executor: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    effect: Effect = Effect.UNSAFE
    origin: str = "builtin"
    timeout: float | None = None
    pin: str | None = None
    orderless_pin: str | None = None
    """The pin in its first form, which does not cover the order of the arguments."""
    is_declared: bool = False
    """Whether the effect was declared by someone responsible for the tool."""
    does: ToolClass | None = None
    """What kind of thing it does, if it was declared."""
    tells: str | None = None
    """The argument that says who is told, if it was declared."""
    on_in_doubt: OnInDoubt | None = None
    """How its calls in doubt are resolved; None leaves that to the run."""
    refusal: Diagnostic | None = None
    gives_list: bool = False
    """Whether its declared results are lists."""
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The JSON schema of its results as plans see them; empty if none is declared."""
    effect_source: str = ""
    """Who says its effect, in words; empty for what callsheet or its author declares."""
    server_label: Label = LITERAL
    """What its server says in its declaration of all its results."""
    hint: Effect | None = None
    """The effect that its server claims by hints, whether that counts or not."""
    undo: Inverse | None = None
    """The call that takes back what a call did, if somebody responsible for the tool says so."""
    independence: Independence = ORDERED
    """What somebody responsible for the tool says of the order of its calls in the items of loops."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the arguments in their declared order."""
        properties = self.parameters.get("properties")
        return tuple(properties) if isinstance(properties, Mapping) else ()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    @property
    def declared_class(self) -> ToolClass | None:
        """What somebody responsible for the tool says that it does, if only by its effect."""
        return self.does or class_of_effect(self.effect)

    def has_pin(self, pin: str, order: Iterable[str] | None) -> bool:
        """Whether this is the declaration with a pin.

        A pin in its first form counts only together with the `order` of the arguments that its calls rely on.
        """
        if pin == self.pin:
            return True
        return order is not None and pin == self.orderless_pin and tuple(order) == self.parameter_names


@dataclass(frozen=True, slots=True)
class Tool:
    """A declaration with its handler and, if the effect is `probe`, its probe. `Tool.of` makes one.

    In place of a probe a `reconciler` says which other tools tell whether a call took place.
    """

    spec: ToolSpec
    handler: Handler
    probe: Prober | None = None
    reconciler: Reconciler | None = None

    @classmethod
    def of(  # noqa: PLR0913 - all that can be said of a tool
        cls,
        name: str,
        function: Callable[..., Any],
        schema: Mapping[str, Any],
        *,
        effect: Effect | str = Effect.UNSAFE,
        description: str = "",
        origin: str = "",
        result: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        takes_context: bool = False,
    ) -> Tool:
        """A tool of a name, a function and the JSON schema of its arguments.

        The function gets the arguments by their names; it may be async, and else runs in a thread. With
        `takes_context` it gets them as one dict, and a `CallContext`, and must be async. `effect` is what its
        calls do; `result` is the schema of what it gives. Raises ValueError for an effect that is none, or a
        name of which none is left in a plan.

        >>> tool = Tool.of("get-issue", print, {"type": "object", "properties": {"n": {}}}, effect="read")
        >>> tool.spec.name, tool.spec.parameter_names, tool.spec.effect.only_reads
        ('GET_ISSUE', ('n',), True)
        """
        canonical = canonical_tool_name(name)
        if not canonical.strip("_"):
            raise ValueError(f"the name {name!r} has no letter or digit")
        known, declared = dict(schema), Effect(effect)
        pin = {"name": name, "description": description, "parameters": known, "effect": str(declared)}
        spec = ToolSpec(
            name=canonical,
            executor=name,
            description=description,
            parameters=known,
            effect=declared,
            origin=origin or f"python:{getattr(function, '__module__', '')}",
            timeout=timeout,
            pin=f"sha256:{sha256(canonical_bytes(pin)).hexdigest()}",
            is_declared=declared is not Effect.UNSAFE,
            result=dict(result or {}),
        )
        return cls(spec, function if takes_context else _by_name(function, spec))


def _by_name(function: Callable[..., Any], spec: ToolSpec) -> Handler:
    """The handler of a function that takes arguments by their names; its result is that of the schema."""

    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        from callsheet.ports.python_tools.results import (  # noqa: PLC0415 - brings much, is for few
            described_result,
            value_returned,
        )
        from callsheet.ports.threads import Threaded, stop_sharing  # noqa: PLC0415 - as above

        returned = described_result(spec.name, spec.result, has_effect=not spec.effect.only_reads)
        if inspect.iscoroutinefunction(function):
            stop_sharing()
            return value_returned(await function(**args), returned)
        return await Threaded(lambda bound: value_returned(function(**bound), returned))(args, context)

    return call


OF_SERVERS = "servers"
"""The origin of tools that stand for what servers offer besides tools."""


class Registry:
    """All tools that a run can call, by canonical name.

    A name that several providers claim is ambiguous: such tools can be called only by their qualified name
    (`@SERVER__TOOL`), given to `add` as `alias`.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}
        self._ambiguous: dict[str, list[str]] = {}
        self._unlisted: dict[str, Tool] = {}
        self.unopened: tuple[str, ...] = ()
        """The servers that were not opened, so that their tools are missing here."""
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool, alias: str | None = None) -> None:
        """Add a tool; `alias` is its second, qualified name.

        A second tool of the same name makes the name ambiguous. Raises CallsheetError (TOL002) if a name by
        which a tool has to be callable is already taken.
        """
        name = tool.spec.name
        if name in self._aliases:
            raise _same(name, tool)
        if name in self._ambiguous:
            self._claim(name, tool, alias)
        elif name in self._tools:
            first = self._tools.pop(name)
            self._ambiguous[name] = []
            first_alias = next((a for a, n in self._aliases.items() if n == name), None)
            self._claim(name, first, first_alias)
            self._claim(name, tool, alias)
        else:
            if alias is not None and alias != name:
                if alias in self._tools or alias in self._aliases:
                    raise _same(alias, tool)
                self._aliases[alias] = name
            self._tools[name] = tool

    def add_unlisted(self, tool: Tool) -> None:
        """Add a tool that can be called and is in no list; any other tool of its name has precedence."""
        self._unlisted[tool.spec.name] = tool

    def reserve(self, name: str, alias: str) -> None:
        """Make a name ambiguous on behalf of an absent tool that also claims it and is called `alias`.

        Has no effect if no present tool has the name.
        """
        first = self._tools.pop(name, None)
        if first is not None:
            self._ambiguous[name] = []
            self._claim(name, first, next((a for a, n in self._aliases.items() if n == name), None))
        if name in self._ambiguous and alias not in self._ambiguous[name]:
            self._ambiguous[name].append(alias)

    def _claim(self, name: str, tool: Tool, alias: str | None) -> None:
        qualified = alias or f"{tool.spec.origin.partition(':')[0].upper()}__{name}"
        if qualified in self._tools:
            raise _same(qualified, tool)
        self._tools[qualified] = tool
        self._aliases.pop(qualified, None)
        self._ambiguous[name].append(qualified)

    def get(self, name: str) -> Tool | None:
        """The tool of a canonical or qualified name; None if there is none or the name is ambiguous."""
        tool = self._tools.get(name) or self._tools.get(self._aliases.get(name, ""))
        if tool is None and name in self._unlisted and name not in self._ambiguous:
            return self._unlisted[name]
        return tool

    def names_of(self, name: str) -> tuple[str, ...]:
        """All names of the tool that `name` refers to, the primary one first; `name` alone if none."""
        own = name if name in self._tools else self._aliases.get(name, name)
        return (own, *(alias for alias, tool in self._aliases.items() if tool == own))

    def without(self, names: Iterable[str]) -> Registry:
        """A copy of the registry without the tools of these canonical names."""
        left_out, rest = frozenset(names), Registry()
        rest._tools = {name: tool for name, tool in self._tools.items() if name not in left_out}
        rest._aliases = {alias: name for alias, name in self._aliases.items() if name not in left_out}
        rest.unopened = self.unopened
        rest._unlisted = {name: tool for name, tool in self._unlisted.items() if name not in left_out}
        rest._ambiguous = {name: [*names] for name, names in self._ambiguous.items()}
        return rest

    def require(self, name: str) -> Tool:
        """The tool of this name; raises CallsheetError (TOL001, TOL003) with the nearest names."""
        tool = self.get(name)
        if tool is None:
            raise CallsheetError([self.missing(name)])
        return tool

    def missing(self, name: str) -> Diagnostic:
        """The diagnostic for a name that `get` does not find: ambiguous (TOL003) or unknown (TOL001)."""
        if name in self._ambiguous:
            names = " or ".join(f"@{q}" for q in self._ambiguous[name])
            return Diagnostic(
                "TOL003", Severity.ERROR, f"@{name} is offered by more than one server", help=f"write {names}"
            )
        suggestions = did_you_mean(name, [*self._tools, *self._aliases])
        known = "did you mean " + " or ".join(f"@{n}" for n in suggestions) + "?" if suggestions else None
        return Diagnostic(
            "TOL001",
            Severity.ERROR,
            f"no tool is called @{name}",
            help=known or "`callsheet tools` lists the available tools",
        )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def names(self) -> tuple[str, ...]:
        """The primary names of all tools, in the order they were added."""
        return tuple(self._tools)


def _same(name: str, tool: Tool) -> CallsheetError:
    return CallsheetError.single(
        "TOL002",
        f"two tools are both called @{name} (the second comes from {tool.spec.origin})",
        help="rename one of them or remove one of the servers from the configuration",
    )


ORIGIN = "people"
"""The origin in the tool's declaration."""
_PARAMETERS: dict[str, Any] = {
    "prompt": {"description": "the question"},
    "options": {"type": "array", "description": "the allowed answers"},
    "schema": {"type": "object", "description": "JSON Schema of the answer"},
    "timeout": {
        "type": ["string", "number"],
        "description": "how long to wait: seconds, or 45m, 12h, 3d; default: no limit",
    },
    "default": {"description": "the answer after the timeout; without it the step fails"},
}


def asking_tool() -> Tool:
    """The tool `@ASK_HUMAN`. Its effect is `read`, so that the items of a FOREACH are asked concurrently."""
    spec = ToolSpec(
        name=ASK,
        executor=executor_name(ASK),
        description="Ask a person and wait for the answer, for days if necessary.",
        parameters={
            "type": "object",
            "properties": _PARAMETERS,
            "required": ["prompt"],
            "additionalProperties": False,
        },
        effect=Effect.READ,
        origin=ORIGIN,
    )
    return Tool(spec, _refuse)


async def _refuse(arguments: dict[str, Any], _context: CallContext) -> JSON:
    read = read_question(arguments)
    raise ToolFailed(read if isinstance(read, str) else "nobody can be asked here")


def check_literal(name: str, literal: JSON) -> str | None:
    """A `LiteralCheck`: what is wrong with a literal argument, or None."""
    return wrong_argument(name, literal)
