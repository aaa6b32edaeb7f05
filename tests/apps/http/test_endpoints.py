"""Pages for plans and runs (parse, save, dry run, explain, branch): responses match the document."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import jsonschema
import pytest

from apps.http.conftest import plan_of, running, setup_of
from callsheet.api.policies import load_policy
from callsheet.apps.http.table import document

SUM = {"index": 1, "title": "t", "tool": "add", "args": {"a": 1, "b": 2}, "depends_on": []}
GOOD = plan_of("S1: @ADD (a=1) > $x", 'S2: @RESPOND ("$x")')
OPENAPI = document()


def told(api, method, path, body=None, status=200, at=None, **headers):
    """The response of a route, validated against the document; `at` is the documented path."""
    said = api(method, path, body, **headers)
    assert said.status == status, said.body
    row = OPENAPI["paths"][at or path.partition("?")[0]][method.lower()]["responses"][str(status)]
    kind = said.headers["content-type"].partition(";")[0]
    schema = row["content"][kind].get("schema", {})
    data = said.json if kind == "application/json" else said.body.decode()
    whole = {**schema, "components": OPENAPI["components"]}
    jsonschema.validate(data, whole, cls=jsonschema.Draft202012Validator)
    return data


def test_text_is_parsed_formatted_checked_and_drawn(api):
    read = told(api, "POST", "/v1/parse", {"plan": GOOD})
    assert [step["id"] for step in read["steps"]] == ["S1", "S2"]
    wrong = told(api, "POST", "/v1/parse", {"plan": plan_of("S1: what")})
    assert (wrong["ok"], wrong["diagnostics"][0]["line"]) == (False, 3)
    printed = told(api, "POST", "/v1/format", {"plan": "search  'tea' >hits"})
    assert printed["text"] == 'search "tea" > hits\n'
    other = told(api, "POST", "/v1/format", {"plan": plan_of("S1: @ADD (1, 2) > $x"), "to": "dag"})
    assert json.loads(other["text"])["steps"][0]["args"] == {"a": 1, "b": 2}
    checked = told(api, "POST", "/v1/validate", {"plan": plan_of("S1: @AD (a=1) > $x")})
    assert checked["diagnostics"][0]["code"] == "CHK040"
    alone = told(api, "POST", "/v1/validate", {"plan": plan_of("S1: @AD (a=1) > $x"), "tools": False})
    assert alone["ok"]
    assert told(api, "POST", "/v1/visualize", {"plan": GOOD})["graph"].startswith("graph TD")
    refused = api("POST", "/v1/visualize", {"plan": "what"})
    assert (refused.status, refused.code) == (422, "CFG019")


EDITED = {
    "ltp": ("# ltp: 2\nS1: @ADD (a=1, b=2) > $x", "\nS2: @RESPOND ($", "$x"),
    "micro": ("@ADD 1 2 > x", "\nrespond $", "$x"),
    "dag": (json.dumps({"steps": [SUM]}), "", ""),
    "python": ("async def main():\n    x = await add(a=1, b=2)", "\n    return await ad", "add"),
}
"""A plan in each spelling, what is typed next, and what is proposed then."""


def test_edited_text_is_marked_explained_and_completed_in_all_spellings(folder):
    with running(folder, policy=load_policy("strict")) as api:
        for syntax, (plan, typed, wanted) in EDITED.items():
            marks = told(api, "POST", "/v1/editor/marks", {"plan": plan})
            assert (marks["syntax"], marks["ok"]) == (syntax, True)
            starts = accumulate(marks["tokens"][::3])
            ends = zip(starts, marks["tokens"][1::3], strict=True)
            words = [plan[start : start + length] for start, length in ends]
            assert {"@ADD", "add", '"tool"'} & {*words}
            at = plan.lower().index("add") + 2
            about = told(api, "POST", "/v1/editor/hover", {"plan": plan, "at": at})
            assert syntax == "dag" or "The sum of two numbers" in about["about"]
            longer = {"plan": plan + typed, "at": len(plan + typed)}
            found = told(api, "POST", "/v1/editor/completion", longer)["proposals"]
            assert not typed or wanted in [one["label"] for one in found]
        plan = 'S1: @FETCH_PAGE (url="https://h.test/") > $p\nS2: @NOTES ("$p") > $x\nS3: @RESPOND ($x)\n'
        place = {"plan": plan, "at": plan.index("$p") + 1}
        found = told(api, "POST", "/v1/editor/name", place)
        assert (len(found["definitions"]), len(found["places"])) == (1, 2)
        edits = told(api, "POST", "/v1/editor/rename", {**place, "name": "page"})["edits"]
        assert [(plan[edit["start"] : edit["end"]], edit["text"]) for edit in edits] == [("p", "page")] * 2
        rows = told(api, "POST", "/v1/editor/marks", {"plan": plan})["diagnostics"]
        assert [[fix["title"] for fix in row["fixes"]] for row in rows if row["code"] == "CHK040"] == [
            ["write NOTE"]
        ]
        known = told(api, "POST", "/v1/editor/marks", {"plan": plan.replace("@NOTES", "@NOTE")})
        assert {row["code"][:3] for row in known["diagnostics"] if row["severity"] == "error"} == {"POL"}


def test_missing_variable_hint_names_inputs(api):
    rows = told(api, "POST", "/v1/validate", {"plan": plan_of("S1: @RESPOND ($x)")})["diagnostics"]
    (hint,) = [row["help"] for row in rows if row["code"] == "CHK001"]
    assert hint == "it is null here; give x in `inputs` or set it with a step"
    step = {"index": 1, "title": "t", "tool": "add", "args": {"a": "${x}", "b": 1}, "depends_on": []}
    refused = api("POST", "/v1/runs", {"plan": json.dumps({"steps": [step]})})
    (said,) = [row for row in refused.json["diagnostics"] if row["code"] == "CHK001"]
    assert said["help"].startswith('give x in `inputs`, put it into "variables"')


def test_plan_is_proved_and_explained(api):
    body = {"plan": plan_of('S1: @NOTE (line="x") > $x'), "policy": "strict"}
    proved = told(api, "POST", "/v1/verify", body)
    assert (proved["ok"], proved["violations"][0]["code"]) == (False, "POL101")
    steps = told(api, "POST", "/v1/explain-policy", {**body, "policy": "open"})["steps"]
    assert steps
    missing = api("POST", "/v1/verify", {"plan": GOOD})
    assert (missing.status, missing.code) == (422, "API008")


def test_goal_without_model_is_reported(api):
    said = api("POST", "/v1/compile", {"goal": "add one and one"})
    assert (said.status, said.code) == (422, "CMP001")


def test_labels_from_earlier_runs_apply_to_compiled_plan(folder):
    (folder / "notes.txt").write_text("private")
    (folder / "docs").mkdir()
    (folder / "model.py").write_text(
        "def ask(messages):\n"
        '    return \'S1: @read_file (path="docs/new.md") > $v1\\n'
        'S2: @fetch_page (url="https://x.example/$v1") > $v2\\nS3: @respond ($v2)\'\n'
    )
    keeps = ('S1: @READ_FILE (path="notes.txt") > $a', 'S2: @WRITE_FILE (path="docs/new.md", content=$a)')
    setup = replace(setup_of(folder), model=f"{folder / 'model.py'}:ask")
    goal = {"goal": "Fetch what the file names"}
    with running(folder, setup, policy=load_policy("workspace")) as api:
        assert told(api, "POST", "/v1/compile", goal)["ok"]
        assert api.ended(api.start(*keeps))["status"] == "done"
        made = told(api, "POST", "/v1/compile", goal)
    assert (made["ok"], "POL103" in [row["code"] for row in made["diagnostics"]]) == (False, True)


def test_dry_run_has_no_effect(api):
    body = {"plan": plan_of("S1: @NOTE (line=$what) > $x"), "inputs": {"what": "hi"}, "policy": "strict"}
    found = told(api, "POST", "/v1/dry-run", body)
    assert (found["ok"], Path("notes.txt").exists()) == (False, False)
    assert told(api, "POST", "/v1/dry-run", {"plan": GOOD, "assume": {"S1": 7}})["ok"]
    wrong = api("POST", "/v1/dry-run", {"plan": GOOD, "assume": {"S9": 7}})
    assert (wrong.status, wrong.code) == (422, "RUN040")
    assert api.get("/v1/runs")["runs"] == []


def test_plans_are_stored_run_and_deleted(api):
    at = "/v1/plans/{plan_id}"
    plan = plan_of("S1: @ADD (a=$n) > $x", 'S2: @RESPOND ("$x")')
    made = told(api, "PUT", "/v1/plans/sums", {"plan": plan, "params": ["n:integer=1"]}, 201, at)
    assert (made["version"], list(made["tools"])) == (1, ["ADD"])
    taken = api("PUT", "/v1/plans/sums", {"plan": plan})
    assert (taken.status, taken.code) == (409, "PLN003")
    again = told(api, "PUT", "/v1/plans/sums", {"plan": plan + "# more\n", "replace": True}, 200, at)
    assert again["version"] == 2
    assert told(api, "GET", "/v1/plans/sums", at=at)["text"].endswith("# more\n")
    assert told(api, "GET", "/v1/plans/sums@1", at=at)["version"] == 1
    assert [row["id"] for row in told(api, "GET", "/v1/plans")["plans"]] == ["sums"]
    said = api("POST", "/v1/runs", {"plan_id": "sums", "inputs": {"n": 4}, "run_id": "r"})
    assert said.status == 202, said.body
    assert api.ended("r")["response"] == "5"
    assert api("DELETE", "/v1/plans/sum").status == 404
    assert api("DELETE", "/v1/plans/sums").status == 204
    assert api("GET", "/v1/plans/sums").code == "PLN002"
    assert api("PUT", "/v1/plans/..%2fx", {"plan": plan}).status == 404


@pytest.fixture
def ended(api):
    """A server with an ended run `r`."""
    api.start("S1: @ADD (a=1) > $x", 'S2: @NOTE (line="n$x") > $y', 'S3: @RESPOND ("$y")', run_id="r")
    api.ended("r")
    return api


def test_run_is_explained(ended):
    api, at = ended, "/v1/runs/{run_id}/"
    why = told(api, "GET", "/v1/runs/r/why?variable=y", at=at + "why")
    assert [node["variable"] for node in why["nodes"]] == ["y", "x"]
    assert why["more"] is False
    near = told(api, "GET", "/v1/runs/r/why?variable=y&limit=1", at=at + "why")
    assert ([node["variable"] for node in near["nodes"]], near["more"]) == (["y"], True)
    ahead = told(api, "GET", "/v1/runs/r/why?variable=x&forward=true", at=at + "why")
    assert [call["tool"] for call in ahead["calls"]] == ["NOTE"]
    for path, code in [("why?variable=no", "JRN040"), ("at/99", "JRN041"), ("at/x", "API009")]:
        said = api("GET", f"/v1/runs/r/{path}")
        assert (said.status, said.code) == (404, code)
    assert told(api, "GET", "/v1/runs/r/at/1", at=at + "at/{seq}")["turn"] == "S1"
    lines = told(api, "GET", "/v1/runs/r/journal", at=at + "journal").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [*range(1, len(lines) + 1)]
    some = told(api, "GET", "/v1/runs/r/journal?after=2&limit=2", at=at + "journal").splitlines()
    assert [json.loads(line)["seq"] for line in some] == [3, 4]
    assert told(api, "GET", "/v1/runs/r/lctl", at=at + "lctl")
    assert "lctl" in told(api, "GET", "/v1/runs/r/lctl?at=S1", at=at + "lctl", accept="application/yaml")
    page = told(api, "GET", "/v1/runs/r/report", at=at + "report")
    assert page.startswith("<!doctype html>")
    assert told(api, "GET", "/v1/runs/r/document", at=at + "document")["run"]["id"] == "r"


def test_edited_plan_keeps_finished_calls_and_needs_consent(ended):
    api, at = ended, "/v1/runs/{run_id}/"
    text = '# ltp: 2\nS1: @NOTE (line="a") > $x\nS2: @NOTE (line="b") > $y\n@RESPOND ("${x} ${y}")'
    told(api, "POST", "/v1/runs", {"plan": text, "run_id": "t"}, 202, "/v1/runs")
    assert api.ended("t")["response"] == "a b"
    for verb, new_id, line in (("rerun", "t2", "c"), ("resume", "t3", "d")):
        body = {"plan": text.replace('"b"', f'"{line}"')}
        refused = api("POST", f"/v1/runs/t/{verb}", body)
        assert (refused.status, refused.code) == (409, "JRN083")
        assert refused.json["kept"][0] == "kept: 1 call: S1"
        assert [effect["step"] for effect in refused.json["effects"]] == ["S2"]
        body |= {"consent": refused.json["consent"], "run_id": new_id}
        told(api, "POST", f"/v1/runs/t/{verb}", body, 202, at + verb)
        assert api.ended(new_id)["response"] == f"a {line}"
    wrong = api("POST", "/v1/runs/t/rerun", {"plan": "# ltp: 2\n@RESPOND ($nothing)"})
    assert wrong.status == 422
    assert api("POST", "/v1/runs/t/rerun", {}).status == 422


LOOP = """# ltp: 2
S1: ?FOREACH ($n IN ["a", "", "b"]) {
  REQUIRE ($n) "nothing to note"
  S2: @NOTE (line=$n) > $x
  YIELD ($x)
} > $rows ON_FAIL SKIP
S3: @NOTE (line="${len($rows)} noted")
"""


def test_failed_items_run_again_after_consent_and_the_others_are_kept(ended):
    api, notes = ended, ended.folder / "notes.txt"
    notes.unlink(missing_ok=True)
    told(api, "POST", "/v1/runs", {"plan": LOOP, "run_id": "t"}, 202, "/v1/runs")
    assert api.ended("t")["outcome"] == "done_with_failures"
    assert api("POST", "/v1/runs/t/rerun", {"step": "S1", "failed_items": True}).status == 422
    again = {"failed_items": True, "effects": True, "run_id": "t2"}
    told(
        api, "POST", "/v1/runs/t/rerun", again, 202, "/v1/runs/{run_id}/rerun"
    )  # all calls turn out the same
    assert api.ended("t2")["outcome"] == "done_with_failures"
    assert notes.read_text() == "a\nb\n2 noted\n"
    plan = LOOP.replace('"nothing to note"', '"nothing"').replace('["a", ""', '["a", "c"')
    body = {"failed_items": True, "plan": plan, "run_id": "t3"}
    refused = api("POST", "/v1/runs/t/rerun", body)
    assert (refused.status, refused.code) == (409, "JRN083")
    assert refused.json["kept"][:2] == ["failed items of S1: 1 of 3: [1]", "kept: 2 calls: S2 (2)"]
    body |= {"consent": refused.json["consent"]}
    told(api, "POST", "/v1/runs/t/rerun", body, 202, "/v1/runs/{run_id}/rerun")
    assert api.ended("t3")["outcome"] == "done"
    assert notes.read_text() == "a\nb\n2 noted\nc\n3 noted\n"
    assert api("POST", "/v1/runs/t3/rerun", {"failed_items": True}).code == "JRN087"


def test_run_is_undone_after_consent_and_what_cannot_be_undone_is_named_first(ended):
    api, at, notes = ended, "/v1/runs/{run_id}/undo", ended.folder / "notes.txt"
    notes.unlink(missing_ok=True)
    (ended.folder / "gate").touch()
    steps = ('S1: @NOTE (line="a") > $x', 'S2: @NOTE (line="b") > $y', 'S3: @WRITE (name="gate") > $z')
    api.ended(api.start(*steps, run_id="u"))
    seen = told(api, "GET", "/v1/runs/u/undo", at=at)
    assert seen["text"][0] == "1 call of run u cannot be undone:"
    assert [call["takes_back"]["arguments"] for call in seen["calls"]] == [{"line": "b"}, {"line": "a"}]
    assert seen["irreversible"][0]["why"] == "no inverse of @WRITE is declared"
    assert len(told(api, "GET", "/v1/runs/u/undo?step=S2", at=at)["calls"]) == 1
    refused = api("POST", "/v1/runs/u/undo", {})
    assert (refused.status, refused.code, refused.json["undo"]) == (409, "JRN083", seen)
    assert api("POST", "/v1/runs/u/undo", {"consent": "0" * 64}).code == "JRN083"
    assert notes.read_text() == "a\nb\n"
    part = api("POST", "/v1/runs/u/undo", {"step": "S2"}).json["consent"]
    name = told(api, "POST", "/v1/runs/u/undo", {"step": "S2", "consent": part}, 202, at)["run_id"]
    assert (name, api.ended(name)["status"], notes.read_text()) == ("undo-u", "done", "a\n")
    rest = told(api, "POST", "/v1/runs/u/undo", {"effects": True}, 202, at)["run_id"]
    assert (api.ended(rest)["status"], notes.read_text()) == ("done", "")
    assert api("POST", "/v1/runs/u/undo", {"effects": True}).code == "JRN086"


def test_undoing_that_was_interrupted_goes_on_with_the_same_request(folder):
    (folder / "frozen").touch()
    with running(folder) as api:
        api.ended(api.start('S1: @NOTE (line="a") > $x', run_id="u"))
        assert api("POST", "/v1/runs/u/undo", {"effects": True}).json["run_id"] == "undo-u"
        while not (folder / "frozen.began").exists():
            time.sleep(0.01)
        assert api("POST", "/v1/runs/u/undo", {"effects": True}).json["run_id"] == "undo-u"  # under way
        assert api.get("/v1/runs/u/undo")["unfinished"] == "undo-u"
    with running(folder) as api:  # which goes on by itself with what was interrupted
        assert api("POST", "/v1/runs/u/undo", {}).json["run_id"] == "undo-u"
        (folder / "frozen").unlink()
        assert (api.ended("undo-u")["status"], (folder / "notes.txt").read_text()) == ("done", "")


def test_one_tool_is_called_as_a_run_and_its_name_is_no_more_than_that(ended):
    api, at = ended, "/v1/tools/{tool}/call"
    body = {"arguments": {"a": 40, "b": 2}}
    name = told(api, "POST", "/v1/tools/ADD/call", body, 202, at)["run_id"]
    assert api.ended(name)["response"] == "42"
    again = api.get(f"/v1/runs/{name}/beginning")
    assert (again["inputs"], again["sealed"]) == ({"a": 40, "b": 2}, [])
    more = "/v1/tools/ADD%20%28a=1%29%20%3E%20%24x%0AS2%3A%20%40NOTE/call"
    assert api("POST", more, {"arguments": {"line": "x"}}).code == "CFG011"


def test_branching_needs_confirmation(ended):
    api = ended
    refused = api("POST", "/v1/runs/r/rerun", {"step": "S2"})
    assert (refused.status, refused.code) == (409, "JRN083")
    assert [effect["tool"] for effect in refused.json["effects"]] == ["NOTE"]
    assert refused.json["effects"][0]["text"] == ['next, as at event 4 of r: line="n2"']
    other = {"step": "S2", "consent": "0" * 64}
    assert api("POST", "/v1/runs/r/rerun", other).code == "JRN083"
    exactly = {"step": "S2", "consent": refused.json["consent"], "run_id": "c"}
    told(api, "POST", "/v1/runs/r/rerun", exactly, 202, "/v1/runs/{run_id}/rerun")
    assert api.ended("c")["response"] == "n2"
    again = told(
        api, "POST", "/v1/runs/r/rerun", {"step": "S2", "effects": True}, 202, "/v1/runs/{run_id}/rerun"
    )
    assert api.ended(again["run_id"])["response"] == "n2"
    at = next(e["seq"] for _, _, e in api.stream("r") if e.get("type") == "ok")
    body = {"at": at, "variables": {"x": 7}, "effects": True, "run_id": "f", "by": "ada"}
    told(api, "POST", "/v1/runs/r/fork", body, 202, "/v1/runs/{run_id}/fork")
    assert api.ended("f")["response"] == "n7"
    told(api, "GET", "/v1/runs/r/diff?other=f", at="/v1/runs/{run_id}/diff")
    assert api.get("/v1/runs/f")["from"]["by"] == "ada"


def test_server_describes_itself(folder):
    with running(folder, policy=load_policy("strict")) as api:
        assert told(api, "GET", "/v1/health", authorization=None)["ok"]
        tools = told(api, "GET", "/v1/tools")["tools"]
        assert {"ADD", "NOTE"} <= {tool["name"] for tool in tools}
        assert told(api, "GET", "/v1/policy")["in_force"]["name"] == "strict"
        assert told(api, "GET", "/v1/policy/open", at="/v1/policy/{name}")["name"] == "open"
        assert api("GET", "/v1/policy/none").status == 404
        assert told(api, "GET", "/v1/explain/chk040", at="/v1/explain/{code}")["code"] == "CHK040"
        assert api("GET", "/v1/explain/NONE").code == "CFG015"
        refused = api("POST", "/v1/runs", {"plan": plan_of('S1: @NOTE (line="x") > $x')})
        assert (refused.status, refused.code) == (403, "POL101")
        own = api("POST", "/v1/runs", {"plan": GOOD, "policy": "open"})
        assert (own.status, own.code) == (409, "API020")
