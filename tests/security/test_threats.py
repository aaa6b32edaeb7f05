"""`docs/security.md`: each threat has its line, and the tests named there exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
TESTED = (
    "YAML alias bomb",
    "YAML surprises",
    "JSON bombs",
    "data in prompts that acts as an instruction",
    "LCTL documents that mislead",
    "parser blow-up",
    "ReDoS in forbidden patterns",
    "path traversal in ids, names and artefacts",
    "template injection by tool output",
    "an answer that sends data out as it is shown, or an error that quotes it",
    "secrets in logs and traces",
    "API without authentication",
    "DNS rebinding, Origin",
    "CSRF on the local interface",
    "a client of `callsheet mcp`, or the model behind it, that wants more than the operator allows",
    "MCP tool poisoning, rug pull",
    "a plan that changes the configuration of the next run",
    "confused deputy, token passthrough, SSRF in OAuth, session theft",
    "SSRF in `@FETCH_PAGE`",
    "SSRF by tools of servers",
    "unbounded loops, output, fan-out",
    "a client of `callsheet mcp`, or the model behind it, that wants more than the operator allows",
    "journal tampering",
    "durability under crash",
)


def rows() -> dict[str, tuple[str, str]]:
    """The table of threats: the defence and the names of tests, by threat."""
    table = PAGE.partition("\n## Threats and tests\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return {name.strip(): (done.strip(), tests) for name, done, tests in cells[1:]}


ROWS = rows()


def test_every_threat_has_row() -> None:
    assert set(ROWS) == set(TESTED)


@pytest.mark.parametrize("threat", TESTED)
def test_named_tests_exist(threat: str) -> None:
    done, named = ROWS[threat]
    tests = re.findall(r"`(tests/[^`]+)`", named)
    assert done
    assert tests
    for test in tests:
        file, _, function = test.partition("::")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = [
            name for name in functions if name == function or (not function and name.startswith("test_"))
        ]
        assert found, test


def test_ports_are_opened_only_in_known_modules() -> None:
    opens = re.compile(
        r"\b(?:start_server|start_unix_server|create_server|HTTPServer|uvicorn|\.listen\(\d|\.bind\(\()"
    )
    package = ROOT / "src" / "callsheet"
    pure = package / "policy"  # it names programs that open ports; what it imports is checked elsewhere
    files = sorted(file for file in package.rglob("*.py") if pure not in file.parents)
    assert [str(f.relative_to(package)) for f in files if opens.search(f.read_text("utf-8"))] == [
        "apps/cli/servers.py",
        "apps/head_timeout.py",
        "apps/http/serving.py",
        "apps/lsp/server.py",
        "apps/mcp/transports.py",
        "ports/mcp/oauth/authorize.py",
        "testing/mcp_server.py",
    ]


def test_other_paths_named_by_page_exist() -> None:
    rest = PAGE.partition("\n## Threats and tests\n")[2]
    assert [name for name in re.findall(r"`(tests/[\w/.]+)", rest) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["docs/policy.md", "docs/trust.md", "README.md"])
def test_page_is_linked_from_overviews(page: str) -> None:
    assert "security.md)" in (ROOT / page).read_text("utf-8")
