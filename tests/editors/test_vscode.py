"""The VS Code extension: its manifest is correct and fits the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from callsheet.apps.lsp.documents import LANGUAGES, syntax_of

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
PACKAGE = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))


def test_languages_match_those_of_server() -> None:
    named = {language["id"]: language for language in PACKAGE["contributes"]["languages"]}
    assert {*named, "python"} == set(LANGUAGES)  # VS Code itself knows Python
    for name, language in named.items():
        assert all(
            syntax_of(Path(f"p{suffix}"), None) == LANGUAGES[name] for suffix in language["extensions"]
        )
    client = (FOLDER / "client" / "extension.js").read_text(encoding="utf-8")
    assert {*re.findall(r'"(ltp|python|callsheet-\w+)"', client)} == set(LANGUAGES)
    patterns = re.findall(r'pattern: "([^"]+)"', client)
    assert PACKAGE["activationEvents"] == [
        *(f"onLanguage:{name}" for name in LANGUAGES),
        *(f"workspaceContains:{pattern}" for pattern in patterns),
    ]


def test_suffixes_of_editor_page_are_registered() -> None:
    page = FOLDER.parents[1].joinpath("docs", "editor.md").read_text(encoding="utf-8")
    client = (FOLDER / "client" / "extension.js").read_text(encoding="utf-8")
    told = {
        suffix
        for _, suffixes in re.findall(r"^\| `(ltp|callsheet-\w+)` \| (.*?) \|", page, re.M)
        for suffix in re.findall(r"`([^`]+)`", suffixes)
    }
    known = {suffix for language in PACKAGE["contributes"]["languages"] for suffix in language["extensions"]}
    assert told - known == {"policy.toml", ".dag.yaml"}
    assert re.findall(r'pattern: "([^"]+)"', client) == ["**/policy.toml", "**/*.dag.{yaml,yml}"]


def test_referenced_files_exist_and_are_valid_json() -> None:
    contributes = PACKAGE["contributes"]
    files = [grammar["path"] for grammar in contributes["grammars"]]
    files += [
        language["configuration"] for language in contributes["languages"] if "configuration" in language
    ]
    for name in files:
        assert json.loads((FOLDER / name).read_text(encoding="utf-8"))
    for grammar in contributes["grammars"]:
        held = json.loads((FOLDER / grammar["path"]).read_text(encoding="utf-8"))
        assert held["scopeName"] == grammar["scopeName"]


def test_untrusted_workspace_starts_no_program() -> None:
    """The started program is a setting, so it must not come from an untrusted folder."""
    settings = PACKAGE["contributes"]["configuration"]["properties"]
    assert PACKAGE["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] == [*settings]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_client_is_valid_program() -> None:
    done = subprocess.run(
        ["node", "--check", "client/extension.js"], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
