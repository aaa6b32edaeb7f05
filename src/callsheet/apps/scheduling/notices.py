"""Who is told of runs: notices by webhooks and mail, without any value of a run.

In: the project's tables `[notify.NAME]`, and what a run has come to. Out: a POST or a mail to each address
that wants to hear of it. A notice has the run, its plan, its state and the command that goes on, but no
argument, answer or message of the run: those stay in the journal, under its rules. An address may be a
secret, so it can be named by a variable of the environment, and never appears in messages.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from callsheet.apps.scheduling.links import new_link
from callsheet.apps.scheduling.mail import MailServer, is_mail_address, send_mail

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


def _value(text: str) -> str | None:
    """The text, or the value of the variable that it names; None if that is not set."""
    return os.environ.get(text.removeprefix(_VARIABLE)) if text.startswith(_VARIABLE) else text


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
