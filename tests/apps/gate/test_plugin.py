"""What agents load: the plugin for Claude Code, its hook, skills made of plans, the entry of the registry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from callsheet.apps.cli.main import main
from callsheet.apps.gate.spoken_words import SpokenWords, note_words, words_file
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.python import read_python

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "plugins" / "claude-code"
PLAN = """# ltp: 2
# title: Greets people
INPUT $names: list[str]   # who is greeted
INPUT $word: str = "hello"
LET $all = ", ".join($names)
@RESPOND ("${word} ${all}")
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_words_of_a_hook_reach_a_gate_in_the_same_folder_once(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    note_words(json.dumps({"prompt": "before", "cwd": str(tmp_path)}))
    here, elsewhere = SpokenWords(tmp_path), SpokenWords(tmp_path / "other")
    (hook,) = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]["UserPromptSubmit"][0][
        "hooks"
    ]
    words = hook["command"].split()
    assert words[0] == "callsheet"
    event = json.dumps(
        {"hook_event_name": "UserPromptSubmit", "prompt": "Mail Ann.\nNow", "cwd": str(tmp_path)}
    )
    done = subprocess.run(
        [sys.executable, "-m", *words], input=event, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""  # a hook's output would become part of the conversation
    assert here.new() == ["Mail Ann.\nNow"]
    assert here.new() == []
    assert elsewhere.new() == []
    for wrong in ("", "{}", "[1]", "words"):
        with pytest.raises(CallsheetError, match="standard input is not what a hook passes"):
            note_words(wrong)


def test_skill_of_a_plan_has_its_inputs_and_runs_it(tmp_path: Path) -> None:
    (tmp_path / "greet.ltp").write_text(PLAN)
    done = CliRunner().invoke(main, ["skill", "export", "greet.ltp"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / ".claude" / "skills" / "greets-people"
    text = (folder / "SKILL.md").read_text()
    assert text.startswith('---\nname: greets-people\ndescription: "Greets people"\n---\n')
    assert "- `names`: list[str], who is greeted\n- `word`: str (optional)\n" in text
    command = re.search(r"^    callsheet (run .*)$", text, re.MULTILINE)
    assert command is not None
    written = command[1].replace("names=…", 'names=["ann","bob"]').replace("word=…", "word=hi").split()
    ran = CliRunner().invoke(main, [*written, "--no-journal"])
    assert "hi ann, bob" in ran.output


def test_files_for_agents_are_what_they_name() -> None:
    skill = (PLUGIN / "skills" / "callsheet-programs" / "SKILL.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", skill, re.DOTALL)
    assert [one.message for one in read_python(code, "skill.py").diagnostics] == []
    (server,) = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"].values()
    registry = json.loads((ROOT / "server.json").read_text())
    arguments = [one["value"] for one in registry["packages"][0]["packageArguments"]]
    for words in (server["args"], arguments):
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0
    assert len(registry["description"]) <= 100


def test_words_that_are_not_written_whole_yet_are_read_the_next_time(tmp_path: Path) -> None:
    place = words_file(tmp_path)
    place.parent.mkdir(parents=True)
    place.touch()
    spoken = SpokenWords(tmp_path)
    with place.open("a") as file:
        file.write('{"said": "one"}\n{"said": "tw')
        file.flush()
        first = spoken.new()
        file.write('o"}\nhalf of a line"}\n{"said": "three"}\n')
    assert (first, spoken.new(), spoken.new()) == (["one"], ["two", "three"], [])
