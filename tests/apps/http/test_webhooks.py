"""Webhooks over real HTTP: who may start a plan with what, and that a delivery starts it once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from standardwebhooks.webhooks import Webhook as StandardSender
from tests import forked
from tests.apps.http.conftest import TOKEN, Api, Said, running
from tests.network import free_port

from callsheet.api.policies import load_policy
from callsheet.apps.cli.main import main
from callsheet.apps.http.state import OpenWebhook
from callsheet.apps.projects import settings_in, trust
from callsheet.apps.scheduling.scheduler import ScheduledProject
from callsheet.apps.scheduling.webhooks import Webhook
from callsheet.diagnostics import CallsheetError

KEY = base64.b64encode(b"k" * 32).decode()
GITHUB = "g" * 40
PLAN = """# ltp: 2
INPUT $title: str
INPUT $number: int
INPUT $folder: str = "none"
S1: @ADD (a=$number) > $next
LET $text = $title + " " + str($next) + " " + $folder
S2: @RESPOND ($text)
"""
NOTE = """# ltp: 2
INPUT $line: str
S1: @NOTE (line=$line) > $noted
S2: @RESPOND ($noted)
"""
TABLES = """
tools = ["tools.py"]
[webhooks.issues]
plan = "plan.ltp"
secret = "env:ISSUES"
take = { title = "issue.title", number = "issue.numbers[0]" }
inputs = { folder = "inbox" }
only = { action = ["opened", "reopened"] }
max_body = 2000
[webhooks.hub]
plan = "plan.ltp"
signature = "github"
secret = "env:HUB"
[webhooks.note]
plan = "note.ltp"
secret = "env:ISSUES"
"""
BODY = {"action": "opened", "issue": {"title": "Ünruly", "numbers": [7]}}


class Sender:
    """A sender of Standard Webhooks, whose signatures the library of that standard makes."""

    def __init__(self, api: Api, name: str = "issues", key: str = KEY) -> None:
        self.api, self.name, self.key = api, name, key

    def __call__(
        self, body: Any, id_: str = "msg_1", *, at: float | None = None, raw: bytes | None = None
    ) -> Said:
        data = json.dumps(body, ensure_ascii=False).encode() if raw is None else raw
        when = time.time() if at is None else at
        return self.api(
            "POST", f"/v1/webhooks/{self.name}", raw=data, authorization=None, **self.headers(id_, when, data)
        )

    def headers(self, id_: str, when: float, data: bytes) -> dict[str, str]:
        stamp = datetime.fromtimestamp(int(when), UTC)
        signature = StandardSender(f"whsec_{self.key}").sign(id_, stamp, data.decode())
        return {
            "webhook_id": id_,
            "webhook_timestamp": str(int(when)),
            "webhook_signature": f"v1,bm9uZQ== {signature}",
        }


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLSHEET_PROJECTS", str(folder / "projects.json"))
    monkeypatch.setenv("ISSUES", f"whsec_{KEY}")
    monkeypatch.setenv("HUB", GITHUB)
    (folder / "plan.ltp").write_text(PLAN)
    (folder / "note.ltp").write_text(NOTE)
    file = folder / "callsheet.toml"
    file.write_text(TABLES)
    trust([file])
    return folder


def webhooks_of(folder: Path, **changes: Any) -> dict[str, OpenWebhook]:
    named = settings_in(folder / "callsheet.toml", ScheduledProject).webhooks
    return {name: OpenWebhook.of(each, folder) for name, each in named.items()}


@pytest.fixture
def hooked(project: Path) -> Iterator[Api]:
    with running(project, webhooks=webhooks_of(project)) as api:
        yield api


def test_signed_body_starts_plan_once(hooked: Api) -> None:
    send = Sender(hooked)
    first = send(BODY)
    assert first.status == 202, first.body
    run = first.json["run_id"]
    assert first.headers["location"] == f"/v1/runs/{run}"
    ended = hooked.ended(run)
    assert ended["response"] == "Ünruly 8 inbox"
    assert [row["run_id"] for row in hooked.get("/v1/runs?tag=webhook%3Dissues")["runs"]] == [run]
    again = send(BODY)
    assert (again.status, again.json) == (
        200,
        {"run_id": run, "status": "done", "is_new": False, "reason": None},
    )
    assert send(BODY, "msg_2").json["is_new"]
    assert len(hooked.get("/v1/runs")["runs"]) == 2
    rows = {row["name"]: row for row in hooked.get("/v1/webhooks")["webhooks"]}
    assert rows["issues"]["path"] == "/v1/webhooks/issues"
    assert rows["issues"]["last"]["run_id"] != run
    assert rows["hub"]["last"] is None
    assert rows["hub"]["problem"] is None


def test_delivery_that_is_not_signed_so_starts_nothing(hooked: Api) -> None:
    send, now = Sender(hooked), time.time()
    data = json.dumps(BODY).encode()
    good = send.headers("msg_1", now, data)

    def told(raw: bytes = data, **headers: str | None) -> tuple[int, str, str]:
        said = hooked("POST", "/v1/webhooks/issues", raw=raw, authorization=None, **(good | headers))
        return said.status, said.code, said.json["detail"]

    wrong = (401, "API021", "the signature is not that of id, time and body")
    assert told(data + b" ") == wrong
    assert told(webhook_id="msg_2") == wrong
    assert told(webhook_timestamp=str(int(now) + 1)) == wrong
    assert told(webhook_signature="v1,é") == wrong
    assert told(webhook_signature=None)[2] == "the header Webhook-Signature is missing"
    assert (
        told(webhook_timestamp="soon")[2] == "the header Webhook-Timestamp is no time in seconds since 1970"
    )
    assert Sender(hooked, key=base64.b64encode(b"x" * 32).decode())(BODY).code == "API021"
    assert Sender(hooked, "hub")(BODY).json["detail"] == "the header X-Hub-Signature-256 is missing"
    late = send(BODY, at=now - 400)
    assert (late.status, late.code) == (401, "API021")
    assert "seconds ago, and may be at most 300" in late.json["detail"]
    assert send(BODY, at=now + 400).json["detail"].endswith("seconds ahead, and may be at most 300")
    nobody = hooked("POST", "/v1/webhooks/nobody", raw=data, authorization=None, **good)
    assert (nobody.status, nobody.code) == (404, "API009")
    assert hooked("GET", "/v1/webhooks", authorization=None).status == 401
    assert hooked.get("/v1/runs")["runs"] == []


def test_body_that_does_not_fit_is_answered_with_what_is_wrong(hooked: Api) -> None:
    send = Sender(hooked)
    lacks = send({"action": "opened", "issue": {"numbers": []}}, "m1")
    assert (lacks.status, lacks.code) == (422, "API022")
    assert lacks.json["detail"] == "the body has no issue.title (for title), issue.numbers[0] (for number)"
    assert any(
        "$title" in row["message"] or "title" in row["message"] for row in lacks.json["diagnostics"][1:]
    )
    typed = send({"action": "opened", "issue": {"title": "x", "numbers": ["7"]}}, "m2")
    assert (typed.status, typed.code) == (422, "API022")
    assert "number" in typed.json["detail"]
    assert "int" in typed.json["detail"]
    assert send(None, "m3", raw=b"{").json["detail"].startswith("the body is not JSON")
    large = send({**BODY, "more": "x" * 3000}, "m5")
    assert (large.status, large.code) == (413, "API005")
    passed = send({**BODY, "action": "closed"}, "m6")
    assert passed.status == 200
    assert passed.json["reason"] == 'action of the body is not "opened" or "reopened"'
    unknown = Sender(hooked, "note")({"line": "x", "colour": "red"}, "m7")
    assert (unknown.status, unknown.code) == (422, "API022")
    assert "colour" in unknown.json["detail"]
    assert Sender(hooked, "note")([1], "m8").json["detail"] == "the body is no JSON object"
    assert hooked.get("/v1/runs")["runs"] == []
    right = send(BODY, "m2")  # mended, and sent again under its id
    assert right.status == 202


def test_github_signs_body_alone_which_is_then_the_identity(hooked: Api) -> None:
    data = json.dumps({"title": "x", "number": 1}).encode()
    signature = "sha256=" + hmac.new(GITHUB.encode(), data, hashlib.sha256).hexdigest()

    def deliver(id_: str, body: bytes = data) -> Said:
        headers = {"x_github_delivery": id_, "x_hub_signature_256": signature}
        return hooked("POST", "/v1/webhooks/hub", raw=body, authorization=None, **headers)

    first = deliver("a")
    assert first.status == 202, first.body
    replayed = deliver("b")  # the id is not signed, so another one proves nothing
    assert (replayed.status, replayed.json["run_id"]) == (200, first.json["run_id"])
    assert deliver("a", data + b"\n").code == "API021"
    assert hooked.ended(first.json["run_id"])["response"] == "x 2 none"


def test_what_body_chooses_is_untrusted_and_what_project_gives_is_not(project: Path) -> None:
    """Under a policy that lets no stranger choose what is noted, only the project may say it."""
    rule = 'egress = false\ndestructive = false\ncontrol = ["line"]'
    (project / "house.toml").write_text(f'schema = 1\nextends = "workspace"\n[tools.NOTE]\n{rule}\n')
    policy = load_policy(str(project / "house.toml"))
    with running(project, webhooks=webhooks_of(project), policy=policy) as api:
        refused = Sender(api, "note")({"line": "ransom"})
        assert (refused.status, refused.code) == (403, refused.code), refused.body
        assert refused.code.startswith("POL")
        file = project / "callsheet.toml"
        own = TABLES.replace(
            'plan = "note.ltp"', 'plan = "note.ltp"\ntake = {}\ninputs = { line = "by the house" }'
        )
        file.write_text(own)
    assert not (project / "notes.txt").exists()
    with running(project, webhooks=webhooks_of(project), policy=policy) as api:
        started = Sender(api, "note")({}, "msg_2")
        assert started.status == 202, started.body
        assert api.ended(started.json["run_id"])["response"] == "by the house"


def test_webhooks_may_name_policy_where_server_has_none(project: Path) -> None:
    file = project / "callsheet.toml"
    file.write_text(TABLES.replace('plan = "note.ltp"', 'plan = "note.ltp"\npolicy = "strict"'))
    with running(project, webhooks=webhooks_of(project)) as api:
        assert Sender(api, "note")({"line": "x"}).status == 403


def test_deliveries_beyond_the_rate_wait(project: Path) -> None:
    file = project / "callsheet.toml"
    file.write_text(TABLES.replace('plan = "note.ltp"', 'plan = "note.ltp"\nper_minute = 2'))
    with running(project, webhooks=webhooks_of(project)) as api:
        send = Sender(api, "note")
        first = send({"line": "1"}, "a")
        assert [first.status, send({"line": "2"}, "b").status] == [202, 202]
        late = send({"line": "3"}, "c")
        assert (late.status, late.code) == (429, "API006")
        assert 20 <= int(late.headers["retry-after"]) <= 30
        assert send({"line": "1"}, "a").json["run_id"] == first.json["run_id"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('secret = "hunter2hunter2"', "secret: write env:VARIABLE"),
        ('secret = "env:X"\ntake = { title = "issue..title" }', "'issue..title' is no path"),
        ('secret = "env:X"\ntake = { t = "a" }\ninputs = { t = 1 }', "t is also among inputs"),
        ('secret = "env:X"\nsignature = "md5"', "must be one of standard, github"),
        ('secret = "env:X"\nwindow = 0', "window: it must be at least 1"),
        ('secret = "env:X"\n[webhooks.Big]\nplan = "p"\nsecret = "env:X"', "'Big' is no name for one"),
    ],
)
def test_wrong_table_is_reported_at_its_place(project: Path, line: str, message: str) -> None:
    file = project / "callsheet.toml"
    file.write_text(f'[webhooks.w]\nplan = "p"\n{line}\n')
    trust([file])
    done = CliRunner().invoke(main, ["webhooks"])
    assert done.exit_code == 2
    assert message in done.stderr
    assert "callsheet.toml:" in done.stderr


def test_secret_that_is_missing_or_short_is_no_secret() -> None:
    webhook = Webhook(plan="p", secret="env:HOOK")
    for value, message in (("", "HOOK is not set"), ("short", "has 5 bytes"), ("whsec_?", "not Base64")):
        with pytest.raises(CallsheetError, match=message):
            webhook.keys({"HOOK": value})
    assert webhook.keys({"HOOK": f"{'a' * 20} whsec_{KEY}"}) == (b"a" * 20, b"k" * 32)


def test_delivery_starts_once_although_server_is_killed_and_command_sends_it(project: Path) -> None:
    """The command line lists the webhooks, signs a body, and the server that is started anew knows it."""
    (project / "note.ltp").write_text(NOTE.replace("@NOTE (line=$line)", "@HOLD (name=$line)"))
    (project / "token").write_text(TOKEN)
    (project / "token").chmod(0o600)
    (project / "body.json").write_text('{"line": "gate"}')
    port = free_port()
    command = [sys.executable, "-m", "callsheet", "serve", "--port", str(port), "--token-file", "token"]
    command += ["--journal", "journal.db", "--json"]

    def send(expected: int = 0) -> dict[str, Any]:
        address = f"http://127.0.0.1:{port}"
        done = CliRunner().invoke(
            main, ["webhooks", "send", "note", "body.json", "--to", address, "--id", "m1", "--json"]
        )
        assert done.exit_code == expected, done.output
        return json.loads(done.stdout)

    assert "is `callsheet serve` running" in send(2)["diagnostics"][0]["message"]
    server = forked.Popen(command, cwd=project, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        server.stdout.readline()
        first = send()
        assert first["http_status"] == 202
        server.kill()
        server.communicate()
        server = forked.Popen(command, cwd=project, stdout=subprocess.PIPE)
        assert server.stdout is not None
        server.stdout.readline()
        again = send()
        assert (again["http_status"], again["run_id"], again["is_new"]) == (200, first["run_id"], False)
        (project / "gate").touch()
        ended = Api(f"http://127.0.0.1:{port}", project).ended(first["run_id"])
        assert ended["response"] == "gate"
    finally:
        server.terminate()
        server.communicate()
    listed = CliRunner().invoke(main, ["webhooks", "--journal", "journal.db", "--json"])
    rows = {row["webhook"]: row for row in json.loads(listed.stdout)}
    assert rows["note"]["last"] == {"run_id": first["run_id"], "status": "done"}
    told = CliRunner().invoke(main, ["webhooks", "--journal", "journal.db"]).stdout
    assert "issues: plan.ltp at /v1/webhooks/issues, signed as standard" in told
    assert "takes $title = issue.title, $number = issue.numbers[0]" in told
