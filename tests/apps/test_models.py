"""The configured model performs the model operations of a run, and its failures do not lose the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from providers import FAILURES, NOISE, Provider, answer, declines, refuses, serving

PLAN = 'S1: @LLM_SUMMARIZE ("a long text") > $s\nS2: @RESPOND ("It says:", $s)\n'
GRAPH = {
    "title": "Two",
    "steps": [
        {"index": "1", "title": "a", "tool": "llm_summarize", "args": {"input": "x"}, "depends_on": []},
    ],
}


@pytest.fixture(autouse=True)
def _fresh(machine, monkeypatch):
    monkeypatch.delenv("CALLSHEET_MODEL", raising=False)


def configure(machine, provider: Provider, monkeypatch, **more: object) -> None:
    lines = [
        f'url = "{provider.url}/v1"',
        'name = "small"',
        *(f"{k} = {json.dumps(v)}" for k, v in more.items()),
    ]
    path = machine.write("config.toml", "[model]\n" + "\n".join(lines) + "\n")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(machine.folder / path))


def test_configured_model_executes_steps(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    with serving(answer("short", read=100, written=5, cached=60)) as provider:
        configure(machine, provider, monkeypatch)
        done = machine.json("run", "p.ltp")
    assert (done["status"], done["response"]) == ("done", "It says: short")
    assert [told["code"] for told in done["diagnostics"]] == ["LTP101"]
    used = done["usage"]
    assert (used["input_tokens"], used["output_tokens"], used["cached_tokens"]) == (100, 5, 60)
    assert (used["model_calls"], used["model_requests"], used["unpriced"], used["cost"]) == (1, 1, 1, None)
    assert used["model_seconds"] > 0
    assert "summarize" in provider.asked[0].body["messages"][0]["content"].lower()


@pytest.mark.parametrize("wrong", FAILURES)
def test_run_pauses_on_model_failure_and_resumes_after_recovery(machine, monkeypatch, wrong):
    behaviour, code = FAILURES[wrong]
    machine.write("p.ltp", "S0: @ADD (a=1) > $n\n" + PLAN)
    with serving(always=behaviour) as provider:
        patience = 2.0 if wrong == "slow" else 60.0
        configure(machine, provider, monkeypatch, retries=0, timeout=patience, max_tokens=1_000)
        said = machine("run", "p.ltp", "--run-id", "r", "--tools", "tools.py")
        assert said.exit_code == 4
        assert (
            f"S1.0.1  @LLM_SUMMARIZE has no answer: {code}: the model {provider.url}/v1#small: "
            in said.stderr
        )
        assert f"callsheet explain {code}" in said.stderr
        assert "callsheet resume r" in said.stderr
        shown = machine.json("show", "r")
        assert (shown["status"], shown["unanswered"][0]["key"]) == ("interrupted", "S1.0.1")
        assert "has no answer" in machine("show", "r").stdout
        again = machine.json("resume", "r")
        assert (again["status"], again["unanswered"][0]["step"]) == ("interrupted", "S1")
        asked = len(provider.asked)
        provider.always = answer("short")
        done = machine.json("resume", "r")
        assert (done["status"], done["response"]) == ("done", "It says: short")
        assert done["usage"]["calls_by_tool"] == {"ADD": 1, "LLM_SUMMARIZE": 1}
        assert len(provider.asked) == asked + 1
        assert machine.json("resume", "r")["response"] == "It says: short"


def test_agent_continues_without_schema_if_provider_takes_none(machine, monkeypatch):
    def refusing(request) -> None:
        held = "response_format" in request.asked.body
        said = answer('{"finish": "four"}')
        (refuses(400, "response_format is not supported") if held else said)(request)

    machine.write("p.ltp", 'S1: @AGENT_SOLVE (goal="two and two") > $n\nS2: @RESPOND ($n)\n')
    with serving(always=refusing) as provider:
        configure(machine, provider, monkeypatch)
        done = machine.json("run", "p.ltp", "--tools", "tools.py")
    assert (done["status"], done["response"]) == ("done", "four")
    assert [("response_format" in asked.body) for asked in provider.asked] == [True, False]


def test_agent_with_invalid_answers_pauses_and_resumes(machine, monkeypatch):
    machine.write("p.ltp", 'S1: @AGENT_SOLVE (goal="two and two") > $n\nS2: @RESPOND ($n)\n')
    with serving(always=answer(NOISE)) as provider:
        configure(machine, provider, monkeypatch, retries=0, max_tokens=1_000)
        said = machine("run", "p.ltp", "--run-id", "r", "--tools", "tools.py")
        assert said.exit_code == 4
        assert "MDL012" in said.stderr
        provider.always = answer('{"finish": "four"}')
        assert machine.json("resume", "r")["response"] == "four"


def test_model_failures_follow_on_fail(machine, monkeypatch):
    machine.write(
        "p.ltp", 'S1: @LLM_SUMMARIZE ("x") > $s ON_FAIL TERMINATE ("no luck: $s")\nS2: @RESPOND ($s)\n'
    )
    with serving(always=refuses(401)) as provider:
        configure(machine, provider, monkeypatch)
        said = machine.json("run", "p.ltp")
    assert said["status"] == "failed"
    assert said["response"].startswith("no luck: MDL003: the model")


def test_step_with_retry_retries_model_and_then_pauses(machine, monkeypatch):
    machine.write("p.ltp", 'S1: @LLM_SUMMARIZE ("x") > $s ON_FAIL @RETRY (2)\nS2: @RESPOND ($s)\n')
    with serving(always=refuses(401)) as provider:
        configure(machine, provider, monkeypatch)
        said = machine.json("run", "p.ltp")
        assert (said["status"], said["unanswered"][0]["attempt"]) == ("interrupted", 3)
        assert len(provider.asked) == 3


def test_answered_items_are_not_asked_again(machine, monkeypatch):
    machine.write(
        "p.ltp", 'S1: ?FOREACH ($x IN ["a", "b", "c"]) THEN @LLM_SUMMARIZE ($x) > $all\nS2: @RESPOND ($all)\n'
    )

    def moody(request) -> None:
        text = request.asked.body["messages"][1]["content"]
        (refuses(403) if "\nb\n" in text else answer("good"))(request)

    with serving(always=moody) as provider:
        configure(machine, provider, monkeypatch)
        said = machine.json("run", "p.ltp")
        assert [call["item"] for call in said["unanswered"]] == [1]
        provider.always, before = answer("late"), len(provider.asked)
        done = machine.json("resume", "last")
        assert (done["status"], done["variables"]["all"]) == ("done", ["good", "late", "good"])
        assert len(provider.asked) == before + 1


def test_early_calls_pause_on_model_failure(machine, monkeypatch):
    machine.write(
        "p.ltp", 'S1: @LOOK (path="a", wait=0.3) > $l\n' + PLAN.replace("S1", "S3").replace("S2", "S4")
    )
    with serving(always=refuses(401)) as provider:
        configure(machine, provider, monkeypatch)
        said = machine.json("run", "p.ltp", "--tools", "tools.py", "--schedule", "auto")
        assert (said["status"], said["usage"]["early"]) == ("interrupted", 1)
        provider.always = answer("short")
        assert machine.json("resume", "last")["response"] == "It says: short"


def test_person_decides_model_call_without_answer(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    with serving(always=declines) as provider:
        configure(machine, provider, monkeypatch)
        assert machine("run", "p.ltp", "--run-id", "r").exit_code == 4
    assert machine("decide", "r", "S1.0.1", 'value="mine"').exit_code == 0
    assert machine.json("resume", "r")["response"] == "It says: mine"


def test_run_can_be_resumed_with_another_model(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    with serving(always=declines) as provider, serving(answer("from the other")) as other:
        configure(machine, provider, monkeypatch)
        assert machine("run", "p.ltp").exit_code == 4
        done = machine.json("resume", "last", "--model", f"{other.url}/v1#big")
        assert done["response"] == "It says: from the other"
        assert other.asked[0].body["model"] == "big"


def test_graph_pauses_on_model_failure(machine, monkeypatch):
    machine.write("g.json", json.dumps(GRAPH))
    with serving(always=refuses(401)) as provider:
        configure(machine, provider, monkeypatch)
        said = machine.json("run", "g.json")
        assert (said["status"], [c["step"] for c in said["unanswered"]]) == ("interrupted", ["1"])
        provider.always = answer("short")
        assert machine.json("resume", "last")["status"] == "done"


def in_words(request) -> None:
    """A server that takes no schema and returns plans as text."""
    held = "response_format" in request.asked.body
    plan = 'PLAN_START\nS1: @RESPOND ("anew")\nPLAN_END'
    (refuses(400, "response_format is not supported") if held else answer(plan))(request)


@pytest.mark.parametrize("wrong", FAILURES)
def test_replan_with_failed_model_is_requested_again(machine, monkeypatch, wrong):
    behaviour, code = FAILURES[wrong]
    machine.write("p.ltp", 'S1: RE-PLAN ("start over")\n')
    with serving(always=behaviour) as provider:
        patience = 1.0 if wrong == "slow" else 60.0
        configure(machine, provider, monkeypatch, retries=0, timeout=patience)
        said = machine.json("run", "p.ltp")
        assert (said["status"], said["unanswered"][0]["tool"]) == ("interrupted", "RE-PLAN")
        assert said["unanswered"][0]["why"].startswith(f"{code}: the model {provider.url}/v1#small: ")
        provider.always = in_words
        done = machine.json("resume", "last")
        assert (done["status"], done["response"], done["replanned"]) == ("done", "anew", True)


def test_graph_replan_with_empty_answer_is_requested_again(machine, monkeypatch):
    step = {"index": "1", "title": "a", "tool": "fail", "args": {"text": "no"}, "depends_on": []}
    machine.write("g.json", json.dumps({"title": "One", "steps": [step]}))
    steps = json.dumps({"steps": [{**step, "tool": "respond", "args": {"values": ["anew"]}}]})
    with serving(always=answer("")) as provider:
        configure(machine, provider, monkeypatch, retries=0)
        said = machine.json("run", "g.json", "--replan", "1", "--tools", "tools.py")
        assert (said["status"], said["unanswered"][0]["tool"]) == ("interrupted", "RE-PLAN")
        provider.always = answer(steps)
        assert machine.json("resume", "last")["response"] == "anew"


def test_model_is_named_by_option_environment_or_file(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    machine.write("mine.py", "def ask(messages):\n    return 'from a function'\n")
    with serving(always=answer("configured")) as one, serving(always=answer("named")) as two:
        configure(machine, one, monkeypatch)
        assert machine.json("run", "p.ltp")["response"] == "It says: configured"
        monkeypatch.setenv("CALLSHEET_MODEL", f"{two.url}/v1")
        assert machine.json("run", "p.ltp")["response"] == "It says: named"
        assert machine.json("run", "p.ltp", "--model", f"{one.url}/v1#x")["response"] == "It says: configured"
        assert (
            machine.json("run", "p.ltp", "--model", "mine.py:ask")["response"] == "It says: from a function"
        )
    unknown = machine.json("run", "p.ltp", "--model", "opnai:gpt-5")
    assert unknown["diagnostics"][0]["code"] == "MDL001"


def test_check_recognizes_configured_model(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    assert "RUN010" in machine("check", "p.ltp").stdout
    monkeypatch.setenv("CALLSHEET_MODEL", "ollama:small")
    assert "RUN010" not in machine("check", "p.ltp").stdout
    assert "RUN010" not in machine("run", "p.ltp", "--dry-run").output


def test_plan_without_model_calls_needs_no_model(machine):
    machine.write("p.ltp", 'S1: @RESPOND ("hi")\n')
    assert machine.json("run", "p.ltp", "--model", "nobody:x")["response"] == "hi"


def test_without_journal_model_failure_fails_step(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    with serving(always=refuses(401)) as provider:
        configure(machine, provider, monkeypatch)
        done = machine.json("run", "p.ltp", "--no-journal")
    assert done["status"] == "done"
    assert done["variables"]["s"].startswith("MDL003: the model")


def test_api_key_is_not_stored(machine, monkeypatch):
    machine.write("p.ltp", PLAN)
    monkeypatch.setenv("MY_KEY", "sk-s3cret")
    with serving(always=refuses(401, "you sent sk-s3cret")) as provider:
        configure(machine, provider, monkeypatch, key_env="MY_KEY")
        said = machine("run", "p.ltp")
        assert provider.asked[0].headers["Authorization"] == "Bearer sk-s3cret"
    assert "s3cret" not in said.output
    for path in filter(Path.is_file, machine.journal.parent.rglob("*")):
        assert b"s3cret" not in path.read_bytes()


def items(machine, *line: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for item in machine.json("doctor", *line)["items"]:
        found.setdefault(item["name"], []).append(item)
    return found


def obedient(request) -> None:
    """A server that obeys schemas."""
    held = "json_schema" in request.asked.body
    answer('{"word": "xyzzy-17"}' if held else "ready", read=12, written=3)(request)


def test_doctor_asks_configured_model(machine, monkeypatch):
    with serving(always=obedient) as provider:
        configure(machine, provider, monkeypatch, kind="llama.cpp")
        found = items(machine)
        (model,) = found["model"]
        assert model["state"] == "ok"
        assert model["found"].startswith(f"{provider.url}/v1#small answered as gpt-x in ")
        assert model["found"].endswith(", 12 + 3 tokens")
        assert [(item["state"], item["found"]) for item in found["constraints"]] == [
            ("ok", "accepts json_schema"),
            ("note", "gbnf does not work: its answer does not follow it"),
        ]
        assert len(provider.asked) == 3


def test_doctor_reports_refused_constraints(machine, monkeypatch):
    def refusing(request) -> None:
        held = "response_format" in request.asked.body
        (refuses(400, "response_format is not supported") if held else answer("ready"))(request)

    with serving(always=refusing) as provider:
        configure(machine, provider, monkeypatch)
        told = [item["found"] for item in items(machine)["constraints"]]
    assert told == [
        "accepts none: answers are checked afterwards",
        "json_schema does not work: its provider refuses it",
    ]


def test_doctor_reports_model_failure_with_hint(machine, monkeypatch):
    with serving(always=refuses(401, "bad key")) as provider:
        configure(machine, provider, monkeypatch)
        said = machine("doctor")
        assert said.exit_code == 1
        assert "status 401: bad key (MDL003)" in said.stdout
        assert "set the provider's key" in said.stdout
    (unknown,) = items(machine, "--model", "opnai:x")["model"]
    assert (unknown["state"], unknown["help"][:20]) == ("bad", "did you mean openai:")


def test_doctor_reports_missing_model(machine):
    (model,) = items(machine)["model"]
    assert (model["state"], model["found"][:18]) == ("note", "none is configured")
