"""Reads the `mcpServers` configuration files that desktop clients and editors share.

In: a JSON file. Out: frozen configurations with environment variables filled in, or CallsheetError (CFG110
to CFG113) pointing at the fault. Reading starts and contacts no server and does not import `mcp`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, did_you_mean
from callsheet.ir import Effect, OnInDoubt, ToolClass
from callsheet.ir.inverse import Inverse, NotAnInverse, read_inverse
from callsheet.ir.operations import Independence
from callsheet.ports.mcp.servers import (
    DEFAULT_TIMEOUT,
    Grant,
    HttpServer,
    McpServerConfig,
    OAuthRules,
    Protocol,
    StdioServer,
    ToolProbe,
    ToolRule,
    is_safe,
)
from callsheet.ports.reconcilers import ByPlan, Condition, NotAReconciler, read_condition, read_plan
from callsheet.ports.urls import server_host

_BLANK = lazy.pattern(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = lazy.pattern(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 32

Plain: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its span; `key` is the span of its key in the enclosing object."""

    value: Plain
    span: Span
    key: Span | None = None

    def data(self) -> Any:
        """The value as plain data, without spans."""
        match self.value:
            case list(items):
                return [item.data() for item in items]
            case dict(items):
                return {key: item.data() for key, item in items.items()}
            case plain:
                return plain


def fail(source: Source, code: str, span: Span, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
    """Raise CallsheetError with one diagnostic at a place in the source."""
    raise CallsheetError([Diagnostic(code, Severity.ERROR, message, span, help=help)], source)


def parse(source: Source) -> Node:
    """The tree of a JSON text; raises CallsheetError (CFG111) if it is not JSON."""
    reader = _Reader(source)
    node = reader.value(reader.skip(0), None, 0)
    end = reader.skip(node.span.end)
    if end != len(source.text):
        reader.wrong(end, "there is more text after the end of the JSON value")
    return node


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self._strings = JSONDecoder()

    def wrong(self, at: int, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
        fail(self.source, "CFG111", Span(at, at + 1), message, help)

    def skip(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, key: Span | None, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            self.wrong(at, "nested too deep for a configuration")
        match self.text[at : at + 1]:
            case "{":
                return self._object(at, key, depth)
            case "[":
                return self._array(at, key, depth)
            case '"':
                text, end = self._string(at)
                return Node(text, Span(at, end), key)
            case "":
                self.wrong(at, "the text ends where a value is expected")
            case _:
                return self._plain(at, key)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            return self._strings.raw_decode(self.text, at)
        except JSONDecodeError as error:
            self.wrong(error.pos, f"{error.msg[0].lower()}{error.msg[1:]}".removesuffix(" at"))

    def _plain(self, at: int, key: Span | None) -> Node:
        number = _NUMBER.match(self.text, at)
        if number:
            whole = number[1] is None and number[2] is None
            if whole and len(number[0]) > 300:
                self.wrong(at, "this number is too long")
            return Node(int(number[0]) if whole else float(number[0]), Span(*number.span()), key)
        word = re.compile(r"\w*").match(self.text, at)
        name = word[0] if word else ""
        if name in _WORDS:
            return Node(_WORDS[name], Span(at, at + len(name)), key)
        if self.text[at] == "'":
            self.wrong(at, "a string needs double quotes", "write \"…\" for '…'")
        self.wrong(at, "a value is expected here", "strings need double quotes")

    def _array(self, at: int, key: Span | None, depth: int) -> Node:
        items: list[Node] = []
        position = self.skip(at + 1)
        while self.text[position : position + 1] != "]":
            node = self.value(position, None, depth + 1)
            items.append(node)
            position = self._next(node.span.end, "]", at)
        return Node(items, Span(at, position + 1), key)

    def _object(self, at: int, key: Span | None, depth: int) -> Node:
        items: dict[str, Node] = {}
        position = self.skip(at + 1)
        while self.text[position : position + 1] != "}":
            if self.text[position : position + 1] != '"':
                self.wrong(position, "a key is expected here", "keys need double quotes")
            name, end = self._string(position)
            if name in items:
                fail(self.source, "CFG111", Span(position, end), f"the key {name!r} is repeated here")
            colon = self.skip(end)
            if self.text[colon : colon + 1] != ":":
                self.wrong(colon, f"a colon is expected here, after the key {name!r}")
            node = self.value(self.skip(colon + 1), Span(position, end), depth + 1)
            items[name] = node
            position = self._next(node.span.end, "}", at)
        return Node(items, Span(at, position + 1), key)

    def _next(self, at: int, close: str, opened: int) -> int:
        """Skip a comma; returns the position of the next item or of the closing bracket."""
        position = self.skip(at)
        match self.text[position : position + 1]:
            case ",":
                return self.skip(position + 1)
            case char if char == close:
                return position
            case "":
                line = self.source.position(opened).line
                self.wrong(position, f"the text ends inside the {self.text[opened]!r} of line {line}")
            case _:
                self.wrong(position, f"a comma or {close!r} is expected here")


_Word = TypeVar("_Word", Effect, Grant, OnInDoubt, ToolClass, Protocol)


@dataclass(frozen=True, slots=True)
class McpConfigFile:
    """A configuration file: its enabled servers, and warnings about what was ignored in it."""

    source: Source = field(repr=False)
    servers: tuple[McpServerConfig, ...]
    warnings: tuple[Diagnostic, ...] = ()
    skipped: tuple[str, ...] = ()
    """The servers that were left out because they cannot be used."""


_TABLES = ("mcpServers", "servers")
_KNOWN = (
    "command", "args", "env", "cwd", "type", "transport", "url", "serverUrl", "httpUrl", "headers",
    "timeout", "disabled", "enabled", "callsheet",
)  # fmt: skip
_OTHERS = frozenset((
    "autoApprove", "alwaysAllow", "description", "name", "icon", "gallery", "version", "trust", "tools",
    "dev",
))  # fmt: skip
"""Keys of other clients that are accepted and ignored."""
_RULE = (
    "effect", "does", "to", "key_argument", "probe", "on_in_doubt", "max_concurrent", "undo", "commutes",
    "resource",
)  # fmt: skip
_PROBE = ("tool", "arguments", "key_argument", "happened", "value", "plan")
_EXTENSION = ("effects", "trusted", "timeout", "max_concurrent", "oauth", "protocol")
_OAUTH = ("grant", "client_id", "client_secret", "client_metadata_url", "issuer", "scope", "redirect_port")
_HTTP_TYPES = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})


def load_config(
    path: Path, environ: Mapping[str, str] | None = None, *, skips: bool = False
) -> McpConfigFile:
    """The servers of a file, in its order.

    `environ` fills `${VAR}`, `${env:VAR}` and `${VAR:-otherwise}`, and `${input:ID}` from
    `CALLSHEET_INPUT_ID`; by default it is the environment of the process. With `skips`, a server that cannot
    be used is left out with a warning, for files that are meant for other clients.

    Raises CallsheetError if the file cannot be read (CFG110), is not JSON (CFG111), has an invalid structure
    (CFG112) or names a variable that is not set (CFG113).
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CallsheetError.single(
            "CFG110",
            f"the MCP configuration {path} cannot be read: {reason or error}",
            help="give the path of a JSON file with a table `mcpServers`",
        ) from error
    return parse_config(Source(str(path), text), path.resolve().parent, environ, skips=skips)


def parse_config(
    source: Source, folder: Path, environ: Mapping[str, str] | None = None, *, skips: bool = False
) -> McpConfigFile:
    """The servers in a text, as `load_config`; relative working directories are resolved against `folder`."""
    return _Reading(source, folder, os.environ if environ is None else environ, skips).file()


def load_configs(paths: list[Path], environ: Mapping[str, str] | None = None) -> tuple[McpServerConfig, ...]:
    """The servers of several files; of two with the same name the first one is used."""
    servers: dict[str, McpServerConfig] = {}
    for path in paths:
        for server in load_config(path, environ).servers:
            servers.setdefault(server.name, server)
    return tuple(servers.values())


_VARIABLE = lazy.pattern(r"\$\{([^{}]*)\}")


class _Reading:
    """Reads one file: holds the source and environment, and collects warnings."""

    def __init__(self, source: Source, folder: Path, environ: Mapping[str, str], skips: bool) -> None:
        self.source = source
        self.folder = folder
        self.environ = environ
        self.skips = skips
        self.warnings: list[Diagnostic] = []
        self.skipped: list[str] = []

    def wrong(self, span: Span, message: str, help: str | None = None) -> NoReturn:  # noqa: A002
        fail(self.source, "CFG112", span, message, help)

    def file(self) -> McpConfigFile:
        root = parse(self.source)
        top = self.table(root, "the configuration")
        tables = [t for t in _TABLES if t in top]
        if not tables:
            suggestions = [k for k in top if did_you_mean(k, _TABLES)]
            span = (
                cast("Span", top[suggestions[0]].key)
                if suggestions
                else Span(root.span.start, root.span.start + 1)
            )
            self.wrong(span, "the table of servers is missing", 'it is called "mcpServers"')
        by_name: dict[str, McpServerConfig | None] = {}
        for table in tables:
            for name, node in self.table(top[table], f'"{table}"').items():
                if name in by_name:
                    self.wrong(cast("Span", node.key), f"the server {name!r} is in both tables")
                by_name[name] = self.server_or_skip(name, node)
        servers = tuple(s for s in by_name.values() if s is not None)
        return McpConfigFile(self.source, servers, tuple(self.warnings), tuple(self.skipped))

    def server_or_skip(self, name: str, node: Node) -> McpServerConfig | None:
        """The server; None for one that is disabled, or that is skipped because it cannot be used."""
        try:
            return self.server(name, node)
        except CallsheetError as error:
            if not self.skips:
                raise
            self.skipped.append(name)
            self.warnings += (
                replace(d, severity=Severity.WARNING, message=f"the server {name!r} is skipped: {d.message}")
                for d in error.diagnostics
            )
            return None

    def server(self, name: str, node: Node) -> McpServerConfig | None:
        entry = self.table(node, f"the server {name!r}")
        if not name.strip():
            self.wrong(cast("Span", node.key), "a server needs a name")
        self.known(entry, _KNOWN, _OTHERS)
        if self.get(entry, "disabled", bool, False) or not self.get(entry, "enabled", bool, True):
            return None
        transport = self.transport(name, entry, node)
        extension = self.table(entry["callsheet"], '"callsheet"') if "callsheet" in entry else {}
        self.known(extension, _EXTENSION, frozenset())
        if "oauth" in extension:
            transport = self.with_oauth(transport, extension["oauth"])
        effects = self.table(extension["effects"], '"effects"') if "effects" in extension else {}
        rules = {tool: self.rule(tool, value) for tool, value in effects.items()}
        timeout = extension.get("timeout", entry.get("timeout"))
        return McpServerConfig(
            name=name,
            transport=transport,
            effects={tool: effect for tool, (effect, _) in rules.items() if effect is not None},
            trusted=self.get(extension, "trusted", bool, False),
            timeout=self.seconds(timeout) if timeout is not None else DEFAULT_TIMEOUT,
            origin=self.source.name,
            rules={tool: rule for tool, (_, rule) in rules.items() if rule != ToolRule()},
            max_concurrent=self.at_once(extension),
            protocol=self.word(Protocol, "protocol", extension["protocol"])
            if "protocol" in extension
            else None,
        )

    def with_oauth(self, transport: StdioServer | HttpServer, node: Node) -> HttpServer:
        """The transport with the rules in "oauth"."""
        entry = self.table(node, '"oauth"')
        self.known(entry, _OAUTH, frozenset())
        if not isinstance(transport, HttpServer):
            self.wrong(node.span, "a server that is started by a command has no login", "remove it")
        if any(name.lower() == "authorization" for name in transport.headers):
            self.wrong(
                node.span, "the header Authorization and a login cannot be combined", "remove one of them"
            )
        texts = {key: self.text(entry[key], key) for key in _OAUTH[1:-1] if key in entry}
        grant = self.word(Grant, "grant", entry["grant"]) if "grant" in entry else Grant.LOGIN
        rules = OAuthRules(grant=grant, redirect_port=self.port(entry), **texts)
        secret = rules.client_secret
        if secret and not re.match(r"(?:env|file):.", secret):
            hint = '"env:VARIABLE" or "file:PATH": a secret must not be written in this file'
            self.wrong(entry["client_secret"].span, "a client secret must not be written here", hint)
        if rules.grant is Grant.CLIENT_CREDENTIALS and not secret:
            self.wrong(
                node.span,
                "client credentials are a client_id and a client_secret",
                '"client_secret": "env:…"',
            )
        if secret and not (rules.client_id and rules.issuer):
            hint = '"issuer": "https://…", as its metadata names it'
            self.wrong(
                node.span,
                "a client secret needs its client_id, and the issuer that it may be sent to",
                hint,
            )
        for key in ("issuer", "client_metadata_url"):
            if key in entry and not (
                texts[key].startswith("https://") or (key == "issuer" and is_safe(texts[key]))
            ):
                self.wrong(entry[key].span, f'"{key}" must be an address that starts with https://')
        return replace(transport, oauth=rules)

    def port(self, entry: dict[str, Node]) -> int:
        """The port to which logins are redirected, 0 for any."""
        if "redirect_port" not in entry:
            return 0
        value = entry["redirect_port"].value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65_536:
            self.wrong(entry["redirect_port"].span, '"redirect_port" must be a number from 1 to 65535')
        return value

    def rule(self, tool: str, node: Node) -> tuple[Effect | None, ToolRule]:
        """The entry of a tool in "effects": an effect, or an object with more rules."""
        if not isinstance(node.value, dict):
            effect = self.word(Effect, "effect", node)
            entry: dict[str, Node] = {}
        else:
            entry = node.value
            self.known(entry, _RULE, frozenset())
            effect = self.word(Effect, "effect", entry["effect"]) if "effect" in entry else None
        probe = self.probe(entry["probe"]) if "probe" in entry else None
        key_argument = self.get(entry, "key_argument", str, None)
        if (probe is not None) != (effect is Effect.PROBE):
            message = f"the effect probe and the tool that probes belong together, for {tool!r}"
            self.wrong(node.span, message, '{"effect": "probe", "probe": "TOOL"}')
        if key_argument is not None and effect not in (Effect.KEYED, Effect.PROBE):
            self.wrong(entry["key_argument"].span, "an idempotency key needs the effect keyed (or probe)")
        policy = self.word(OnInDoubt, "policy", entry["on_in_doubt"]) if "on_in_doubt" in entry else None
        does = self.word(ToolClass, "class", entry["does"]) if "does" in entry else None
        told = self.get(entry, "to", str, None)
        undo = self.inverse(entry["undo"]) if "undo" in entry else None
        order = self.independence(entry)
        return effect, ToolRule(key_argument, probe, policy, self.at_once(entry), does, told, undo, order)

    def independence(self, entry: dict[str, Node]) -> Independence:
        """What is declared of the order of a tool's calls."""
        commutes, node = self.get(entry, "commutes", bool, False), entry.get("resource")
        if node is None:
            return Independence(commutes)
        if commutes:
            self.wrong(node.span, "a tool that commutes has no resource", "declare one of them")
        names = [node] if isinstance(node.value, str) else self.items(node, "resource")
        return Independence(resource=tuple(self.text(one, "resource") for one in names))

    def inverse(self, node: Node) -> Inverse:
        try:
            return read_inverse(self.text(node, "undo"))
        except NotAnInverse as error:
            self.wrong(node.span, f"this undoes nothing: {error}")

    def probe(self, node: Node) -> ToolProbe:
        if isinstance(node.value, str):
            return ToolProbe(node.value)
        entry = self.table(node, '"probe"')
        self.known(entry, _PROBE, frozenset())
        if "plan" in entry:
            if len(entry) > 1:
                self.wrong(node.span, "a plan that probes needs nothing beside it", '{"plan": "FILE.ltp"}')
            return ToolProbe("", plan=self.probing_plan(entry["plan"]))
        if "tool" not in entry:
            self.wrong(node.span, "a probe names the tool that probes, or a plan", '{"tool": "TOOL"}')
        names = entry.get("arguments")
        arguments = (
            tuple(self.text(n, "arguments") for n in self.items(names, "arguments")) if names else None
        )
        key_argument = self.get(entry, "key_argument", str, None)
        return ToolProbe(
            self.get(entry, "tool", str, ""), arguments, key_argument, self.condition(entry, node)
        )

    def condition(self, entry: dict[str, Node], node: Node) -> Condition | None:
        """The condition on the answer of a probing tool; None for one that says itself what happened."""
        if "happened" not in entry:
            if "value" in entry:
                self.wrong(node.span, 'the "value" of a probe needs the condition "happened"')
            return None
        value = self.text(entry["value"], "value") if "value" in entry else None
        try:
            return read_condition(self.text(entry["happened"], "happened"), value)
        except NotAReconciler as error:
            self.wrong(entry["happened"].span, str(error))

    def probing_plan(self, node: Node) -> ByPlan:
        try:
            return read_plan(self.text(node, "plan"), self.folder)
        except NotAReconciler as error:
            self.wrong(node.span, str(error))

    def transport(self, name: str, entry: dict[str, Node], node: Node) -> StdioServer | HttpServer:
        kind_key = next((k for k in ("type", "transport") if k in entry), None)
        kind = self.get(entry, kind_key, str, "") if kind_key else ""
        url_key = next((k for k in ("url", "serverUrl", "httpUrl") if k in entry), None)
        if kind_key and kind not in {"stdio", "sse", *_HTTP_TYPES}:
            self.wrong(
                entry[kind_key].span, f"there is no transport {kind!r}", 'one of "stdio", "http", "sse"'
            )
        if "command" in entry and url_key is None and kind in ("", "stdio"):
            return StdioServer(
                command=self.text(entry["command"], "command"),
                args=tuple(self.text(a, "args") for a in self.items(entry.get("args"), "args")),
                env={k: self.text(v, "env") for k, v in self.table(entry.get("env"), '"env"').items()},
                cwd=self.folder / Path(self.text(entry["cwd"], "cwd")).expanduser()
                if "cwd" in entry
                else None,
            )
        if url_key is not None and "command" not in entry and kind != "stdio":
            url = self.text(entry[url_key], url_key)
            try:
                server_host(url)
            except ValueError as error:
                self.wrong(entry[url_key].span, f"this is not the address of a server: {error}")
            headers = {
                k: self.text(v, "headers") for k, v in self.table(entry.get("headers"), '"headers"').items()
            }
            if headers and not is_safe(url):
                message = f"headers of the server {name!r} are sent unencrypted: its url is http://"
                hint = "use https://, or remove the headers"
                span = entry["headers"].key or entry["headers"].span
                self.warnings.append(Diagnostic("TOL026", Severity.WARNING, message, span, hint))
            return HttpServer(url, headers, sse=kind == "sse")
        self.wrong(
            cast("Span", node.key),
            f"the server {name!r} needs either a command or a url"
            + (f" that fits its type {kind!r}" if kind else ""),
            '{"command": "…", "args": […]} starts one, {"url": "https://…"} reaches one',
        )

    # ------------------------------------------------------------ values

    def table(self, node: Node | None, what: str) -> dict[str, Node]:
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self.wrong(node.span, f"{what} must be an object {{…}}")
        return node.value

    def items(self, node: Node | None, what: str) -> list[Node]:
        if node is None:
            return []
        if not isinstance(node.value, list):
            self.wrong(node.span, f'"{what}" must be a list […]')
        return node.value

    def get(self, entry: dict[str, Node], key: str, kind: type[Any], otherwise: Any) -> Any:
        if key not in entry:
            return otherwise
        if not isinstance(entry[key].value, kind):
            self.wrong(entry[key].span, f'"{key}" must be {"true or false" if kind is bool else "a text"}')
        return entry[key].value

    def seconds(self, node: Node) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            self.wrong(node.span, '"timeout" must be a number of seconds above 0')
        return float(value)

    def at_once(self, entry: dict[str, Node]) -> int | None:
        """How many calls may run at once, None if not given."""
        node = entry.get("max_concurrent")
        if node is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, int) or node.value < 1:
            self.wrong(node.span, '"max_concurrent" must be a whole number of at least 1')
        return node.value

    def word(self, kind: type[_Word], what: str, node: Node) -> _Word:
        known = [str(word) for word in kind]
        if node.value not in known:
            suggestions = did_you_mean(str(node.value), known)
            self.wrong(
                node.span,
                f"there is no {what} {node.data()!r}",
                f"did you mean {' or '.join(suggestions)}?" if suggestions else f"one of {', '.join(known)}",
            )
        return kind(node.value)

    def known(self, entry: dict[str, Node], known: tuple[str, ...], others: frozenset[str]) -> None:
        """An unknown key that resembles a known one is an error, any other unknown key a warning."""
        for key, node in entry.items():
            if key in known or key in others:
                continue
            suggestions = did_you_mean(key, known, 1)
            if suggestions and suggestions[0] not in entry:
                self.wrong(
                    cast("Span", node.key),
                    f"there is no key {key!r} here",
                    f"did you mean {suggestions[0]!r}?",
                )
            message = f"the key {key!r} is not known to callsheet and is ignored"
            self.warnings.append(Diagnostic("CFG112", Severity.WARNING, message, node.key))

    def text(self, node: Node, what: str) -> str:
        value = node.value
        if what in ("env", "args") and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            self.wrong(
                node.span,
                f'"{what}" must be a text' if what in _KNOWN[:1] else f'"{what}" must contain texts',
            )
        return _VARIABLE.sub(lambda m: self.variable(m[1], node), value)

    def variable(self, name: str, node: Node) -> str:
        """The value of `${name}`."""
        place = _places().get(name)
        if place is not None:
            return place
        name, _, otherwise = name.removeprefix("env:").partition(":-")
        if name.startswith("input:"):
            variable, asks = _input_variable(name), "asks a person, which only an editor supports"
        else:
            variable, asks = name, None
        if variable in self.environ:
            return self.environ[variable]
        if _:
            return otherwise
        if asks is not None:
            message, hint = f"${{{name}}} {asks}", f"set the environment variable {variable} before the start"
        else:
            message = f"the environment variable {name} is not set"
            hint = f"set {name} before the start, or write ${{{name}:-otherwise}}"
        fail(self.source, "CFG113", node.span, message, hint)


def _places() -> dict[str, str]:
    """The placeholders of editors that are known without one."""
    here = Path.cwd()
    return {
        "workspaceFolder": str(here),
        "workspaceFolderBasename": here.name,
        "cwd": str(here),
        "userHome": str(Path.home()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }


def _input_variable(name: str) -> str:
    """The environment variable in place of an input: `input:api-key` is `CALLSHEET_INPUT_API_KEY`."""
    return "CALLSHEET_" + re.sub(r"\W", "_", name).upper()
