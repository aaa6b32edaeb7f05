"""The configuration of servers: files of clients are accepted, errors have their positions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError, Severity, Source, render_all
from callsheet.ir import Effect
from callsheet.ir.operations import Independence
from callsheet.ports.mcp import (
    Grant,
    HttpServer,
    OAuthRules,
    StdioServer,
    discover,
    load_config,
    load_configs,
    parse_config,
)
from callsheet.ports.mcp.config import parse
from callsheet.ports.mcp.declarations import pin_of, qualified_name, spec_of
from callsheet.ports.mcp.discovery import places

HOME = Path("/project")


def read(text, **environ):
    return parse_config(Source("mcp.json", text), HOME, environ)


def error(text, **environ):
    with pytest.raises(CallsheetError) as caught:
        read(text, **environ)
    return render_all(caught.value.diagnostics, caught.value.source)


def one(entry, **environ):
    return read(f'{{"mcpServers": {{"s": {entry}}}}}', **environ).servers[0]


def test_server_has_command_or_url():
    started = one('{"command": "srv", "args": ["-v", 3], "env": {"A": "1", "PORT": 80}, "cwd": "sub"}')
    assert started.transport == StdioServer("srv", ("-v", "3"), {"A": "1", "PORT": "80"}, HOME / "sub")
    for kind in ("http", "streamable-http", "streamableHttp"):
        reached = one(f'{{"type": "{kind}", "url": "https://h/mcp", "headers": {{"X": "y"}}}}')
        assert reached.transport == HttpServer("https://h/mcp", {"X": "y"})
    assert one('{"type": "sse", "url": "http://h/sse"}').transport == HttpServer("http://h/sse", sse=True)


def test_editor_table_with_comments_is_read():
    text = (
        '{\n  // mine\n  "inputs": [],\n  "servers": {"a": {"type": "stdio", "command": "x",}, /* b */ },\n}'
    )
    assert [s.name for s in read(text).servers] == ["a"]


def test_servers_of_both_tables_are_read():
    text = '{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}'
    assert [s.name for s in read(text).servers] == ["a", "b"]
    assert "is in both tables" in error(text.replace('"b"', '"a"'))


def test_operator_settings_are_read():
    server = one(
        '{"command": "x", "timeout": 5,'
        ' "callsheet": {"effects": {"look": "read"}, "trusted": true, "timeout": 9.5}}'
    )
    assert (server.effects, server.trusted, server.timeout) == ({"look": Effect.READ}, True, 9.5)
    plain = one('{"command": "x"}')
    assert (plain.effects, plain.trusted, plain.timeout) == ({}, False, 60.0)


def test_environment_variables_are_expanded():
    server = one(
        '{"command": "${BIN}/srv", "args": ["${env:A}-${B:-b}", "$A", "${C:-}"], "env": {"T": "${A}"}}',
        BIN="/b",
        A="a",
    )
    assert server.transport == StdioServer("/b/srv", ("a-b", "$A", ""), {"T": "a"})


def test_unset_variable_is_error_with_position():
    shown = error('{"mcpServers": {"s": {"url": "https://h", "headers": {"A": "Bearer ${TOKEN}"}}}}')
    assert shown.startswith("mcp.json:1:60: error CFG113: the environment variable TOKEN is not set")
    asked = error('{"servers": {"s": {"command": "x", "env": {"K": "${input:api-key}"}}}}')
    assert "${input:api-key} asks a person" in asked
    assert "set the environment variable CALLSHEET_INPUT_API_KEY before the start" in asked


def test_input_is_read_from_its_variable():
    server = one('{"command": "x", "env": {"K": "${input:api-key}"}}', CALLSHEET_INPUT_API_KEY="k")
    assert server.transport == StdioServer("x", (), {"K": "k"})


def test_placeholders_of_editors_are_filled_in(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    server = one('{"command": "${workspaceFolder}${/}x", "args": ["${workspaceFolderBasename}", "${cwd}"]}')
    assert server.transport == StdioServer(f"{tmp_path}{os.sep}x", (tmp_path.name, str(tmp_path)), {})


@pytest.mark.parametrize(
    "broken",
    ['{"command": "x", "args": ["${input:key}"]}', '{"url": "https://h/${NO}"}', '{"args": []}', "7"],
)
def test_only_server_that_cannot_be_used_is_skipped_in_files_of_other_clients(broken):
    source = Source("mcp.json", f'{{"servers": {{"bad": {broken}, "good": {{"command": "y"}}}}}}')
    file = parse_config(source, Path(), {}, skips=True)
    assert [server.name for server in file.servers] == ["good"]
    (warning,) = file.warnings
    assert warning.severity is Severity.WARNING
    assert warning.message.startswith("the server 'bad' is skipped: ")


def test_disabled_server_is_skipped_completely():
    text = '{"mcpServers": {"a": {"command": "${NO}", "disabled": true}, "b": {"command": "b"}}}'
    assert [s.name for s in read(text).servers] == ["b"]


def test_keys_of_other_clients_are_ignored_and_unknown_ones_are_warnings():
    file = read('{"mcpServers": {"a": {"command": "b", "autoApprove": [], "description": "d", "zzz": 1}}}')
    (warning,) = file.warnings
    assert (warning.code, warning.message) == (
        "CFG112",
        "the key 'zzz' is not known to callsheet and is ignored",
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"mcpServers": {"a": {"comand": "b"}}}', "1:23", "there is no key 'comand' here"),
        ('{"mcpServer": {}}', "1:2", "the table of servers is missing"),
        ("{}", "1:1", "the table of servers is missing"),
        ("[]", "1:1", "the configuration must be an object"),
        ('{"mcpServers": []}', "1:16", '"mcpServers" must be an object'),
        ('{"mcpServers": {"a": 3}}', "1:22", "the server 'a' must be an object"),
        ('{"mcpServers": {"a": {}}}', "1:17", "needs either a command or a url"),
        ('{"mcpServers": {"a": {"command": "b", "url": "http://x"}}}', "1:17", "needs either"),
        ('{"mcpServers": {"a": {"type": "http", "command": "b"}}}', "1:17", "that fits its type 'http'"),
        ('{"mcpServers": {"a": {"type": "smtp", "url": "http://x"}}}', "1:31", "no transport 'smtp'"),
        ('{"mcpServers": {"a": {"url": "x.example/mcp"}}}', "1:30", "it must start with http"),
        ('{"mcpServers": {"a": {"command": ["b"]}}}', "1:34", '"command" must be a text'),
        ('{"mcpServers": {"a": {"command": "b", "args": "-v"}}}', "1:47", '"args" must be a list'),
        ('{"mcpServers": {"a": {"command": "b", "args": [null]}}}', "1:48", '"args" must contain texts'),
        ('{"mcpServers": {"a": {"command": "b", "env": {"A": true}}}}', "1:52", '"env" must contain texts'),
        ('{"mcpServers": {"a": {"command": "b", "timeout": 0}}}', "1:50", "a number of seconds above 0"),
        ('{"mcpServers": {"a": {"command": "b", "timeout": true}}}', "1:50", "a number of seconds"),
        (
            '{"mcpServers": {"a": {"command": "b", "disabled": "no"}}}',
            "1:51",
            '"disabled" must be true or false',
        ),
        (
            '{"mcpServers": {"a": {"command": "b", "callsheet": {"effects": {"t": "raed"}}}}}',
            "1:70",
            "no effect 'raed'",
        ),
        (
            '{"mcpServers": {"a": {"command": "b", "callsheet": {"effects": {"t": []}}}}}',
            "1:70",
            "no effect []",
        ),
        (
            '{"mcpServers": {"a": {"command": "b", "callsheet": {"trust": true}}}}',
            "1:53",
            "there is no key 'trust'",
        ),
        ('{"mcpServers": {" ": {"command": "b"}}}', "1:17", "a server needs a name"),
        ('{"mcpServers": {"a": {"url": "http://a.example:90401/mcp"}}}', "1:30", "Port out of range"),
        ('{"mcpServers": {"a": {"url": "http://[::1/mcp"}}}', "1:30", "cannot be read"),
        ('{"mcpServers": {"a": {"url": "http://a b/mcp"}}}', "1:30", "it must not contain spaces"),
    ],
)
def test_wrong_shape_is_error_with_position(text, place, words):
    shown = error(text)
    assert shown.startswith(f"mcp.json:{place}: error CFG112: ")
    assert words in shown


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "the text ends where a value is expected"),
        ('{"a": }', "1:7", "a value is expected here"),
        ('{"a" 1}', "1:6", "a colon is expected here"),
        ('{"a": 1 "b": 2}', "1:9", "a comma or '}' is expected here"),
        ('{\n"a": [1, 2', "2:11", "the text ends inside the '[' of line 2"),
        ("{'a': 1}", "1:2", "a key is expected here"),
        ("{\"a\": 'x'}", "1:7", "a string needs double quotes"),
        ('{"a": 1, "a": 2}', "1:10", "the key 'a' is repeated here"),
        ('{"a": 1} x', "1:10", "there is more text after the end"),
        ('{"a": "x', "1:7", "unterminated string"),
        ('{"a": "\n"}', "1:8", "invalid control character"),
        ("[" * 100, "1:34", "nested too deep"),
        ("1" * 400, "1:1", "this number is too long"),
    ],
)
def test_invalid_json_is_error_with_position(text, place, words):
    with pytest.raises(CallsheetError) as caught:
        parse(Source("c.json", text))
    shown = render_all(caught.value.diagnostics, caught.value.source)
    assert shown.startswith(f"c.json:{place}: error CFG111: ")
    assert words in shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_json_is_read_as_standard_library_reads_it(value, indent):
    import json

    text = json.dumps(value, indent=indent)
    assert parse(Source("c.json", text)).data() == json.loads(text)


def test_unreadable_file_is_reported(tmp_path):
    with pytest.raises(CallsheetError, match="CFG110"):
        load_config(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"\xe4"')
    with pytest.raises(CallsheetError, match="not UTF-8"):
        load_config(tmp_path / "latin.json")


def test_first_file_naming_server_takes_precedence(tmp_path):
    for name, command in (("1.json", "first"), ("2.json", "second")):
        (tmp_path / name).write_text(
            f'{{"mcpServers": {{"s": {{"command": "{command}"}}, "{command}": {{"url": "http://h"}}}}}}'
        )
    servers = load_configs([tmp_path / "1.json", tmp_path / "2.json"])
    assert [s.name for s in servers] == ["s", "first", "second"]
    assert servers[0].transport == StdioServer("first")
    assert servers[0].origin == str(tmp_path / "1.json")


def test_configurations_are_found_at_conventional_places(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    expected = places(tmp_path, environ)
    for path in expected:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert discover(tmp_path, environ) == expected
    assert len(expected) == 6
    assert expected[0] == tmp_path / ".mcp.json"
    assert expected[-1].name == "claude_desktop_config.json"
    expected[0].unlink()
    assert discover(tmp_path, environ) == expected[1:]
    assert discover(tmp_path, {"CALLSHEET_MCP_CONFIG": "a.json:b.json"}) == [Path("a.json"), Path("b.json")]
    assert discover(tmp_path, {"CALLSHEET_MCP_CONFIG": ""}) == []


def test_secrets_are_not_shown():
    started = one('{"command": "x", "env": {"K": "hunter2"}}')
    reached = one('{"url": "https://h", "headers": {"A": "hunter2"}}')
    assert "hunter2" not in repr((started, reached))


def test_reading_configuration_does_not_import_sdk():
    code = (
        "import sys\nfrom callsheet.ports.mcp import McpPool, load_config, discover\n"
        "assert not {'mcp', 'pydantic', 'anyio', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- declarations

PLAIN, TRUSTED = one('{"command": "x"}'), one('{"command": "x", "callsheet": {"trusted": true}}')


@pytest.mark.parametrize(
    ("hints", "untrusted", "trusted"),
    [
        ({}, Effect.UNSAFE, Effect.UNSAFE),
        ({"readOnlyHint": True}, Effect.UNSAFE, Effect.READ),
        ({"idempotentHint": True}, Effect.UNSAFE, Effect.IDEMPOTENT),
        ({"readOnlyHint": "yes"}, Effect.UNSAFE, Effect.UNSAFE),
        ({"destructiveHint": False}, Effect.UNSAFE, Effect.UNSAFE),
    ],
)
def test_hints_count_only_for_trusted_servers(hints, untrusted, trusted):
    assert spec_of(PLAIN, {"name": "t", "annotations": hints}).effect is untrusted
    assert spec_of(TRUSTED, {"name": "t", "annotations": hints}).effect is trusted


def test_operator_setting_overrides_hints():
    told = one('{"command": "x", "callsheet": {"trusted": true, "effects": {"t": "unsafe", "u": "pure"}}}')
    assert spec_of(told, {"name": "t", "annotations": {"readOnlyHint": True}}).effect is Effect.UNSAFE
    assert spec_of(told, {"name": "u", "annotations": {"destructiveHint": True}}).effect is Effect.PURE


DECLARATIONS = st.dictionaries(st.text(max_size=4), JSON, max_size=5)


@given(DECLARATIONS, st.randoms())
def test_pin_ignores_key_order(declaration, random):
    def shuffled(value):
        if isinstance(value, list):
            return [shuffled(v) for v in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {k: shuffled(value[k]) for k in keys}

    assert pin_of(shuffled(declaration)) == pin_of(declaration)


@pytest.mark.parametrize(
    "change",
    [{"description": "A."}, {"description": "a.\u200b"}, {"inputSchema": {"type": "object", "x": 1}},
     {"annotations": {"readOnlyHint": True}}, {"_meta": {"a": 1}}],
)  # fmt: skip
def test_pin_covers_every_change(change):
    base = {"name": "t", "description": "a.", "inputSchema": {"type": "object"}}
    assert pin_of(base | change) != pin_of(base)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("git-log", "GIT_LOG"),
        ("select", "S__SELECT"),
        ("respond", "S__RESPOND"),
        ("2fa", "S__2FA"),
        ("ü", "S___"),
    ],
)
def test_name_unwritable_in_plans_has_qualified_name(given_name, name):
    spec = spec_of(PLAIN, {"name": given_name, "inputSchema": {}})
    assert (spec.name, spec.executor, spec.origin) == (name, given_name, "mcp:s")
    assert qualified_name("9-lives", "a") == "MCP_9_LIVES__A"


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("http://wiki.lan/mcp", True),
        ("http://127.0.0.1.evil.example/mcp", True),
        ("http://[2001:db8::1]/mcp", True),
        ("https://wiki.lan/mcp", False),
        ("http://localhost:8080/mcp", False),
        ("http://127.0.0.7/mcp", False),
        ("http://[::1]/mcp", False),
    ],
)
def test_unencrypted_headers_are_reported(url: str, is_told: bool) -> None:
    text = json.dumps({"mcpServers": {"wiki": {"url": url, "headers": {"Authorization": "Bearer x"}}}})
    (*found,) = parse_config(Source("mcp.json", text), Path()).warnings
    assert [d.code for d in found] == (["TOL026"] if is_told else [])
    assert all("Bearer" not in d.message for d in found)
    bare = parse_config(Source("mcp.json", json.dumps({"mcpServers": {"wiki": {"url": url}}})), Path())
    assert bare.warnings == ()


def oauth(**entry):
    return json.dumps({"url": "https://h/mcp", "callsheet": {"oauth": entry}})


def test_login_settings_are_read():
    assert one('{"url": "https://h/mcp"}').transport.oauth == OAuthRules()
    machine = {"client_id": "us", "client_secret": "env:OURS", "issuer": "https://auth.example"}
    rules = one(
        oauth(grant="client_credentials", scope="read", redirect_port=8123, **machine)
    ).transport.oauth
    assert rules == OAuthRules(grant=Grant.CLIENT_CREDENTIALS, scope="read", redirect_port=8123, **machine)
    assert one(oauth(issuer="http://127.0.0.1:1/x")).transport.oauth.issuer == "http://127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (oauth(grant="password"), "there is no grant"),
        (oauth(grant="client_credentials"), "client credentials are"),
        (oauth(client_secret="hunter2"), "a client secret must not be written here"),
        (oauth(client_secret="env:"), "a client secret must not be written here"),
        (oauth(client_secret="env:X", client_id="us"), "needs its client_id, and the issuer"),
        (oauth(issuer="http://auth.example"), "https://"),
        (oauth(client_metadata_url="http://127.0.0.1/x"), "https://"),
        (oauth(redirect_port=70_000), "from 1 to 65535"),
        (oauth(redirect_port=True), "from 1 to 65535"),
        (oauth(clientid="us"), "did you mean 'client_id'"),
        ('{"command": "x", "callsheet": {"oauth": {}}}', "has no login"),
        (
            '{"url": "https://h", "headers": {"authorization": "x"}, "callsheet": {"oauth": {}}}',
            "cannot be combined",
        ),
    ],
)
def test_invalid_login_settings_are_errors_with_position(entry, said):
    shown = error(f'{{"mcpServers": {{"s": {entry}}}}}')
    assert "error CFG112" in shown
    assert said in shown
    assert "mcp.json:1:" in shown
    assert "hunter2 " not in shown


def test_an_inverse_of_a_tool_is_read_and_a_wrong_one_has_its_place() -> None:
    told = one('{"command": "b", "callsheet": {"effects": {"add": {"undo": "drop(id=result.id)"}}}}')
    assert str(told.rules["add"].undo) == "drop(id=result.id)"
    with pytest.raises(CallsheetError, match="CFG112: this undoes nothing: 'drop' is no call"):
        one('{"command": "b", "callsheet": {"effects": {"add": {"undo": "drop"}}}}')


def test_order_of_calls_is_declared_beside_the_effect() -> None:
    def declared(rule: str) -> Independence:
        server = one(f'{{"command": "b", "callsheet": {{"effects": {{"add": {rule}}}}}}}')
        return server.rules["add"].independence

    assert declared('{"effect": "unsafe", "commutes": true}') == Independence(commutes=True)
    assert declared('{"effect": "read", "resource": "id"}') == Independence(resource=("id",))
    assert declared('{"resource": ["repo", "id"]}') == Independence(resource=("repo", "id"))
    for wrong, said in (
        ('{"commutes": 1}', '"commutes" must be true or false'),
        ('{"resource": 1}', '"resource" must'),
        ('{"commutes": true, "resource": "id"}', "a tool that commutes has no resource"),
    ):
        with pytest.raises(CallsheetError, match=f"CFG112: {said}"):
            declared(wrong)


def test_protocol_of_a_server_is_one_of_two():
    server = '{"mcpServers": {"desk": {"command": "desk", "callsheet": {"protocol": "%s"}}}}'
    assert str(read(server % "older").servers[0].protocol) == "older"
    wrong = error(server % "2025-11-25")
    assert "mcp.json:1:71: error CFG112: there is no protocol '2025-11-25'" in wrong
    assert "one of older, newest" in wrong
