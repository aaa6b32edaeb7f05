"""The user's configuration file, and the setup that is stored with a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from callsheet.apps.settings import Settings, load_settings, read_settings
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.ports.builtin import ExecutionSettings, FetchSettings, SearchSettings

GOOD = """
[fetch]
allow_private_hosts = ["intra.example"]
timeout = 5
[search]
provider = "searxng"
url = "https://search.example"
[execution]
network = true
"""


def test_defaults_apply_without_file(machine):
    assert load_settings() == Settings()


def test_file_overrides_named_settings(machine, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", GOOD))
    assert load_settings() == Settings(
        fetch=FetchSettings(allow_private_hosts=("intra.example",), timeout=5.0),
        search=SearchSettings(provider="searxng", url="https://search.example"),
        execution=ExecutionSettings(network=True),
    )


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("x", "1:1", "not TOML: Expected"),
        ("max_calls = 3", "1:1", "max_calls belongs to the table [limits]"),
        ("[serch]\n", "1:2", "did you mean search"),
        ("[search]\nproviderr = 'brave'\n", "2:1", "there is no key search.providerr"),
        ("[search]\nprovider = 'bing'\n", "2:1", "one of searxng, brave, tavily"),
        ("[fetch]\n\n  timeout = true\n", "3:3", "fetch.timeout must be a number"),
        ("[fetch]\nmax_bytes = -1\n", "2:1", "at least 0"),
        ("[fetch]\nallow_private_hosts = 'x'\n", "2:1", "a list of strings"),
        ("[execution]\nnetwork = 1\n", "2:1", "true or false"),
        ("[limits]\nmax_calls = 1\nwindow = 9000\n", "3:1", "window must be from 1"),
        ('[model]\nmodel = "a"\nprices = { inputs = 1 }\n', "3:12", "no key model.prices.inputs"),
        ('approval_timeout = "never"\n', "1:1", "the time for an approval must be"),
        ("fetch = 3\n", "1:1", "must be a table"),
        (f"fetch = {'[' * 9_000}", "1:1", "nested too deeply"),
        ('store = "a\\u0000b"\n', "1:1", "store contains a null character"),
    ],
)
def test_invalid_file_is_one_message(machine, monkeypatch, text, place, said):
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", text))
    result = machine("tools")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"config.toml:{place}: error CFG016: ")
    assert said in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        'passwrd = "hush-hush"',
        '[model]\nurl = "http://me:hush-hush@host/v1"',
        '[otel]\nheaders = { a = "hush-hush", b = 3 }',
        "x = 'hush-hush",
    ],
)
def test_error_position_shows_no_value(machine, monkeypatch, text):
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", text))
    for more in ((), ("--json",)):
        result = machine("tools", *more)
        assert "CFG016" in result.output
        assert "hush" not in result.output


def test_file_names_shared_store_unless_environment_does(machine, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CONFIG", machine.write("config.toml", 'store = "from.the.file"\n'))
    monkeypatch.delenv("CALLSHEET_PLANS", raising=False)
    monkeypatch.delenv("CALLSHEET_STORE", raising=False)
    told = machine("plan", "list")
    assert (told.exit_code, "CFG230" in told.stderr, "from.the.file" in told.stderr) == (2, True, True)
    assert "CALLSHEET_STORE" not in os.environ
    monkeypatch.setenv("CALLSHEET_STORE", "of.the.environment")
    assert "of.the.environment" in machine("plan", "list").stderr


def test_named_file_must_exist(machine, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CONFIG", "absent.toml")
    with pytest.raises(CallsheetError, match="CFG016"):
        load_settings()


def test_setup_round_trips_through_journal(machine):
    settings = read_settings({"fetch": {"allow_private_hosts": ["a"]}, "execution": {"timeout": 3}}, "test")
    setup = Setup(
        workspace=Path("/w"),
        data=Path("/d"),
        tools_files=(Path("/t.py"),),
        mcp_configs=(Path("/m.json"),),
        discovers=False,
        settings=settings,
    )
    assert Setup.from_note({"setup": setup.to_note()}) == setup


@pytest.mark.parametrize("launch", [{}, {"setup": {}}, {"setup": 3}])
def test_run_of_another_interface_is_refused(launch):
    with pytest.raises(CallsheetError, match=r"CFG017: .* no command of callsheet started it$"):
        Setup.from_note(launch)


def test_model_table_is_read_completely_and_stored_with_run(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(
        '[model]\nmodel = "openai:gpt-5-mini"\nkey_env = "K"\ntimeout = 5\nretries = 0\nmax_tokens = 99\n'
        'temperature = 0.5\nseed = 3\nkind = "vllm"\nllguidance = true\n'
        "prices = { input = 1, cached = 0.1, output = 4.5 }\n"
    )
    settings = load_settings(file)
    model = settings.model
    assert (model.spec, model.timeout, model.retries, model.max_tokens) == ("openai:gpt-5-mini", 5.0, 0, 99)
    assert (model.temperature, model.seed, model.kind, model.llguidance) == (0.5, 3, "vllm", True)
    assert (model.prices.input, model.prices.cached, model.prices.output) == (1.0, 0.1, 4.5)
    assert read_settings(json.loads(json.dumps(settings.to_json())), "kept").model == model


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('kind = "sglang"', "model.kind must be one of openai, llama.cpp, vllm, ollama"),
        ('url = "http://me:pw@host/v1"', "name its environment variable in key_env"),
        ("max_tokens = 0", "max_tokens must be more than 0"),
        ("timeout = 0", "timeout must be more than 0"),
        ("prices = { inputs = 1 }", "there is no key model.prices.inputs"),
        ('prices = { input = "1" }', "model.prices.input must be a number"),
    ],
)
def test_invalid_model_table_is_reported(tmp_path, line, said):
    file = tmp_path / "config.toml"
    file.write_text(f"[model]\n{line}\n")
    with pytest.raises(CallsheetError, match="CFG016") as raised:
        load_settings(file)
    assert said in str(raised.value)
    assert "pw" not in str(raised.value)
