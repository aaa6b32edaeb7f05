"""Who is told of runs: notices by webhooks, without any value of a run.

In: the project's tables `[notify.NAME]`, and what a run has come to. Out: a POST to each address that wants
to hear of it. A notice has the run, its plan, its state and the command that goes on, but no argument, answer
or message of the run: those stay in the journal, under its rules. An address may be a secret, so it can be
named by a variable of the environment, and never appears in messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
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
    """An address that hears of scheduled runs, as a project says it: the table `[notify.NAME]`.

    `url` and `secret` are texts, or `env:VARIABLE`. With a secret the body is signed with HMAC-SHA256, in the
    header `Callsheet-Signature`. `form` is `json`, or `slack` for what Slack and its like show as a message.
    """

    url: str
    on: tuple[str, ...] = ("asks", "in_doubt", "failed")
    form: Literal["json", "slack"] = "json"
    secret: str | None = None

    def __post_init__(self) -> None:
        for word in self.on:
            if word not in EVENTS:
                raise ValueError(f"on: {word!r} is none of {', '.join(EVENTS)}")
        if not self.url.startswith(_VARIABLE) and not _is_address(self.url):
            raise ValueError("url: it is no address of http or https, nor env:VARIABLE")


class Notice(NamedTuple):
    """What has become of a run, for people."""

    event: Event
    schedule: str
    run: str
    text: str
    """A sentence, with the command that goes on."""


def send(places: Iterable[tuple[str, Notify]], notice: Notice) -> list[str]:
    """Tell every place that wants to hear of it; returns a message for each that could not be told."""
    failed: list[str] = []
    for name, place in places:
        if notice.event not in place.on:
            continue
        reason = _post(place, notice)
        if reason is not None:
            failed.append(f"notify.{name} was not told that {notice.run} {notice.event}: {reason}")
    return failed


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
