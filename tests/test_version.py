"""The version of the package: the one that its metadata has."""

import tomllib
from pathlib import Path

import callsheet

ROOT = Path(__file__).resolve().parents[1]


def test_version_equals_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert callsheet.__version__ == project["version"]
