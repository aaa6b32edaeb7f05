"""Notices by mail: a real SMTP server with TLS and a password takes them, and their links answer."""

from __future__ import annotations

import re
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from tests.apps.http.conftest import running
from tests.apps.test_scheduling import NOON, Project
from tests.apps.waiting_tools import TOOLS
from tests.network import free_port

from callsheet.apps.http.state import OpenWebhook
from callsheet.apps.scheduling.notices import Audience, MailServer, Notify, send_mail
from callsheet.apps.scheduling.scheduler import run_id
from callsheet.apps.scheduling.webhooks import Webhook, signed


class Postbox:
    """What an SMTP server with STARTTLS and a password has taken."""

    def __init__(self, certificate: Path) -> None:
        self.mails: list[EmailMessage] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_name("key.pem"))
        self.controller = Controller(
            self, hostname="localhost", port=free_port(), tls_context=context, require_starttls=True,
            auth_required=True, authenticator=self.knows,
        )  # fmt: skip
        self.controller.start()
        self.port = self.controller.port

    def knows(self, server: Any, session: Any, envelope: Any, mechanism: Any, data: Any) -> AuthResult:
        return AuthResult(success=data == LoginPassword(b"callsheet", b"pass word"), handled=False)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))  # pyright: ignore[reportArgumentType]
        return "250 taken"

    def of(self, subject: str) -> list[EmailMessage]:
        return [mail for mail in list(self.mails) if subject in str(mail["subject"])]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture
def postbox(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postbox]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("SMTP_PASSWORD", "pass word")
    box = Postbox(certificate)
    yield box
    box.controller.stop()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("CALLSHEET_PROJECTS", str(tmp_path / "projects.json"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project(folder)


def server(port: int, **more: Any) -> MailServer:
    account = {"user": "callsheet", "password": "env:SMTP_PASSWORD"}
    return MailServer(server=f"localhost:{port}", sender="callsheet <c@example.org>", **account, **more)


def test_question_of_schedule_is_mailed_and_its_link_answers_it(project: Project, postbox: Postbox) -> None:
    (project.folder / "tools.py").write_text(TOOLS)
    with running(project.folder) as api:
        project.configure(
            f'[schedules.ask]\nplan = "ask.ltp"\ncron = "0 12 * * *"\n'
            f'[mail]\nserver = "localhost:{postbox.port}"\nsender = "c@example.org"\n'
            f'user = "callsheet"\npassword = "env:SMTP_PASSWORD"\nlink = "{api.url}"\n'
            '[notify.ada]\nmail = "ada@example.org"\non = ["asks", "done"]\n'
        )
        run = run_id("ask", NOON)
        used: list[str] = []

        def ended() -> bool:
            if postbox.of("waits for an answer") and not used:
                text = postbox.of("waits for an answer")[0].get_content()
                assert "go on?" not in text, "a notice has no value of the run"
                found = re.search(rf"{api.url}/#code=(\S+)&run={run}\s", text)
                assert found is not None, text
                used.append(found[1])
                signed_in = api("POST", "/v1/session", {"secret": found[1]}, authorization=None)
                assert signed_in.json["person"] == "ada"
                cookie = signed_in.headers["set-cookie"].partition(";")[0]
                answer = {"answer": "yes"}
                path = f"/v1/runs/{run}/approve"
                sent = {"authorization": None, "cookie": cookie, "x_callsheet": "1"}
                assert api("POST", path, answer, **sent).status == 200
            return project.told(run, "is done")

        project.until(ended, now=NOON - timedelta(seconds=0.3))
        assert api("POST", "/v1/session", {"secret": used[0]}, authorization=None).status == 401
        assert api.get(f"/v1/runs/{run}")["steps"][0]["answers"] == ["answer by ada"]
    (asked,) = postbox.of("waits for an answer")
    assert (asked["to"], asked["from"]) == ("ada@example.org", "c@example.org")
    assert str(asked["subject"]) == f"{run} waits for an answer"
    assert asked["auto-submitted"] == "auto-generated"


def until(is_reached: Callable[[], Any]) -> None:
    for _ in range(600):
        if is_reached():
            return
        time.sleep(0.05)
    raise AssertionError("it has not come")


def test_runs_of_webhooks_are_mailed_too_also_after_a_restart(project: Project, postbox: Postbox) -> None:
    folder = project.folder
    (folder / "tools.py").write_text(TOOLS)
    ask = Webhook(plan="ask.ltp", secret="env:KEY")
    opened = {"ask": OpenWebhook(ask, (b"k" * 32,), running_rates(), folder)}
    ops = Notify(mail="ops@example.org", on=("asks", "failed", "done"))
    audience = Audience(notify={"ops": ops}, mail=server(postbox.port))
    told: dict[str, Any] = {"webhooks": opened, "audience": lambda token, journal: audience}
    with running(folder, **told) as api:
        headers = signed(ask, b"k" * 32, b"{}", "m1", int(time.time()))
        run = api("POST", "/v1/webhooks/ask", raw=b"{}", **headers).json["run_id"]
        until(lambda: postbox.of("waits for an answer"))
        api.until(run, "waiting")
    with running(folder, **told) as api:
        assert api("POST", f"/v1/runs/{run}/approve", {"answer": "yes"}).status == 200
        api.ended(run)
        until(lambda: postbox.of("is done"))
    assert str(postbox.of("is done")[0]["to"]) == "ops@example.org"


def running_rates() -> Any:
    from callsheet.apps.http.clients import Rate, Rates

    return Rates(Rate(0, 0))


def test_mail_that_is_not_taken_says_why(
    postbox: Postbox, monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    def sent(place: MailServer) -> str | None:
        return send_mail(place, "ada@example.org", "x", "y")

    assert sent(server(postbox.port)) is None
    monkeypatch.setenv("SMTP_PASSWORD", "wrong")
    assert sent(server(postbox.port)) == "the mail server answered 535"
    monkeypatch.delenv("SMTP_PASSWORD")
    assert sent(server(postbox.port)) == "the variable SMTP_PASSWORD is not set"
    monkeypatch.setenv("SMTP_PASSWORD", "pass word")
    plain = MailServer(server=f"localhost:{postbox.port}", sender="c@example.org", security="none")
    assert sent(plain) == "the mail server answered 530", "the server wants TLS first"
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "certificate of the mail server is not accepted" in str(sent(server(postbox.port)))
    assert "cannot be reached" in str(sent(server(free_port())))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[mail]\nserver = "s"\nsender = "nobody"', "sender: it is no mail address"),
        ('[mail]\nserver = "s:x"\nsender = "a@b"', "server: write a name, or name:port"),
        ('[mail]\nserver = "s"\nsender = "a@b"\nuser = "u"\npassword = "p"', "password: write env:VARIABLE"),
        ('[mail]\nserver = "s"\nsender = "a@b"\nuser = "u"', "user: give user and password"),
        ('[notify.a]\nmail = "a@b"', "notify: a wants mail, and there is no table [mail]"),
        ('[notify.a]\nmail = "a@b"\nurl = "http://x"', "url: give url, or mail"),
        ('[notify.a]\nmail = "a@b, c@d"\n[mail]\nserver = "s"\nsender = "a@b"', "it is no mail address"),
    ],
)
def test_wrong_table_is_reported_at_its_place(project: Project, text: str, message: str) -> None:
    project.configure(f'[schedules.n]\nplan = "p"\ncron = "* * * * *"\n{text}\n')
    done = project.command("schedule")
    assert done.exit_code == 2
    assert message in done.stderr
    assert "callsheet.toml:" in done.stderr
