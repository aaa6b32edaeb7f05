"""Constraints on an agent's arguments: addresses, paths and texts in any spelling."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import CallsheetError, Source
from callsheet.policy.canon import policy_from_json, policy_hash, policy_to_json
from callsheet.policy.constraints import objection_to
from callsheet.policy.model import AgentRule, Policy
from callsheet.policy.policy_file import read_policy


def fits(tool: str, name: str, pattern: str, value: object) -> bool:
    return objection_to({tool: {name: (pattern,)}}, tool, {name: value}) is None


@pytest.mark.parametrize(
    ("pattern", "address", "is_it"),
    [
        ("https://docs.example/*", "https://docs.example/", True),
        ("https://docs.example/*", "https://DOCS.example:443/a/b?c=d#e", True),
        ("https://docs.example/*", "http://docs.example/", False),
        ("https://docs.example/*", "https://docs.example:8443/", False),
        ("https://docs.example/*", "https://docs.example@evil.example/", False),
        ("https://docs.example/*", "https://evil.example/?https://docs.example/", False),
        ("https://docs.example/*", "https://docs.example.evil.example/", False),
        ("https://docs.example/*", "https://evil.example\\@docs.example/", False),
        ("https://docs.example/*", "//docs.example/", False),
        ("https://docs.example/*", "data:text/html,https://docs.example/", False),
        ("https://docs.example/open/*", "https://docs.example/open/a", True),
        ("https://docs.example/open/*", "https://docs.example/open/../closed", False),
        ("https://docs.example/open/*", "https://docs.example/open/%2e%2e/closed", False),
        ("https://docs.example/open/*", "https://docs.example/open/%252e%252e/closed", False),
        ("https://docs.example/open/*", "https://docs.example/open/..%5cclosed", False),
        ("https://docs.example/a", "https://docs.example/a", True),
        ("https://docs.example/a", "https://docs.example/a?b", False),
        ("https://*.docs.example/*", "https://x.docs.example/", True),
        ("https://*.docs.example/*", "https://docs.example/", False),
        ("https://*.docs.example/*", "https://evil.example/.docs.example/", False),
        ("docs.example", "http://docs.example/x", True),
        ("docs.example", "https://xdocs.example/x", False),
        ("https://b\u00fccher.example/*", "https://xn--bcher-kva.example/", True),
        ("https://strasse.example/*", "https://stra\u00dfe.example/", False),
        ("https://xn--strae-oqa.example/*", "https://xn--strae-oqa.example/", True),
    ],
)
def test_address_is_compared_by_destination(pattern: str, address: str, is_it: bool) -> None:
    assert fits("FETCH_PAGE", "url", pattern, address) is is_it


@pytest.mark.parametrize(
    ("tool", "pattern", "path", "is_it"),
    [
        ("READ_FILE", "docs/**", "docs/a/b.md", True),
        ("READ_FILE", "docs/**", "docs/../keys/a", False),
        ("READ_FILE", "docs/**", "docs/%2e%2e/keys/a", False),
        ("READ_FILE", "docs/*.md", "docs/a/b.md", False),
        ("READ_FILE", "docs/**", "/docs/a", False),
        ("HOST_FILE_READ", "/var/log/**", "/var/log/../../etc/shadow", False),
        ("HOST_FILE_READ", "/var/log/**", "/var/log/syslog", True),
    ],
)
def test_path_is_compared_by_target(tool: str, pattern: str, path: str, is_it: bool) -> None:
    assert fits(tool, "path", pattern, path) is is_it


@pytest.mark.parametrize(
    ("pattern", "value", "is_it"),
    [
        ("5", 5, True),
        ("true", True, True),
        ("a*", ["a1", "a2"], True),
        ("a*", ["a1", "b"], False),
        ("a*", [], False),
        ("a*", {"a": 1}, False),
        ("a.c", "abc", False),
        ("a\nb", "a\nb", True),
    ],
)
def test_other_values_and_list_members_are_compared_as_text(pattern: str, value: object, is_it: bool) -> None:
    assert fits("POST", "text", pattern, value) is is_it


def test_bound_argument_must_be_given_once_in_any_form() -> None:
    bound = {"POST": {"to": ("ada",)}}
    assert objection_to(bound, "POST", {"text": "x"}) == "to must be given, as ada"
    assert objection_to(bound, "post", {"To": "bob"}) == "to must be ada"
    assert objection_to(bound, "POST", {"to": "ada", "TO": "bob"}) is not None
    assert objection_to(bound, "OTHER", {"to": "bob"}) is None


AGENT = """schema = 1
[dynamic]
agent = {{ tools = ["@FETCH_PAGE", "@POST"], arguments = {{ {} }} }}
"""


def read(arguments: str) -> Policy:
    return read_policy(Source("p.toml", AGENT.format(arguments)))


def test_policy_file_binds_arguments_and_journal_keeps_them() -> None:
    policy = read('"@fetch page" = { url = ["https://docs.example/*"] }, "@POST" = { to = ["ada", "bob"] }')
    assert policy.agent is not None
    assert policy.agent.arguments == {
        "FETCH_PAGE": {"url": ("https://docs.example/*",)},
        "POST": {"to": ("ada", "bob")},
    }
    assert policy_from_json(policy_to_json(policy)) == policy


@pytest.mark.parametrize(
    ("arguments", "at", "message"),
    [
        ('"@FETCH_PAGE" = { url = ["docs example"] }', "url", "must be a list of addresses such as"),
        ('"@FETCH_PAGE" = { url = ["https://*/x"] }', "url", "must be a list of addresses such as"),
        ('"@FETCH_PAGE" = { url = "https://docs.example/" }', "url", "must be a list of strings"),
        ('"@FETCH_PAGE" = ["url"]', '"@FETCH_PAGE"', "must be a table of arguments"),
        ('"@PAY" = { to = ["ada"] }', '"@PAY"', "the agent is not given @PAY"),
    ],
)
def test_invalid_binding_is_reported_with_position(arguments: str, at: str, message: str) -> None:
    with pytest.raises(CallsheetError) as caught:
        read(arguments)
    (found,) = caught.value.diagnostics
    assert found.code == "POL003"
    assert message in found.message
    assert found.span is not None
    text = AGENT.format(arguments)
    assert text[found.span.start : found.span.end] == at


def test_policy_without_bound_arguments_keeps_its_hash() -> None:
    told = policy_to_json(Policy(agent=AgentRule(tools=("NOTE",))))
    assert told["agent"] == {"tools": ["NOTE"], "max_turns": 5, "max_calls": 20, "seconds": 600.0}
    assert policy_hash(Policy(agent=AgentRule(tools=("NOTE",)))) == policy_hash(policy_from_json(told))
