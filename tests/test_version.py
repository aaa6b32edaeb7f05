"""The version of the package: the one that its metadata has, and all that is published beside it."""

import json
import tomllib
from pathlib import Path

import pytest

import callsheet

ROOT = Path(__file__).resolve().parents[1]


def test_version_equals_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert callsheet.__version__ == project["version"]


@pytest.mark.parametrize(
    "name", ["server.json", "plugins/claude-code/.claude-plugin/plugin.json", "editors/vscode/package.json"]
)
def test_what_is_published_beside_the_package_has_its_version(name: str) -> None:
    described = json.loads((ROOT / name).read_text())
    inner = [each["version"] for each in described.get("packages", ())]

    assert {described["version"], *inner} == {callsheet.__version__.partition(".dev")[0]}
