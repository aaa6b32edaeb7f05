"""A policy file is accepted as a whole or not at all, and each error has its position."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callsheet.api.policies import SHIPPED, load_policy, policy_source
from callsheet.diagnostics import CODES, CallsheetError, Source, explain
from callsheet.frontends.ltp import parse
from callsheet.ir.labels import Label, read_label
from callsheet.passes.verify import verify
from callsheet.policy.model import Implicit, When
from callsheet.policy.policy_file import read_policy
from callsheet.policy.sources import Sources

EVERYTHING = """
schema = 1
name = "all"

[defaults]
unknown_tool = "ask"
memory = "U/finance"
implicit = "strict"
planner = "T/pub"
allow = ["@SEND_MAIL", "read_file"]
deny = ["@HOST_EXEC"]

[sources]
"file:docs/**" = { conf = "pub", integrity = "T" }
"url:API.internal" = { conf = ["user", "finance"] }
"tool:@LIST" = { conf = "secret" }
memory = { conf = "priv" }

[audience.trusted]
hosts = ["api.internal", "*.corp.example"]
mail = ["*@corp.example"]

[audience.finance]
mail = ["books@corp.example"]

[network]
hosts = ["Example.com"]

[host]
read = ["/var/log/**"]

[execution]
network = true

[tools."@SEND_MAIL"]
egress = true
control = ["to", "cc"]
audience_arg = "to"
destructive = false
approval = "if-untrusted-or-outside"
returns = "T/user+finance"

[tools."mcp:fs/delete"]
control = ["path"]
pin = "sha256:12"
annotations = "ignored"

[dynamic]
agent = { tools = ["@WEB_SEARCH"], max_turns = 3, max_calls = 4, seconds = 5 }
replan = { max = 1, context = "any" }

[secrets]
patterns = ['AKIA[0-9A-Z]{16}']

[budgets]
max_steps = 9
max_calls = 8
max_retries = 7

[[rule]]
tool = "@SEND_MONEY"
when = "args.amount > 100.0"
then = "approve"
"""


def faults(text: str) -> list[tuple[str, int, str]]:
    """The code, the line and the marked text of each error."""
    source = Source("policy.toml", text)
    with pytest.raises(CallsheetError) as caught:
        read_policy(source)
    return [
        (d.code, source.position(d.span.start).line, text[d.span.start : d.span.end])
        if d.span is not None
        else (d.code, 0, "")
        for d in caught.value.diagnostics
    ]


def test_non_table_is_shown_at_its_position() -> None:
    text = (
        'schema = 1\n[tolls."@POST"]\negress = true\n[[rule]]\ntool = "@POST"\nwhen = "true"\nthen = "ask"\n'
    )
    assert faults(text) == [("POL002", 2, 'tolls."@POST"'), ("POL003", 7, "then")]
    with pytest.raises(CallsheetError, match="rule 1: then must be one of approve, refuse"):
        read_policy(Source("policy.toml", text))


def test_every_key_of_format_is_read() -> None:
    policy = read_policy(Source("policy.toml", EVERYTHING))
    assert policy.name == "all"
    assert not policy.refuse_unknown_tools
    assert policy.memory == Label(True, frozenset({"finance"}))
    assert policy.implicit is Implicit.STRICT
    assert policy.allowed_tools == {"SEND_MAIL", "READ_FILE"}
    assert policy.denied_tools == {"HOST_EXEC"}
    assert [(s.kind, s.pattern, str(s.label)) for s in policy.sources] == [
        ("file", "docs/**", "T/pub"),
        ("url", "api.internal", "U/finance+user"),
        ("tool", "LIST", "U/secret"),
        ("memory", "", "U/priv"),
    ]
    assert {a.name for a in policy.audiences} == {"trusted", "finance"}
    assert policy.egress_hosts == ("example.com",)
    assert policy.host_read == ("/var/log/**",)
    assert policy.exec_network
    mail = policy.tools["SEND_MAIL"]
    assert (mail.egress, mail.control, mail.audience_arg, mail.destructive) == (
        True,
        ("to", "cc"),
        "to",
        False,
    )
    assert mail.approval is When.IF_UNTRUSTED_OR_OUTSIDE
    assert mail.returns == read_label("T/user+finance")
    assert policy.tools["mcp:fs/delete"].pin == "sha256:12"
    assert policy.tools["mcp:fs/delete"].destructive, "what is not said is the worst"
    assert policy.agent is not None
    assert (policy.agent.tools, policy.agent.seconds) == (("WEB_SEARCH",), 5.0)
    assert policy.replan is not None
    assert policy.replan.context == "any"
    assert policy.forbidden == ("AKIA[0-9A-Z]{16}",)
    assert (policy.max_steps, policy.max_calls, policy.max_retries) == (9, 8, 7)
    assert [rule.tool for rule in policy.rules] == ["SEND_MONEY"]


def test_all_errors_are_reported_together_with_positions() -> None:
    text = (
        "schema = 1\nscema = 2\n[defaults]\nunknown_tool = 'refus'\n[sources]\n"
        "'file:x' = { conf = 'pub', integrty = 'T' }\n'fle:y' = {}\n"
        "[tools.'@A']\negress = 'yes'\nreturns = 'U/nobody-known'\n[[rule]]\ntool = '@A'\n"
    )
    assert faults(text) == [
        ("POL002", 2, "scema"),
        ("POL003", 4, "unknown_tool"),
        ("POL002", 6, "integrty"),
        ("POL003", 7, "'fle:y'"),
        ("POL003", 9, "egress"),
        ("POL003", 10, "returns"),
        ("POL003", 11, "rule"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "budgets = 3",
        "[budgets]\nmax_steps = -1",
        "[budgets]\nmax_steps = true",
        "[audience.user]\nhosts = []",
        "[audience.Trusted]\nhosts = []",
        "[audience.trusted]\nhosts = ['https://api.internal/']",
        "[audience.trusted]\nhosts = ['*']",
        "[audience.trusted]\nmail = ['corp.example']",
        "[secrets]\npatterns = ['(a)\\1']",
        "[secrets]\npatterns = 'AKIA'",
        "[tools.'@A']\napproval = 'sometimes'",
        "[tools]\n'@A' = {}\n'a' = {}",
        "[tools.'@A']\nannotations = 'trusted'",
        "[dynamic]\nreplan = { context = 'all' }",
        "[[rule]]\ntool = '@A'\nwhen = 'true'\nthen = 'allow'",
        "[defaults]\nmemory = 'private'",
    ],
)
def test_invalid_value_refuses_policy(lines: str) -> None:
    assert {code for code, _, _ in faults(f"schema = 1\n{lines}\n")} == {"POL003"}


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ("[defaults]\nmemory = 'U/private'", "did you mean priv? else write [audience.private]"),
        ("[sources]\n'file:a' = { conf = 'public' }", "did you mean pub? else write [audience.public]"),
        ("[sources]\n'file:a' = { conf = 'secrt' }", "did you mean secret"),
        ("[tools.'@A']\nreturns = 'T/finanse'\n[audience.finance]\nhosts = []", "did you mean finance?"),
        ("[defaults]\nmemory = 'U/lawyers'", "write [audience.lawyers] with its hosts"),
        ("[tools.'@A']\naudience_arg = to", "a string needs quotes"),
        ("[tools.@A]", "a name with @, : or * needs quotes"),
        ("extends = 'workspce'", "did you mean workspace?"),
    ],
)
def test_common_mistakes_have_helpful_hints(lines: str, hint: str) -> None:
    with pytest.raises(CallsheetError) as caught:
        read_policy(Source("policy.toml", f"schema = 1\n{lines}\n"))
    assert (caught.value.diagnostics[0].help or "").startswith(hint)


def test_policy_without_version_is_reported() -> None:
    with pytest.raises(CallsheetError, match=r"the policy ours\.toml has no schema version"):
        read_policy(Source("ours.toml", "name = 'ours'"))


@pytest.mark.parametrize("schema", ["", "schema = 2", "schema = true", "schema = '1'"])
def test_policy_states_its_version(schema: str) -> None:
    assert [code for code, _, _ in faults(f"{schema}\n")] == ["POL004"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_are_valid_and_know_secrets(name: str) -> None:
    policy = load_policy(name)
    assert policy.name == name
    secrets = [s.pattern for s in policy.sources if s.label.is_secret]
    assert ".env" in secrets
    assert "**/id_rsa*" in secrets


def test_extending_policy_sources_take_precedence() -> None:
    strict = load_policy("strict")
    first = next(s for s in strict.sources if s.pattern == "README.md")
    assert str(first.label) == "U/priv"


def test_source_of_a_tool_precedes_that_of_the_extended_policy(tmp_path: Path) -> None:
    source = '[sources]\n"tool:@VAULT" = { conf = "%s", integrity = "U" }\n'
    (tmp_path / "base.toml").write_text(f"schema = 1\n{source % 'pub'}")
    own = tmp_path / "own.toml"
    own.write_text(f'schema = 1\nextends = "base.toml"\n{source % "secret"}')
    assert str(Sources(load_policy(own)).tool("VAULT")) == "U/secret"


def test_file_extends_neighbouring_file(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('schema = 1\nextends = "strict"\n[budgets]\nmax_calls = 3\n')
    own = tmp_path / "own.toml"
    own.write_text('schema = 1\nextends = "base.toml"\n[budgets]\nmax_steps = 4\n')
    policy = load_policy(own)
    assert (policy.max_steps, policy.max_calls, policy.implicit) == (4, 3, Implicit.STRICT)
    assert policy.name == "own", "a policy is not called by what it extends"


def test_policies_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.toml").write_text(f'schema = 1\nextends = "{other}.toml"\n')
    with pytest.raises(CallsheetError, match="POL005"):
        load_policy(tmp_path / "a.toml")


def test_missing_policy_lists_available_ones() -> None:
    with pytest.raises(CallsheetError) as caught:
        load_policy("workspce")
    (found,) = caught.value.diagnostics
    assert found.code == "POL006"
    assert "did you mean workspace" in (found.help or "")


@pytest.mark.parametrize("code", [f"POL00{n}" for n in range(1, 6)])
def test_pages_show_bad_and_good_file(code: str) -> None:
    page = explain(code) or ""
    (bad,) = re.findall(r"^```toml bad\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (good,) = re.findall(r"^```toml good\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert code in {found for found, _, _ in faults(bad)}
    read_policy(Source("policy.toml", good), lambda name: policy_source(name) if name in SHIPPED else None)


def test_documented_file_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (example,) = (each for each in examples if each.startswith("schema"))
    policy = read_policy(Source("policy.toml", example), policy_source)
    assert policy.name == "ours"


def test_documentation_names_every_rule() -> None:
    text = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    assert {code for code in CODES if code.startswith("POL1")} == set(re.findall(r"POL1\d\d", text))


READS = 'S1: @READ_FILE (path="{}") > $a\nS2: @WEB_SEARCH (query=$a) > $b\nS3: @RESPOND ("ok")'


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_refuse_leaks_and_accept_plain_search(name: str) -> None:
    """A secret never leaves; private data only where they do not count; a plain search passes everywhere."""
    policy = load_policy(name)
    plain = parse('S1: @WEB_SEARCH (query="weather") > $a\nS2: @RESPOND ($a)').require()
    assert verify(plain, policy).ok
    assert not verify(parse(READS.format(".env")).require(), policy).ok
    assert verify(parse(READS.format("notes.txt")).require(), policy).ok is (name == "open")


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(
    "path",
    [
        *(".git-credentials", "a/.pgpass", "keys/id_ecdsa", "b/cert.p12", ".gnupg/x", ".kube/config"),
        *(".npmrc", "infra/prod.tfvars", "passwords.txt", "c/service-account.json", ".docker/config.json"),
    ],
)
def test_credential_files_leave_under_no_shipped_policy(name: str, path: str) -> None:
    assert not verify(parse(READS.format(path)).require(), load_policy(name)).ok


@pytest.mark.parametrize(
    ("text", "said"),
    [("a = " + "[" * 9_000, "nested too deeply"), ("a = " + "9" * 5_000, "thousands of digits")],
)
def test_toml_beyond_python_limits_is_policy_error(text: str, said: str) -> None:
    with pytest.raises(CallsheetError, match=f"POL001: .*{said}"):
        read_policy(Source("p.toml", text))


def test_impossible_file_name_is_no_policy() -> None:
    with pytest.raises(CallsheetError, match="POL006: no file can be called"):
        load_policy("a\0b")


@pytest.mark.parametrize(
    "name",
    [
        "@S\u0415ND",
        "@SEND ",
        "@ SEND",
        "@SEND\u200b",
        "@",
        "",
        "\uff20SEND",
        "mcp:mail/s\u0435nd",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        'schema = 1\n[tools."{}"]\negress = true\n',
        'schema = 1\n[defaults]\ndeny = ["{}"]\n',
        'schema = 1\n[defaults]\nallow = ["@LOOK", "{}"]\n',
        'schema = 1\n[sources]\n"tool:{}" = {{ conf = "secret" }}\n',
        'schema = 1\n[dynamic]\nagent = {{ tools = ["{}"] }}\n',
        'schema = 1\n[[rule]]\ntool = "{}"\nwhen = "true"\nthen = "refuse"\n',
    ],
)
def test_impossible_tool_name_is_refused(text: str, name: str) -> None:
    """As a letter that imitates another, by which a limit on a tool would not apply to it."""
    assert [code for code, _, _ in faults(text.format(name))][:1] == ["POL003"]


@pytest.mark.parametrize("name", ["@SEND", "send-mail", "@git.log", "mcp:my server/send mail", "mcp:fs/a/b"])
def test_other_names_are_those_of_their_tools(name: str) -> None:
    assert read_policy(Source("policy.toml", f'schema = 1\n[defaults]\ndeny = ["{name}"]\n')).denied_tools
