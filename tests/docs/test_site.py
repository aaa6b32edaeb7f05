"""The site builds without a warning, and its generated pages match the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.reference.pages import pages
from scripts.reference.search_index import weigh

from callsheet.apps.cli.main import COMMANDS
from callsheet.diagnostics import CODES

ROOT = Path(__file__).parents[2]
UNNAMED = ("apps", "compat", "frontends", "passes", "planning", "sealing", "testing", "trace", "views")
"""Packages that export no name of `callsheet`: reading them costs a quarter of the build and adds nothing."""


@pytest.mark.parametrize("name", ["words.md", "pure-code.md"])
def test_kept_page_matches_its_tables(name: str) -> None:
    kept = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert kept == pages()[name], "run `python -m scripts.reference`"


def test_every_command_is_on_cli_page() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    table = re.findall(r"`([a-z-]+)[^`]*`", "".join(re.findall(r"^\| (`.*?) \|", page, re.M)))
    assert set(COMMANDS) <= set(table)


def test_every_code_is_on_page() -> None:
    made = pages()
    for name in CODES:
        assert f"{{ #{name.lower()} }}" in made[f"codes-{name[:3].lower()}.md"]


def test_every_exported_name_is_on_api_page() -> None:
    import callsheet

    page = pages()["python.md"]
    assert [name for name in callsheet.__all__ if f"{name}\n" not in page] == []


def test_site_is_built_without_warnings(tmp_path: Path) -> None:
    for part in ("docs", "scripts", "zensical.toml"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    (tmp_path / "src").symlink_to(ROOT / "src")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")]), "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-m", "scripts.reference"], cwd=tmp_path, env=env, check=True)
    (tmp_path / "src").unlink()
    package = ROOT / "src" / "callsheet"
    shutil.copytree(
        package,
        tmp_path / "src" / "callsheet",
        ignore=lambda folder, names: UNNAMED if Path(folder) == package else ["__pycache__"],
    )
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    listed = (tmp_path / "zensical.toml").read_text("utf-8")
    pages_there = [page.relative_to(tmp_path / "docs") for page in (tmp_path / "docs").glob("*.md")]
    assert [str(page) for page in pages_there if f'"{page}"' not in listed] == []
    index = tmp_path / "build" / "site" / "search.json"
    weigh(index)
    titles = [item["title"] for item in json.loads(index.read_text("utf-8"))["items"]]
    assert {"POL110", "policy", "Approve calls, answer questions"} <= {*titles}
    assert [title for title in titles if title.startswith(("retry_delay", "policy init", "POL110:"))] == []
    assert "arun" in (tmp_path / "build" / "site" / "reference" / "python.html").read_text("utf-8")
