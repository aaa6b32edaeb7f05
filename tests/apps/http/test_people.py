"""People of a server: who may do what, whose name is in the journal, and links that sign in once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.apps.http.conftest import TOKEN, Api, Said, running

from callsheet import Runtime, tool
from callsheet.api.policies import load_policy
from callsheet.apps.cli.main import main
from callsheet.apps.http.clients import Keys
from callsheet.apps.http.people import RIGHTS, Right
from callsheet.apps.http.table import ENDPOINTS
from callsheet.apps.scheduling.notices import link_key, new_link, read_link

ASK = 'S1: @ASK_HUMAN (prompt="go on?") > $x'
RULE = 'egress = false\napproval = "always"\napprover = "finance"'
HOUSE = f'schema = 1\nextends = "workspace"\n[tools.NOTE]\n{RULE}\n'
NOTE = '# ltp: 2\nS1: @NOTE (line="paid") > $x\nS2: @RESPOND ($x)\n'


def command(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def tokens(folder: Path) -> dict[str, str]:
    """The tokens of people, whose file the command line has written."""
    file = folder / "people.toml"
    found: dict[str, str] = {}
    for name, role in (("ada", "approver"), ("bo", "operator"), ("cy", "admin")):
        found[name] = json.loads(command("people", "add", str(file), name, "--role", role, "--json"))["token"]
    file.write_text(
        file.read_text().replace(
            'approver = ["answer"]', 'approver = ["answer"]\nfinance = []\nclerk = ["start"]'
        )
    )
    found["dee"] = command(
        "people", "add", str(file), "dee", "--role", "approver", "--role", "finance"
    ).strip()
    found["eli"] = command("people", "add", str(file), "eli", "--role", "clerk").strip()
    text = file.read_text()
    assert all(token not in text for token in found.values())
    assert file.stat().st_mode & 0o777 == 0o600
    return found


@pytest.fixture
def api(folder: Path, tokens: dict[str, str]) -> Iterator[Api]:
    with running(folder, people=folder / "people.toml") as made:
        yield made


def as_person(api: Api, tokens: dict[str, str], name: str) -> Api:
    return Api(api.url, api.folder, tokens[name])


def test_each_request_that_changes_something_has_a_right() -> None:
    changing = {(each.method, each.path) for each in ENDPOINTS if each.method != "GET"}
    assert changing == set(RIGHTS)


def test_people_do_what_their_roles_may_and_their_names_are_recorded(
    api: Api, tokens: dict[str, str]
) -> None:
    ada, bo, cy = (as_person(api, tokens, name) for name in ("ada", "bo", "cy"))

    def refused(said: Said, right: str, who: str) -> None:
        assert (said.status, said.code) == (403, "API023"), said.body
        assert said.json["detail"] == f"{who} may not {right} here"

    assert ada.get("/v1/session")["person"] == "ada"
    assert ada.get("/v1/session")["rights"] == ["answer"]
    refused(ada("POST", "/v1/runs", {"plan": ASK}), "start", "ada")
    run = bo.start(ASK, 'S2: @RESPOND ("$x")', tags={"by": "somebody"})
    bo.until(run, "waiting")
    refused(ada("POST", f"/v1/runs/{run}/cancel", {}), "cancel", "ada")
    refused(bo("DELETE", f"/v1/runs/{run}"), "administer", "bo")
    refused(bo("PUT", "/v1/plans/p", {"plan": ASK}), "administer", "bo")
    forged = ada("POST", f"/v1/runs/{run}/approve", {"answer": "yes", "by": "bo"})
    assert (forged.status, forged.json["detail"]) == (422, "by: you are signed in as ada, not bo")
    assert ada("POST", f"/v1/runs/{run}/approve", {"answer": "yes"}).status == 200
    ended = ada.ended(run)
    assert ended["response"] == "yes"
    assert ended["steps"][0]["answers"] == ["answer by ada"]
    assert ended["tags"] == {"by": "bo"}
    assert [row["tags"] for row in ada.get("/v1/runs?tag=by%3Dbo")["runs"]] == [{"by": "bo"}]
    other = bo.start(ASK)
    bo.until(other, "waiting")
    assert cy("POST", f"/v1/runs/{other}/cancel", {"reason": "too late"}).status == 200
    assert "too late, by cy" in json.dumps(cy.get(f"/v1/runs/{other}"))
    assert cy("DELETE", f"/v1/runs/{other}").status == 204
    assert Api(api.url, api.folder, "x" * 43)("GET", "/v1/runs").status == 401
    assert api.get("/v1/session")["person"] == "operator"
    shown = command("show", run, "--journal", str(api.folder / "journal.db"))
    assert "by ada" in shown
    assert "by=bo" in shown


def test_person_who_is_removed_is_out_at_once(api: Api, tokens: dict[str, str]) -> None:
    file = api.folder / "people.toml"
    signed = api("POST", "/v1/session", {"secret": tokens["ada"]}, authorization=None)
    assert (signed.status, signed.json["person"]) == (200, "ada")
    cookie = signed.headers["set-cookie"].partition(";")[0]
    assert api("GET", "/v1/session", authorization=None, cookie=cookie).json["person"] == "ada"
    file.write_text(file.read_text().replace('[people."ada"]', '[people."eve"]'))
    assert api("GET", "/v1/session", authorization=None, cookie=cookie).status == 401
    assert as_person(api, tokens, "ada").get("/v1/session")["person"] == "eve"
    file.write_text("[people")
    assert as_person(api, tokens, "bo").get("/v1/session")["person"] == "bo", "the last good version counts"


def test_policy_may_demand_a_role_of_who_approves(folder: Path, tokens: dict[str, str]) -> None:
    (folder / "house.toml").write_text(HOUSE)
    policy = load_policy(str(folder / "house.toml"))
    with running(folder, people=folder / "people.toml", policy=policy) as api:
        ada, bo, dee, eli = (as_person(api, tokens, name) for name in ("ada", "bo", "dee", "eli"))
        early = {"plan": NOTE, "run_id": "pay", "approved": ["S1"]}
        assert eli("POST", "/v1/runs", early).code == "API023", "approving is not starting"
        started = bo("POST", "/v1/runs", early)
        assert started.status == 202, started.body
        assert [each["code"] for each in started.json["diagnostics"]] == ["POL012"]
        bo.until("pay", "waiting")
        decided = {"in_doubt": {"decision": "skip"}}
        assert eli("POST", "/v1/runs/pay/resume", decided).code == "API023"
        assert ada.get("/v1/inbox")["asks"][0]["role"] == "finance"
        refused = ada("POST", "/v1/runs/pay/approve", {})
        assert (refused.status, refused.code) == (403, "RUN039")
        shell = CliRunner().invoke(main, ["approve", "pay", "--journal", str(folder / "journal.db")])
        assert "only somebody with the role finance may answer this" in shell.stderr
        assert not (folder / "notes.txt").exists()
        assert dee("POST", "/v1/runs/pay/approve", {"note": "checked"}).status == 200
        assert dee.ended("pay")["status"] == "done"
    why = command("why", "pay", "answer", "--journal", str(folder / "journal.db"))
    assert "S1.1 was approved by dee: checked" in why


def test_program_that_runs_plans_itself_vouches_for_who_answers(folder: Path) -> None:
    (folder / "house.toml").write_text(HOUSE)

    @tool(name="NOTE", effect="unsafe")
    def note(line: str) -> str:
        return line

    policy, journal = load_policy(str(folder / "house.toml")), folder / "journal.db"
    with Runtime(tools=[note], policy=policy, journal=journal) as runtime:
        assert [ask.role for ask in runtime.run_sync(NOTE).waiting] == ["finance"]
    with Runtime(tools=[note], policy=policy, on_approval=lambda ask: ask.role == "finance") as runtime:
        assert runtime.run_sync(NOTE).response == "paid"


def test_link_signs_in_once_as_its_person(folder: Path) -> None:
    with running(folder) as api:
        key = link_key(TOKEN, folder / "journal.db")
        code = new_link(key, "ops", 4e9)
        signed = api("POST", "/v1/session", {"secret": code}, authorization=None)
        assert (signed.status, signed.json["person"], signed.json["rights"]) == (200, "ops", ["answer"])
        assert api("POST", "/v1/session", {"secret": code}, authorization=None).code == "API015"
        cookie = signed.headers["set-cookie"].partition(";")[0]
        run = api.start(ASK, 'S2: @RESPOND ("$x")')
        api.until(run, "waiting")
        sent = {"authorization": None, "cookie": cookie, "x_callsheet": "1"}
        assert api("POST", "/v1/runs", {"plan": ASK}, **sent).code == "API023"
        assert api("POST", f"/v1/runs/{run}/approve", {"answer": "yes"}, **sent).status == 200
        assert api.ended(run)["steps"][0]["answers"] == ["answer by ops"]
    with running(folder) as api:
        assert api("POST", "/v1/session", {"secret": code}, authorization=None).code == "API015", (
            "used before"
        )
        named = f"callsheet_{api.url.rpartition(':')[2]}={cookie.partition('=')[2]}"
        assert api("GET", "/v1/session", authorization=None, cookie=named).json["person"] == "ops"


def test_link_is_bound_to_token_journal_name_and_time(tmp_path: Path) -> None:
    key = link_key("t" * 40, tmp_path / "j.db")
    code = new_link(key, "Ådne", 1000)
    assert read_link(key, code, 999.0) is not None
    assert read_link(key, code, 1000.0) is None
    assert read_link(link_key("u" * 40, tmp_path / "j.db"), code, 0) is None
    assert read_link(link_key("t" * 40, tmp_path / "k.db"), code, 0) is None
    for at in range(0, len(code), 7):
        changed = code[:at] + ("A" if code[at] != "A" else "B") + code[at + 1 :]
        assert read_link(key, changed, 0) is None
    assert read_link(key, code[:20], 0) is read_link(key, "é", 0) is None
    now = [0.0]
    keys = Keys("t" * 40, tmp_path / "j.db", clock=lambda: now[0])
    assert keys.sign_in(new_link(key, "", 1000)) is None, "a link signs nobody in as the operator"
    assert keys.sign_in(new_link(key, "operator", 1000)) is None
    assert Right.ADMINISTER not in (keys.person_of_session(keys.sign_in(code) or "") or keys.operator).rights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[roles]\na = ["fly"]', "'fly' is none of start, answer, cancel, administer"),
        (f'[people.x]\nroles = ["b"]\ntoken = "sha256:{"0" * 64}"', "x has the role 'b', which is not in"),
        ('[people.x]\nroles = []\ntoken = "plain"', "token: write sha256:"),
        (f'[people.operator]\nroles = []\ntoken = "sha256:{"0" * 64}"', "'operator' is no name"),
    ],
)
def test_wrong_file_of_people_is_reported_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "people.toml"
    file.write_text(text)
    for line in (["people", "list", str(file)], ["serve", "--port", "0", "--people", str(file)]):
        done = CliRunner().invoke(main, line)
        assert done.exit_code == 2
        assert message in done.stderr
        assert "people.toml:" in done.stderr
    refused = CliRunner().invoke(main, ["serve", "--no-auth", "--people", str(file)])
    assert (refused.exit_code, "API012" in refused.stderr) == (2, True)
