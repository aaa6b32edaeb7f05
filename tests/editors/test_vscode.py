"""The VS Code extension: its manifest is correct and fits the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from callsheet.apps.lsp import server
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


def test_contributed_commands_are_those_of_client_and_lenses() -> None:
    sources = "".join(path.read_text("utf-8") for path in sorted((FOLDER / "client").glob("*.js")))
    contributes = PACKAGE["contributes"]
    commands = {one["command"] for one in contributes["commands"]}
    assert commands == {*re.findall(r'(?:registerCommand|command)\("(callsheet\.\w+)"', sources)}
    assert commands >= {server.RUN, server.DRY_RUN, server.DEBUG, server.TEST}
    menus = [row["command"] for rows in contributes["menus"].values() for row in rows]
    assert commands >= {*menus}
    (view,) = contributes["views"]["callsheet"]
    assert f'registerTreeDataProvider("{view["id"]}"' in sources
    (debugger,) = contributes["debuggers"]
    assert {*debugger["languages"]} < {one["language"] for one in contributes["breakpoints"]}
    assert (FOLDER / PACKAGE["icon"]).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert f"## {PACKAGE['version']}" in (FOLDER / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_client_is_valid_program() -> None:
    for source in (*sorted((FOLDER / "client").glob("*.js")), FOLDER / "build.js"):
        done = subprocess.run(
            ["node", "--check", source], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    not (FOLDER / "node_modules").is_dir(), reason="run npm install in editors/vscode to build the extension"
)
def test_package_is_small_and_has_licences_of_libraries() -> None:
    done = subprocess.run(["npm", "run", "package"], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = FOLDER.glob("*.vsix")
    assert (FOLDER / "dist" / "extension.js").stat().st_size < 300_000
    assert package.stat().st_size < 100_000
    with ZipFile(package) as held:
        notices = held.read("extension/dist/LICENSES.txt").decode()
    assert "vscode-languageclient 9" in notices
    assert "Permission is hereby granted" in notices
