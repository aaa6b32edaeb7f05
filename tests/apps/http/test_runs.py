"""Runs over HTTP: start, stream, cancel, resume, decide, answer, as documented."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from tests import forked

from apps.http.conftest import plan_of, running, setup_of
from callsheet.api.texts import file_note
from callsheet.apps.operations.live_calls import EventRow
from callsheet.apps.operations.outcomes import CallsInDoubt, PausedResult
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.runs import Inbox
from callsheet.apps.operations.schema import ProblemRow, schema_of
from callsheet.apps.table.runs import RunList, ShownRunResult
from callsheet.apps.table.starts import StartedResult
from callsheet.runtime import forking
from callsheet.runtime.answers import Answer
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.inbox import answer_run
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import enlist_run
from callsheet.sealing.known import Known
from callsheet.store import Journal
from callsheet.store.listing import ENGINE
from compiled import looks_inside
from views.report.test_delta import grown

THREE_SERVERS = """
import os
from callsheet.apps.cli.main import main
from callsheet.apps.http import serving
for _ in range(3):
    child = os.fork()
    if not child:
        os.dup2(2, 1)
        main(["serve", "--port", "0", "--no-auth", "--journal", "journal.db"])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def touch(name):
    Path(name).touch()


def fits(data, kind):
    jsonschema.validate(data, schema_of(kind), cls=jsonschema.Draft202012Validator)
    return data


def began(name, wait_for=30.0):
    import time

    deadline = time.monotonic() + wait_for
    while not Path(f"{name}.began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def state_of_other_program(**changes):
    """A plan of two steps, and the state file of a program that has completed the first."""
    step = {"title": "Add", "tool": "add", "depends_on": []}
    first = {**step, "index": "1", "args": {"a": 1}, "result_variable": "n"}
    then = {**step, "index": "2", "args": {"a": "${n}"}, "depends_on": ["1"], "result_variable": "sum"}
    plan = json.dumps({"id": "two", "title": "Two", "steps": [first, then]})
    state = {"plan_id": "two", "completed_steps": ["1"], "variables": {"n": 40}, **changes}
    return plan, json.dumps(state)


def test_steps_completed_by_another_program_are_not_run_again(api):
    plan, state = state_of_other_program()
    assert api("POST", "/v1/runs", {"plan": plan, "state": state, "run_id": "r"}).status == 202
    list(api.stream("r"))
    run = fits(api.get("/v1/runs/r"), ShownRunResult)
    assert (run["status"], run["variables"]) == ("done", {"n": 40, "sum": 41})
    assert run["usage"]["calls_by_tool"] == {"ADD": 2}


def test_state_of_another_plan_is_refused_and_nothing_recorded(api):
    plan, state = state_of_other_program(plan_id="x")
    refused = api("POST", "/v1/runs", {"plan": plan, "state": state})
    assert (refused.status, refused.json["code"]) == (422, "PLN028")
    assert api.get("/v1/runs")["runs"] == []


def test_run_is_started_streamed_and_shown(api):
    said = api(
        "POST",
        "/v1/runs",
        {"plan": "S1: @ADD (a=$n) > $m\nS2: @RESPOND ($m)", "inputs": {"n": 41}, "run_id": "r"},
    )
    assert said.status == 202
    assert said.headers["location"] == "/v1/runs/r"
    fits(said.json, StartedResult)
    events = [(number, data) for name, number, data in api.stream("r") if name == ""]
    assert [number for number, _ in events] == [data["seq"] for _, data in events] == [*range(1, 5)]
    for _, data in events:
        fits(data, EventRow)
    run = fits(api.get("/v1/runs/r"), ShownRunResult)
    assert (run["status"], run["response"], run["chain"], run["problem"]) == (
        "done",
        "42",
        {"ok": True},
        None,
    )
    (row,) = fits(api.get("/v1/runs"), RunList)["runs"]
    assert (row["run_id"], row["status"], row["events"]) == ("r", "done", 4)


def test_stream_continues_after_last_event_id(api):
    api.start('S1: @HOLD (name="go") > $x', "S2: @RESPOND ($x)", run_id="r")
    stream = api.stream("r")
    seen = [next(stream)[1] for _ in range(3)]
    stream.close()
    touch("go")
    rest = [number for name, number, _ in api.stream("r", Last_Event_ID="1") if name == ""]
    assert seen == [None, 1, 2]
    assert rest == [2, 3, 4]
    assert [number for name, number, _ in api.stream("r", after=3) if name == ""] == [4]
    assert [name for name, _, _ in api.stream("r", after=99)] == ["standing", "end"]


def test_invalid_plan_is_reported_with_lines_and_leaves_no_run(api):
    said = api("POST", "/v1/runs", {"plan": "S1: @AD (a=1) > $x\nS2: @RESPOND ($x)"})
    assert said.status == 422
    assert said.headers["content-type"] == "application/problem+json"
    problem = fits(said.json, ProblemRow)
    (row,) = problem["diagnostics"]
    assert (row["code"], row["line"], row["column"], row["help"]) == ("CHK040", 1, 5, "did you mean @ADD?")
    assert problem["type"] == "/v1/explain/CHK040"
    assert api.get(problem["type"])["code"] == "CHK040"
    assert api.get("/v1/runs")["runs"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "API008"),
        ({"plan": "S1: @ADD (a=1) > $x", "plan_id": "p"}, 422, "API008"),
        ({"plan_id": "nothing"}, 404, "PLN002"),
        ({"plan": "S1: what"}, 422, "CFG019"),
        ({"plan": "S1: @ADD (a=1) > $x", "limits": {"max_steps": 0}}, 422, "API008"),
        ({"plan": "S1: @ADD (a=1) > $x", "run_id": "../x"}, 422, "API008"),
        ({"plan": "S1: @ADD (a=1) > $x", "inputs": {"a b": 1}}, 422, "API008"),
        ({"plan": "S1: @ADD (a=1) > $x", "inputs": {"k": 1}, "secrets": {"k": "v"}}, 422, "SEC005"),
        ({"plan": "S1: @ADD (a=1) > $x", "policy": "/etc/passwd"}, 422, "API008"),
        ({"plan": "S1: @NOTE (line=1) > $x", "policy": "strict"}, 403, "POL101"),
        ({"plan": "S1: @ADD (a=1) > $x", "approved": ["S9"], "policy": "open"}, 422, "CFG011"),
    ],
)
def test_impossible_run_is_refused(api, body, status, code):
    said = api("POST", "/v1/runs", body)
    assert (said.status, said.code) == (status, code), said.body
    assert said.json["status"] == status
    assert api.get("/v1/runs")["runs"] == []


@pytest.mark.parametrize(
    ("more", "detail", "hint"),
    [
        (
            {"limits": {"max_stps": 1}},
            "limits.max_stps: there is no such field",
            "did you mean max_steps or max_cost or max_items?",
        ),
        ({"limit": {}}, "limit: there is no such field", "did you mean limits?"),
        ({"run_id": "Tuesday!"}, "run_id: an id is 1 to 64 of a-z, 0-9, dot, dash and underscore", None),
        ({"inputs": {"a b": 1}}, "inputs.a b: a name is made of A-Z, a-z, 0-9 and underscore", None),
    ],
)
def test_invalid_field_is_reported_with_path(api, more, detail, hint):
    (row,) = api("POST", "/v1/runs", {"plan": "S1: @ADD (a=1) > $x", **more}).json["diagnostics"]
    assert row["message"].startswith(detail)
    assert row.get("help") == hint


def test_misspelled_item_field_is_compared_with_fields_of_its_kind(api):
    arguments = [{"step": "S1", "nam": "a", "value": 1}]
    run = api.start("S1: @ADD (a=1) > $x")
    rows = api("POST", f"/v1/runs/{run}/fork", {"at": 1, "arguments": arguments}).json["diagnostics"]
    assert "did you mean name?" in [row.get("help") for row in rows]


def test_run_id_is_used_once(api):
    api.start("S1: @ADD (a=1) > $x", run_id="r")
    said = api("POST", "/v1/runs", {"plan": "S1: @ADD (a=1) > $x", "run_id": "r"})
    assert (said.status, said.code) == (409, "JRN003")


def test_routes_of_missing_runs_return_404(api):
    for method, path, body in [
        ("GET", "/v1/runs/none", None),
        ("GET", "/v1/runs/none/events", None),
        ("POST", "/v1/runs/none/cancel", {}),
        ("POST", "/v1/runs/none/resume", {}),
        ("POST", "/v1/runs/none/decide", {"calls": ["S1"], "decision": "skip"}),
        ("POST", "/v1/runs/none/approve", {}),
    ]:
        said = api(method, path, body)
        assert (said.status, said.code) == (404, "JRN002"), (path, said.body)
    api.start("S1: @ADD (a=1) > $x", run_id="run-1")
    assert api("GET", "/v1/runs/run").status == 404, "the beginning of an id is none"
    assert api("GET", "/v1/runs/last").status == 404


def test_runs_are_listed_by_status_and_name(api):
    api.start('S1: @HOLD (name="never") > $x', run_id="a", name="weather")
    api.ended(api.start("S1: @ADD (a=1) > $x", run_id="b", name="sums"))
    began("never")

    def ids(query):
        return [row["run_id"] for row in api.get(f"/v1/runs?{query}")["runs"]]

    assert ids("status=running") == ["a"]
    assert ids("status=done") == ["b"]
    assert ids("plan=WEA") == ["a"]
    assert ids("limit=1") == ["b"]
    assert [ids(f"text={text}") for text in ("RUNN", "weat", "%20b", "nothing")] == [["a"], ["a"], ["b"], []]
    for wrong in ("status=odd", "limit=0", "limit=x", "colour=red", "limit=1&limit=2"):
        said = api("GET", f"/v1/runs?{wrong}")
        assert (said.status, said.code) == (422, "API008"), wrong


def test_older_runs_are_paged_by_cursor(api):
    for n in range(5):
        api.ended(api.start("S1: @ADD (a=1) > $x", run_id=f"r{n}"))
    first = fits(api.get("/v1/runs?limit=2"), RunList)
    assert ([run["run_id"] for run in first["runs"]], first["more"]) == (["r4", "r3"], True)
    older = api.get("/v1/runs?limit=3&before=r3&status=done")
    assert ([run["run_id"] for run in older["runs"]], older["more"]) == (["r2", "r1", "r0"], False)
    found = api.get("/v1/runs?limit=2&before=r4&text=r")
    assert ([run["run_id"] for run in found["runs"]], found["more"]) == (["r3", "r2"], True)
    assert api("GET", "/v1/runs?before=nobody").status == 404


def test_cancelled_run_stays_cancelled(api):
    api.start('S1: @HOLD (name="never") > $x', run_id="r")
    began("never")
    said = api("POST", "/v1/runs/r/cancel", {"reason": "enough"})
    assert (said.status, fits(said.json, CallsInDoubt)["status"]) == (200, "cancelled")
    assert api.get("/v1/runs/r")["error"] == "enough"
    again = api("POST", "/v1/runs/r/cancel")
    assert (again.status, again.code) == (409, "JRN032")


def test_run_is_paused_says_by_whom_and_goes_on(api):
    api.start('S1: @HOLD (name="go") > $a', "S2: @NOTE (line=$a) > $b", run_id="r")
    began("go")
    asked = api("POST", "/v1/runs/r/pause", {"by": "ada", "reason": "prices", "patience": 0})
    assert (asked.status, fits(asked.json, PausedResult)["pause"]) == (202, None)
    touch("go")
    said = api("POST", "/v1/runs/r/pause", {"by": "bob", "patience": 30})
    pause = fits(said.json, PausedResult)["pause"]
    assert (said.status, said.json["status"], pause["by"], pause["reason"]) == (
        200,
        "paused",
        "ada",
        "prices",
    )
    assert pause["words"].startswith("paused by ada since 20")
    (row,) = fits(api.get("/v1/runs?status=paused"), RunList)["runs"]
    shown = fits(api.get("/v1/runs/r"), ShownRunResult)
    assert row["pause"] == shown["pause"] == pause
    assert [(step["outcome"], step["calls"]) for step in shown["steps"]] == [("ok", 1), ("running", 0)]
    assert not Path("notes.txt").exists()
    api("POST", "/v1/runs/r/resume")
    api.ended("r")
    assert (api.get("/v1/runs/r")["pause"], Path("notes.txt").read_text()) == (None, "go\n")
    again = api("POST", "/v1/runs/r/pause")
    assert (again.status, again.code) == (409, "JRN032")


def test_viewer_receives_changes_since_its_document(api):
    api.start('S1: @HOLD (name="go") > $a', "S2: @RESPOND ($a)", run_id="r")
    began("go")
    first = api("GET", "/v1/runs/r/document")
    name = first.headers["etag"].strip('"')
    assert api.get(f"/v1/runs/r/document?base={name}") == {"base": name, "set": [], "rows": [], "texts": []}
    touch("go")
    api.ended("r")
    whole, told = api.get("/v1/runs/r/document"), api.get(f"/v1/runs/r/document?base={name}")
    assert grown(first.json, told) == whole
    assert len(str(told)) < len(str(whole))
    assert api.get(f"/v1/runs/r/document?base={'0' * 32}") == whole
    assert api("GET", "/v1/runs/r/document?base=x").status == 422


def test_whole_of_shortened_value_is_found_by_its_digest(api):
    given = {"text": "ü" * 10_000, "exact": 2**60 + 1}
    run = api.start("S1: @RESPOND ($given.exact)", inputs={"given": given})
    api.ended(run)
    document = api.get(f"/v1/runs/{run}/document")
    cut = [row for row in document["values"] if isinstance(row, list) and row[0] is not None]
    assert cut
    wholes = [api("GET", f"/v1/runs/{run}/values/{digest}").body for _, _, digest in cut]
    for (beginning, size, digest), whole in zip(cut, wholes, strict=True):
        assert whole.startswith(beginning.encode())
        assert (len(whole), sha256(whole).hexdigest()) == (size, digest)
    assert given in [json.loads(whole) for whole in wholes]
    said = api("GET", f"/v1/runs/{run}/values/{'0' * 64}")
    assert (said.status, said.code) == (404, "API009")


def test_run_is_deleted_only_after_its_end(api):
    api.start('S1: @HOLD (name="go") > $x', run_id="r")
    began("go")
    early = api("DELETE", "/v1/runs/r")
    assert (early.status, early.code) == (409, "API030")
    touch("go")
    api.ended("r")
    assert api("DELETE", "/v1/runs/r").status == 204
    assert api("GET", "/v1/runs/r").status == 404
    assert api("DELETE", "/v1/runs/r").status == 404


def test_next_server_decides_and_resumes_runs_of_stopped_one(folder):
    with running(folder) as api:
        api.start('S1: @WRITE (name="never") > $x', "S2: @RESPOND ($x)", run_id="r")
        began("never")
    with running(folder) as api:
        api.until("r", "in_doubt")
        (call,) = api.get("/v1/runs/r")["in_doubt"]
        assert call["key"] == "S1.0.1"
        (listed,) = fits(api.get("/v1/inbox"), Inbox)["in_doubt"]
        assert listed == {"run_id": "r", "kind": "doubt", **call}
        wrong = api("POST", "/v1/runs/r/decide", {"calls": ["S9"], "decision": "skip"})
        assert (wrong.status, wrong.code) == (409, "JRN030")
        said = api("POST", "/v1/runs/r/decide", {"calls": ["S1"], "decision": "value", "value": "it was"})
        assert (said.status, fits(said.json, CallsInDoubt)["in_doubt"]) == (200, [])
        assert api.ended("r")["response"] == "it was"
        assert api.get("/v1/inbox")["in_doubt"] == []


def test_queued_and_running_runs_continue_with_next_server(folder):
    plan = 'S1: @HOLD (name="go") > $x', "S2: @RESPOND ($x)"
    with running(folder, running=1) as api:
        for run_id in ("a", "b", "c"):
            api.start(*plan, run_id=run_id)
        began("go")
        assert api.get("/v1/health")["queued"] == 2
    touch("go")
    with running(folder) as api:
        assert [api.ended(run_id)["response"] for run_id in ("a", "b", "c")] == ["go"] * 3


def test_waiting_runs_continue_with_next_server(folder):
    with running(folder) as api:
        api.start('S1: @NOTE (line="two") > $x', run_id="said", approve=["NOTE"])
        api.start('S1: @NOTE (line="three") > $x', run_id="open", approve=["NOTE"])
        api.until("said", "waiting")
        api.until("open", "waiting")
        api.start(
            'S1: @NOTE (line="one") > $x', run_id="late", approve=["NOTE"], approval_timeout={"NOTE": 0.6}
        )
        api.until("late", "waiting")
    with Journal.open(folder / "journal.db") as journal:
        answer_run(journal, "said", Answer.approve(by="ada"))
    with running(folder) as api:
        assert api.ended("said")["status"] == "done"
        assert api.ended("late")["status"] == "done"
        assert "denied" in str(api.get("/v1/runs/late"))
        assert api.get("/v1/runs/open")["status"] == "waiting"
    assert Path("notes.txt").read_text() == "two\n"


@pytest.mark.parametrize("time", [0.3, "0.3s", {"NOTE": 0.3}, {"": "0.3s"}])
def test_approval_timeout_is_parsed_as_on_command_line(folder, time):
    with running(folder) as api:
        api.start('S1: @NOTE (line="x") > $x', run_id="late", approve=["NOTE"], approval_timeout=time)
        assert api.ended("late")["status"] == "done"
        assert "denied: nobody approved" in str(api.get("/v1/runs/late"))


@pytest.mark.parametrize("time", ["soon", True, 0, [1], {"NOTE": "1 hour"}, {"NOTE": None}])
def test_invalid_approval_timeout_is_refused_with_examples(folder, time):
    with running(folder) as api:
        told = api("POST", "/v1/runs", {"plan": 'S1: @RESPOND ("x")', "approval_timeout": time})
    assert told.status == 422
    assert told.json["detail"].startswith("approval_timeout: seconds or a text such as 45m")


def test_run_that_kills_its_server_waits_for_explicit_resume(folder):
    with running(folder, running=1) as api:
        api.start('S1: @HOLD (name="never") > $x', run_id="first")
        began("never")
        api.start("S1: @DIE () > $x", run_id="fatal")
    with Journal.open(folder / "journal.db") as journal:
        asyncio.run(cancel_run(journal, "first"))
    command = [sys.executable, "-c", THREE_SERVERS]
    servers = forked.run(command, capture_output=True, timeout=120, check=True)
    assert servers.stdout.split() == [b"77"] * 3
    with running(folder) as api:
        told = api.get("/v1/runs/fatal")
        assert (told["status"], told["problem"]["code"]) == ("interrupted", "API050")
        touch("calm")
        assert api("POST", "/v1/runs/fatal/resume", {}).status == 202
        assert api.ended("fatal")["status"] == "done"
    assert not list(folder.rglob("*.attempts"))


@looks_inside
def test_plan_is_prepared_outside_event_loop(folder):
    reading = {"read_plan_text", "plan_from_json", "_plan_text"}
    heavy = {"check_plan", "prove", "compile_plan", "create_run", "verified_state", *reading}
    seen = dict[str, set[int]]()

    def hook(frame, event, _):
        if event == "call" and (name := frame.f_code.co_name) in {"make_app", *heavy}:
            seen.setdefault(name, set()).add(threading.get_ident())

    threading.setprofile(hook)
    try:
        with running(folder) as api:
            long = "# " + 2_000 * "x"  # short texts are read where they are
            run_id = api.start(long, 'S1: @NOTE (line="hi") > $x', "S2: @RESPOND ($x)", policy="open")
            api.until(run_id, "waiting")  # for a person who approves of a tool that the policy does not know
            api("POST", f"/v1/runs/{run_id}/resume", {})
            api.until(run_id, "waiting")
    finally:
        threading.setprofile(None)
    loop = seen.pop("make_app")
    assert seen.keys() == heavy
    assert not [name for name, threads in seen.items() if threads & loop]


def test_fork_is_continued_by_interface_that_made_it(folder):
    plan = plan_text("S1: @ADD (a=1) > $x").require()
    note = {"setup": setup_of(folder).to_note()}
    with Journal.open(folder / "journal.db") as journal:
        asyncio.run(enlist_run(plan, Known(), Launch(note=note), journal, "mine")).close()
    with running(folder, running=1) as api:
        api.start('S1: @HOLD (name="go") > $x', run_id="before")
        began("go")
        said = api("POST", "/v1/runs/mine/fork", {"at": 1, "run_id": "queued", "effects": True})
        assert said.status == 202, said.body
    with Journal.open(folder / "journal.db") as journal:
        forking.fork(journal, "queued", 1).write(journal, "by-hand")
    touch("go")
    with running(folder) as api:
        assert api.ended("queued")["status"] == "done"
        assert api.get("/v1/runs/by-hand")["status"] == "interrupted"


def test_run_started_by_command_is_not_adopted(folder):
    plan = plan_text('S1: @HOLD (name="go") > $x').require()
    with Journal.open(folder / "journal.db") as journal:
        asyncio.run(enlist_run(plan, Known(), Launch(), journal, "mine")).close()
    with running(folder) as api:
        assert api.get("/v1/runs/mine")["status"] == "interrupted"


def test_run_of_edited_file_is_resumed_only_as_recorded(folder):
    file, text = folder / "mine.ltp", plan_of("S1: @ADD (a=1) > $x", "S2: @RESPOND ($x)")
    note = {"setup": setup_of(folder).to_note(), "file": file_note(file, text, None)}
    with Journal.open(folder / "journal.db") as journal:
        asyncio.run(
            enlist_run(plan_text(text).require(), Known(), Launch(note=note), journal, "mine")
        ).close()
    file.write_text(text.replace("a=1", "a=5"))
    with running(folder) as api:
        said = api("POST", "/v1/runs/mine/resume", {})
        assert (said.status, said.code) == (409, "JRN024")
        assert "mine.ltp was edited" in said.json["detail"]
        assert "step S1 (argument a)" in said.json["detail"]
        assert api.get("/v1/runs/mine")["status"] == "interrupted"
        assert api("POST", "/v1/runs/mine/resume", {"as_recorded": True}).status == 202
        assert api.ended("mine")["response"] == "2"


def test_run_is_not_ended_for_one_that_cannot_begin(api):
    text = '# ltp: 2\nS1: @ASK_HUMAN ("which?") > $x\n@RESPOND ($x)'
    api("POST", "/v1/runs", {"plan": text, "run_id": "r"})
    api.until("r", "waiting")
    body = {"plan": text.replace("which", "what"), "run_id": "r", "effects": True}
    said = api("POST", "/v1/runs/r/resume", body)
    assert (said.status, said.code) == (409, "JRN003")
    assert api.get("/v1/runs/r")["status"] == "waiting"


def test_run_of_another_engine_is_refused_at_once(folder):
    plan = plan_text("S1: @RESPOND (1)").require()
    with Journal.open(folder / "journal.db") as journal:
        launch = Launch(note={ENGINE: {"name": "temporal"}})
        asyncio.run(enlist_run(plan, Known(), launch, journal, "there")).close()
    with running(folder) as api:
        for action in ("resume", "pause", "cancel"):
            said = api("POST", f"/v1/runs/there/{action}", {})
            assert (said.code, "`callsheet pause there`" in said.json["diagnostics"][0]["help"]) == (
                "TMP007",
                True,
            )


def test_resume_can_decide_about_all_calls_in_doubt(folder):
    with running(folder) as api:
        api.start('S1: @WRITE (name="never") > $x', run_id="r")
        began("never")
        said = api("POST", "/v1/runs/r/resume", {})
        assert (said.status, said.code) == (409, "JRN004")
    with running(folder, revives=False) as api:
        assert api.get("/v1/runs/r")["status"] == "interrupted"
        said = api("POST", "/v1/runs/r/resume", {"in_doubt": {"decision": "skip"}})
        assert said.status == 202
        assert api.ended("r")["status"] == "done"


def test_approval_applies_to_call_that_was_shown(api):
    api.start('S1: @NOTE (line="hi") > $x', "S2: @RESPOND ($x)", run_id="r", approve=["note"])
    api.until("r", "waiting")
    (ask,) = fits(api.get("/v1/inbox"), Inbox)["asks"]
    assert (ask["tool"], ask["args"]) == ("NOTE", {"line": "hi"})
    other = api("POST", "/v1/runs/r/approve", {"digest": "0" * 64})
    assert (other.status, other.code) == (409, "RUN030")
    both = api("POST", "/v1/runs/r/approve", {"deny": True, "answer": 1})
    assert (both.status, both.code) == (422, "API008")
    said = api("POST", "/v1/runs/r/approve", {"digest": ask["digest"], "by": "ada"})
    assert said.status == 200
    assert api.ended("r")["response"] == "hi"
    again = api("POST", "/v1/runs/r/approve", {})
    assert (again.status, again.code) == (409, "RUN030")


def test_approval_for_program_covers_the_further_calls_that_were_listed(api):
    plan = "# ltp: 2\n" + "".join(f'@NOTE (line="{line}")\n' for line in ("a", "b", "c"))
    assert api("POST", "/v1/runs", {"plan": plan, "run_id": "r", "approve": ["note"]}).status == 202
    api.until("r", "waiting")
    (ask,) = fits(api.get("/v1/inbox"), Inbox)["asks"]
    further = ask["program"]
    assert [(call["args"], call["alone"]) for call in further["calls"]] == [
        ({"line": "b"}, None), ({"line": "c"}, None)
    ]  # fmt: skip
    wrong = api("POST", "/v1/runs/r/approve", {"program": "0" * 64})
    assert (wrong.status, wrong.code) == (409, "RUN030")
    both = api("POST", "/v1/runs/r/approve", {"deny": True, "program": further["hash"]})
    assert (both.status, both.code) == (422, "API008")
    assert api("POST", "/v1/runs/r/approve", {"program": further["hash"]}).status == 200
    assert api.ended("r")["status"] == "done"


def test_secrets_are_in_no_response(api):
    api.start("S1: @RESPOND ($key)", run_id="r", secrets={"key": "hunter2-hunter2"})
    api.ended("r")
    seen = [api("GET", path).body for path in ("/v1/runs/r", "/v1/runs")]
    seen.append(json.dumps([*api.stream("r")]).encode())
    assert not any(b"hunter2" in body for body in seen)


def test_two_hundred_concurrent_runs_end_while_watched(folder):
    with running(folder, running=8) as api:
        api.start('S1: @HOLD (name="go") > $x', run_id="watched")
        seen: list[str] = []
        watcher = threading.Thread(target=lambda: seen.extend(name for name, _, _ in api.stream("watched")))
        watcher.start()
        failed: list[object] = []

        def start(first):
            for n in range(first, 200, 10):
                said = api("POST", "/v1/runs", {"plan": f"S1: @ADD (a={n}) > $x", "run_id": f"n{n}"})
                if said.status != 202:
                    failed.append(said)

        starters = [threading.Thread(target=start, args=(n,)) for n in range(10)]
        for thread in starters:
            thread.start()
        for thread in starters:
            thread.join(120)
        assert not failed
        for n in range(200):
            assert api.ended(f"n{n}")["variables"]["x"] == n + 1
        touch("go")
        watcher.join(30)
        assert seen[-1] == "end"
    with Journal.open_to_read(folder / "journal.db") as journal:
        runs = journal.runs()
        assert len(runs) == 201
        assert {str(info.status) for info in runs} == {"done"}
        assert all(journal.verify(info.run_id) is None for info in runs[:5])


def test_runs_with_failures_are_told_apart_and_found(api):
    api.start('S1: @CALC ("1 / $n") > $x', 'S2: @RESPOND ("hi")', run_id="partial", inputs={"n": 0})
    api.start('S1: @RESPOND ("hi")', run_id="whole")
    ended = api.ended("partial")
    assert (ended["status"], ended["outcome"], ended["failed_steps"]) == (
        "done",
        "done_with_failures",
        ["S1"],
    )
    api.ended("whole")
    found = fits(api.get("/v1/runs?status=done_with_failures"), RunList)["runs"]
    assert [(run["run_id"], run["status"], run["outcome"]) for run in found] == [
        ("partial", "done", "done_with_failures")
    ]
    assert len(api.get("/v1/runs?status=done")["runs"]) == 2
    assert [run["run_id"] for run in api.get("/v1/runs?text=with%20failures")["runs"]] == ["partial"]
