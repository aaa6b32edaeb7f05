"""The tutorial and the cookbook work for a reader with a fresh installation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.docs.console import Command, File, as_shown, environment, parts_of, printed_by

DOCS = Path(__file__).parents[2] / "docs"


REAL_STARTS = ("../README",)
PAGES = ["../README", "tutorial", "cookbook", "blocks", "python-plans", "gate", "undo", "testing", "ci"]


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_documented_output(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    env = environment(tmp_path / "home", forks=page not in REAL_STARTS, also_of_clients=page == "gate")
    for part in parts_of((DOCS / f"{page}.md").read_text("utf-8")):
        if isinstance(part, File):
            path = folder / part.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(part.text, "utf-8")
        else:
            seen = printed_by(part.text, folder, env)
            assert as_shown(part.printed, seen), "\n".join([part.text, *seen])


def test_documented_dry_run_matches_output(tmp_path: Path) -> None:
    """Without its servers: the page says that none is started."""
    shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"git": {"command": "none"}}}', "utf-8")
    env = environment(tmp_path / "home")
    parts = parts_of((DOCS / "cli.md").read_text("utf-8"))
    commands = [part for part in parts if isinstance(part, Command)]
    (command,) = (each for each in commands if each.text.startswith("callsheet dry-run examples/release.ltp"))
    seen = printed_by(command.text, tmp_path, env)
    assert as_shown(command.printed, seen), "\n".join(seen)


def test_page_is_parsed_into_files_and_commands() -> None:
    page = '```ltp title="a.ltp"\nS1\n```\n\n```console\n$ one\nsays\n$ two\n```\n'
    assert list(parts_of(page)) == [File("a.ltp", "S1\n"), Command("one", ("says",)), Command("two", ())]


def test_output_that_differs_from_page_is_detected() -> None:
    assert as_shown(("run …", "…", "end"), ["run 7", "more", "end"])
    assert as_shown(("run …", "…", "end"), ["run 7", "end"])
    assert not as_shown(("run …", "end"), ["run 7", "more", "end"])
    assert not as_shown((), ["something"])
