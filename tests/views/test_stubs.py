"""Stubs of tools: valid and typed Python whatever a server declares, in an order that does not change."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.ports.mcp.declarations import ToolTerms, plan_name, spec_under
from callsheet.ports.tools import ToolSpec
from callsheet.views.stubs import signature_line, stub_package

ISSUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/Issue"}, {"type": "null"}]},
        "created-at": {"type": "string", "description": "When."},
    },
    "required": ["number", "state"],
}
LABEL = {"type": "object", "properties": {"name": {"type": "string"}, "color": {"type": ["string", "null"]}}}
GITHUB: list[dict[str, Any]] = [
    {
        "name": "list_issues",
        "description": 'Lists issues.\n\nSay "open" or "closed"',
        "inputSchema": {
            "type": "object",
            "properties": {
                "repo": {"type": "string", "description": "owner/name"},
                "state": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                "limit": {"type": "integer", "default": 30},
                "labels": {"type": "array", "items": {"type": "string"}, "default": []},
                "page": {"type": "integer", "default": "first"},
                "since": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["repo"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Issue"}}},
            "$defs": {"Issue": ISSUE, "Label": LABEL},
        },
    },
    {
        "name": "add-label",
        "inputSchema": {
            "properties": {
                "number": {"type": "integer"},
                "from": {"type": "string"},
                "label": {"const": "x"},
            },
            "required": ["number", "label", "from"],
        },
        "outputSchema": LABEL,
    },
    {"name": "late", "inputSchema": {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["b"]}},
]


def specs(server: str, *declarations: dict[str, Any]) -> dict[str, ToolSpec]:
    """The specs of tools as a server declares them."""
    return {plan_name(server, d["name"]): spec_under(server, d, ToolTerms()) for d in declarations}


def test_signature_says_types_defaults_and_which_arguments_have_a_place():
    known = specs("github", *GITHUB)
    assert tuple(signature_line(name, known[name]) for name in sorted(known)) == (
        'async def add_label(*, number: int, label: Literal["x"], **others: Any) -> AddLabelResult',
        "async def late(*, b: Any, a: str = ...) -> Any",
        'async def list_issues(repo: str, state: Literal["open", "closed"] = "open", limit: int = 30,'
        " labels: list[str] = ..., page: int = ..., since: str | None = None) -> list[Issue]",
    )


def test_order_of_stubs_is_that_of_names():
    first, again = specs("github", *GITHUB), specs("github", *reversed(GITHUB))
    assert stub_package(first) == stub_package(again)


USE = """
from tools.github import list_issues, add_label
from typing import assert_type, Literal


async def good() -> None:
    issues = await list_issues("octo/demo", state="open")
    for issue in issues:
        assert_type(issue["number"], int)
        assert_type(issue["state"], Literal["open", "closed"])
        for label in issue.get("labels", []):
            assert_type(label.get("name"), str | None)
    await add_label(number=3, label="x", **{"from": "me"})
"""
MISTAKES = """
from tools.github import list_issues, add_label


async def bad() -> None:
    await list_issues("octo/demo", state="opened")
    await list_issues()
    await list_issues("octo/demo", limit="3")
    await add_label(number=3, label="y")
    print((await list_issues("octo/demo"))[0]["title"])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stubs of two servers."""
    folder = tmp_path_factory.mktemp("project")
    package = folder / "tools"
    package.mkdir()
    odd = {
        "name": "import",
        "inputSchema": {"properties": {"user-id": {"type": "string"}}},
        "outputSchema": ISSUE,
    }
    declared = {**specs("github", *GITHUB), **specs("local", odd), "CLOCK": ToolSpec("CLOCK", "clock")}
    for name, text in stub_package(declared).items():
        (package / name).write_text(text)
    return folder


def test_stubs_are_typed_for_a_checker(project):
    (project / "use.py").write_text(USE)
    (project / "mistakes.py").write_text(MISTAKES)
    (project / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "reportPrivateUsage": false}')
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", str(project)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(ran.stdout)["generalDiagnostics"]
    errors = [(Path(e["file"]).name, e["range"]["start"]["line"] + 1, e["message"]) for e in found]
    assert [*dict.fromkeys(line for file, line, _ in errors if file == "mistakes.py")] == [6, 7, 8, 9, 10], (
        errors
    )
    assert [e for e in errors if e[0] != "mistakes.py"] == []


def test_stubs_can_be_imported_without_callsheet_and_raise_when_called(project):
    code = (
        "import asyncio, tools, tools.github, tools.local, tools.local_2, sys\n"
        "assert 'callsheet' not in sys.modules\n"
        "try:\n    asyncio.run(tools.github.list_issues('a'))\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    alone = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(project)!r})\n{code}")
    ran = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert ran.stdout == "list_issues is a tool: it can be called in a plan, which `callsheet run` runs\n", (
        ran
    )


DEFINITIONS = {
    *(ast.Expr, ast.ImportFrom, ast.Assign, ast.AnnAssign),
    *(ast.ClassDef, ast.AsyncFunctionDef, ast.FunctionDef),
}
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ['"""', '\\"""\nimport os\n"""', "\\", '"', "a\\", "x\u202ey", "'''", "class", "\x00", "#\r\n"]
    ),
)
SCHEMAS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        st.just({}),
        st.booleans(),
        st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "null", "no such type"])}),
        st.fixed_dictionaries({"enum": st.lists(st.one_of(TEXTS, st.integers(), st.floats(), st.none()))}),
        st.fixed_dictionaries({"const": st.one_of(TEXTS, st.booleans(), st.lists(TEXTS))}),
        st.fixed_dictionaries({"type": st.just("array"), "items": SCHEMAS}),
        st.fixed_dictionaries({"anyOf": st.lists(SCHEMAS, max_size=3)}),
        st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "x", "#/$defs/~1"])}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(TEXTS, SCHEMAS, max_size=3), "title": TEXTS, "description": TEXTS},
            optional={"required": st.lists(TEXTS), "default": TEXTS, "additionalProperties": SCHEMAS},
        ),
    )
)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.dictionaries(TEXTS, SCHEMAS, max_size=3), SCHEMAS, SCHEMAS, TEXTS)
def test_stubs_are_definitions_only_whatever_a_server_declares(about, arguments, a, result, server):
    schema = {"properties": arguments, "required": list(arguments)[:1], "$defs": {"A": a, "B": result}}
    output = {"properties": {"x": result, "y": a}, "$defs": {"A": result, "B": a}}
    spec = ToolSpec("T", "t", about, schema, origin=f"mcp:{server}", result=output)
    assert "\n" not in signature_line("T", spec)
    for text in stub_package({"T": spec, "CLASS": spec}).values():
        module = ast.parse(text)
        assert {type(node) for node in module.body} <= DEFINITIONS
        functions = [node for node in module.body if isinstance(node, ast.AsyncFunctionDef)]
        for function in functions:
            assert [type(node) for node in function.body] == [ast.Expr, ast.Raise]
            told = " ".join((ast.get_docstring(function, clean=False) or "").split())
            assert " ".join(about.split()) in told
        if functions:
            names = {"only_in_plans": None, "OMITTED": None}
            body = [node for node in module.body if not (isinstance(node, ast.ImportFrom) and node.level)]
            exec(compile(ast.Module(body, []), "stub", "exec"), names)
