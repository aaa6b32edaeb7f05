"""Who is told of runs: notices by webhooks and mail, without any value of a run, with links that sign in.

In: the project's tables `[notify.NAME]`, and what a run has come to. Out: a POST or a mail to each address
that wants to hear of it. A notice has the run, its plan, its state and the command that goes on, but no
argument, answer or message of the run: those stay in the journal, under its rules. An address may be a
secret, so it can be named by a variable of the environment, and never appears in messages.
"""

from __future__ import annotations

import binascii
import hmac
import json
import os
import secrets
import smtplib
import ssl
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid, parseaddr
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

Event = Literal["asks", "in_doubt", "failed", "done", "skipped"]
EVENTS: tuple[Event, ...] = ("asks", "in_doubt", "failed", "done", "skipped")
TIMEOUT = 20.0
"""Seconds in which an address has to answer."""
ATTEMPTS = 3
_VARIABLE = "env:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Who hears of runs of schedules and webhooks, as a project says it: the table `[notify.NAME]`.

    `url` is where notices are posted, or `mail` the address to which they are sent by the server of
    `[mail]`. `url`, `mail` and `secret` are texts, or `env:VARIABLE`. With a secret the body is signed with
    HMAC-SHA256, in the header `Callsheet-Signature`. `form` is `json`, or `slack` for what Slack and its
    like show as a message. `person` is the name under which the reader of a mail is signed in by its link;
    by default that of the table.
    """

    url: str = ""
    mail: str = ""
    person: str = ""
    on: tuple[str, ...] = ("asks", "in_doubt", "failed")
    form: Literal["json", "slack"] = "json"
    secret: str | None = None

    def __post_init__(self) -> None:
        for word in self.on:
            if word not in EVENTS:
                raise ValueError(f"on: {word!r} is none of {', '.join(EVENTS)}")
        if bool(self.url) == bool(self.mail):
            raise ValueError("url: give url, or mail, and not both")
        if self.mail and not self.mail.startswith(_VARIABLE) and not is_mail_address(self.mail):
            raise ValueError("mail: it is no mail address, nor env:VARIABLE")
        if self.url and not self.url.startswith(_VARIABLE) and not _is_address(self.url):
            raise ValueError("url: it is no address of http or https, nor env:VARIABLE")


class Notice(NamedTuple):
    """What has become of a run, for people."""

    event: Event
    schedule: str
    run: str
    text: str
    """A sentence, with the command that goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who is told of the runs of a project, and how: its tables `[notify.NAME]` and `[mail]`.

    `key` signs the links of mails, as `links.link_key` makes it; without one, or without the address of the
    server, a mail has no link that signs in.
    """

    notify: Mapping[str, Notify] = field(default_factory=dict[str, Notify])
    mail: MailServer | None = None
    key: bytes | None = None


def send(audience: Audience, notice: Notice) -> list[str]:
    """Tell all who want to hear of it; returns a message for each that could not be told."""
    failed: list[str] = []
    for name, place in audience.notify.items():
        if notice.event not in place.on:
            continue
        reason = _mail(audience, name, place, notice) if place.mail else _post(place, notice)
        if reason is not None:
            failed.append(f"notify.{name} was not told that {notice.run} {notice.event}: {reason}")
    return failed


_SUBJECTS: Mapping[Event, str] = {
    "asks": "waits for an answer",
    "in_doubt": "does not know whether a call was made",
    "failed": "did not succeed",
    "done": "is done",
    "skipped": "was skipped",
}


def _mail(audience: Audience, name: str, place: Notify, notice: Notice) -> str | None:
    """Mail a notice; returns why it could not be sent, None if it was."""
    server, to = audience.mail, _value(place.mail)
    if server is None:
        return "the project has no [mail] with a server"
    if to is None or not is_mail_address(to):
        return "its mail is no address" if to else f"the variable {place.mail[len(_VARIABLE) :]} is not set"
    lines = [notice.text]
    if server.link is not None:
        base, at = server.link.rstrip("/"), f"run={notice.run}"
        if audience.key is None:
            lines += ["", f"In the browser, with your token: {base}/#{at}"]
        else:
            code = new_link(audience.key, place.person or name, time.time() + server.hours * 3600)
            lines += ["", f"In the browser: {base}/#code={code}&{at}"]
            lines += [f"The link signs you in once, within {server.hours} hours: do not pass it on."]
    return send_mail(server, to, f"{notice.run} {_SUBJECTS[notice.event]}", "\n".join(lines) + "\n")


def _post(place: Notify, notice: Notice) -> str | None:
    """Send a notice; returns why it could not be sent, None if it was."""
    import hashlib  # noqa: PLC0415 - only where something is sent
    import hmac  # noqa: PLC0415 - as above

    import httpx2  # noqa: PLC0415 - as above

    url, secret = _value(place.url), _value(place.secret or "")
    for named, value in ((place.url, url), (place.secret, secret)):
        if value is None:
            return f"the variable {str(named).removeprefix(_VARIABLE)} is not set"
    if url is None or not _is_address(url):
        return "its address is none of http or https"
    body = _body(place, notice)
    headers = {"content-type": "application/json"}
    if secret:
        signature = hmac.new(secret.encode("utf-8", "surrogateescape"), body, hashlib.sha256).hexdigest()
        headers["callsheet-signature"] = f"sha256={signature}"
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            answer = httpx2.post(url, content=body, headers=headers, timeout=TIMEOUT, follow_redirects=False)
        except httpx2.HTTPError as error:
            reason = type(error).__name__  # its text may have the address
            continue
        except (httpx2.InvalidURL, ValueError) as error:
            return type(error).__name__
        if answer.status_code < 300:
            return None
        reason = f"it answered {answer.status_code}"
        if answer.status_code < 500:
            break
    return reason


def _body(place: Notify, notice: Notice) -> bytes:
    if place.form == "slack":
        return json.dumps({"text": notice.text}).encode()
    return json.dumps({"callsheet": "notice", "version": 1, **notice._asdict()}).encode()


def _value(text: str | None) -> str | None:
    """The text, or the value of the variable that it names; None if that is not set."""
    if text is None or not text.startswith(_VARIABLE):
        return text
    return os.environ.get(text.removeprefix(_VARIABLE))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


_ID, _END, _MARK = 16, 8, 32
_FIRST = b"\x01"
"""The first byte: the form of a link. The codes that a server prints have none."""
MOST_NAME = 200


class Link(NamedTuple):
    """Who signs in with a link, until when, in seconds since 1970; `id_` tells it from all others."""

    id_: bytes
    ends: float
    name: str


def link_key(token: str, journal: Path | None) -> bytes:
    """The key that signs the links of a server with this token and journal."""
    place = b"" if journal is None else os.fsencode(journal.absolute())
    return hmac.digest(token.encode(), b"callsheet links of " + place, "sha256")


def new_link(key: bytes, name: str, ends: float) -> str:
    """A code that signs this person in once, until then."""
    head = _FIRST + secrets.token_bytes(_ID) + int(ends).to_bytes(_END, "big")
    content = head + name.encode("utf-8", "surrogateescape")[:MOST_NAME]
    return urlsafe_b64encode(content + hmac.digest(key, content, "sha256")).decode().rstrip("=")


def read_link(key: bytes, code: str, now: float) -> Link | None:
    """The content of a genuine link that has not ended; None for anything else."""
    try:
        data = urlsafe_b64decode(code.encode("ascii") + b"=" * (-len(code) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    content, mark = data[:-_MARK], data[-_MARK:]
    if len(content) < 1 + _ID + _END or not content.startswith(_FIRST):
        return None
    if not hmac.compare_digest(mark, hmac.digest(key, content, "sha256")):
        return None
    id_, end, name = content[1 : 1 + _ID], content[1 + _ID : 1 + _ID + _END], content[1 + _ID + _END :]
    ends = float(int.from_bytes(end, "big"))
    return Link(id_, ends, name.decode("utf-8", "surrogateescape")) if now < ends else None


_PORTS = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server that takes mail, as a project says it: the table `[mail]`.

    `server` is its name, with `:port` if that is not the usual one of its `security`; without any (`none`)
    nothing is encrypted, and there is no password. `user` and `password` are texts, or `env:VARIABLE`;
    `sender` is the address that mails come from. `link` is the address of `callsheet serve` for those who get
    them, whose links sign in for `hours`.
    """

    server: str
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = None
    link: str | None = None
    hours: int = 24

    def __post_init__(self) -> None:
        if not is_mail_address(self.sender):
            raise ValueError("sender: it is no mail address, such as callsheet@example.org")
        if self.security == "none" and self.password is not None:
            raise ValueError("password: it would be sent unencrypted; use starttls or tls")
        if self.password is not None and not self.password.startswith(_VARIABLE):
            raise ValueError("password: write env:VARIABLE; the password itself must not be in a shared file")
        if (self.user is None) != (self.password is None):
            raise ValueError("user: give user and password, or neither")
        if self.link is not None and urlsplit(self.link).scheme not in ("http", "https"):
            raise ValueError("link: it is no address of http or https")
        if self.hours < 1:
            raise ValueError("hours: it must be at least 1")
        _ = self.place

    @property
    def place(self) -> tuple[str, int]:
        """The host and the port."""
        host, colon, port = self.server.rpartition(":")
        if not colon:
            return self.server, _PORTS[self.security]
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
            raise ValueError("server: write a name, or name:port")
        return host.strip("[]"), int(port)


def is_mail_address(text: str) -> bool:
    """Whether mail can be sent to this address; it has no line break, so that it adds no header."""
    name, _, host = parseaddr(text)[1].rpartition("@")
    return bool(name and host) and text.isprintable() and "," not in text


def send_mail(server: MailServer, to: str, subject: str, text: str) -> str | None:
    """Hand a mail to the server; returns why it was not taken, None if it was."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only where something is sent

    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = server.sender, to, subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = make_msgid(domain=parseaddr(server.sender)[1].rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    host, port = server.place
    user, password = _value(server.user), _value(server.password)
    for named, value in ((server.user, user), (server.password, password)):
        if named is not None and value is None:
            return f"the variable {named.removeprefix(_VARIABLE)} is not set"
    context = None if server.security == "none" else ssl.create_default_context()
    try:
        if server.security == "tls":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT, context=context)
        else:
            connection = smtplib.SMTP(host, port, timeout=TIMEOUT)
        with connection:
            if server.security == "starttls":
                connection.starttls(context=context)
            if user is not None and password is not None:
                connection.login(user, password)
            connection.send_message(message)
    except smtplib.SMTPResponseException as error:
        return f"the mail server answered {error.smtp_code}"
    except smtplib.SMTPException as error:
        return f"the mail server refused it ({type(error).__name__})"
    except ssl.SSLError as error:
        return f"the certificate of the mail server is not accepted ({error.reason})"
    except OSError as error:
        return f"the mail server {host}:{port} cannot be reached ({type(error).__name__})"
    return None
