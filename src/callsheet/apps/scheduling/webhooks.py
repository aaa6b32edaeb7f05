"""The doors of plans for other services: whose deliveries start a run, and with which inputs.

In: the tables `[webhooks.NAME]` of a project; the headers and the body of a delivery, and the time. Out: the
id of the run that the delivery starts, and its inputs; or why it is refused. The id of a run is made from the
name of the webhook and what its sender has signed of the delivery's identity, and the journal takes each id
once. So a delivery that comes again starts nothing again, also after a crash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir.strict_json import NotJson, read_json

_VARIABLE = "env:"
_SHORTEST = 16
"""The fewest bytes of a secret: others can be guessed."""
_STANDARD_KEY = "whsec_"
_MOST_ID = 256
_DIGITS = 22
"""The digits after the name in the id of a run, which has 64 characters at most."""
_STEP = re.compile(r"\.?([A-Za-z_$][A-Za-z0-9_$-]*)|\[([0-9]{1,6})\]")
_INPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHOLE = "."
"""The path of the whole body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """What starts a plan from outside, as a project says it: the table `[webhooks.NAME]`.

    `plan` is the path of a plan or the name of a saved one. `secret` is `env:VARIABLE`: what the sender signs
    with; the variable may hold several, separated by blanks, while one replaces another. `signature` is the
    form in which the sender signs: that of GitHub (`X-Hub-Signature-256` over the body) or of Standard
    Webhooks (`webhook-signature` over id, time and body), whose time may differ by `window` seconds.

    `take` has an input of the plan for each path in the body, such as `issue.labels[0].name`, or `.` for all
    of it; without it the body's members are the inputs. `inputs` are given besides; only these are the
    project's own words. `only` has the value that must be at a path of the body, or a list of such values;
    for others nothing starts. `max_body` is in bytes, `per_minute` limits the deliveries that are taken.
    `policy` counts if the server has none.
    """

    plan: str
    secret: str
    signature: Literal["standard", "github"] = "standard"
    take: Mapping[str, str] = field(default_factory=dict[str, str])
    only: Mapping[str, object] = field(default_factory=dict[str, object])
    inputs: Mapping[str, object] = field(default_factory=dict[str, object])
    policy: str | None = None
    window: int = 300
    max_body: int = 256 * 1024
    per_minute: int = 60

    def __post_init__(self) -> None:
        if not self.secret.startswith(_VARIABLE) or self.secret == _VARIABLE:
            raise ValueError("secret: write env:VARIABLE; the secret itself must not be in a shared file")
        for name in (*self.take, *self.inputs):
            if not _INPUT.fullmatch(name):
                table = "take" if name in self.take else "inputs"
                raise ValueError(f"{table}: {name[:40]!r} is no name of an input")
        for name, path in self.take.items():
            if _steps(path) is None:
                raise ValueError(
                    f"take: {name}: {path[:60]!r} is no path such as issue.labels[0].name, nor ."
                )
        for path in self.only:
            if _steps(path) is None:
                raise ValueError(f"only: {path[:60]!r} is no path such as action or issue.state")
        twice = sorted(self.take.keys() & self.inputs.keys())
        if twice:
            raise ValueError(f"take: {twice[0]} is also among inputs; give it once")
        for name in ("window", "max_body", "per_minute"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: it must be at least 1")
        try:
            json.dumps(dict(self.inputs), allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                "inputs: each must be a text, a number, true or false, a list or a table"
            ) from None

    def keys(self, environ: Mapping[str, str] | None = None) -> tuple[bytes, ...]:
        """The keys of its secrets; raises CallsheetError (CFG016) if there is none that can be used."""
        variable = self.secret.removeprefix(_VARIABLE)
        given = (os.environ if environ is None else environ).get(variable, "").split()
        if not given:
            raise _unusable(f"the variable {variable} is not set", f"{variable}=$(openssl rand -hex 32)")
        return tuple(_key(secret, variable, self.signature) for secret in given)


class Refused(Exception):
    """A delivery is refused: it is not signed as it must be, or its body does not give the inputs."""

    def __init__(self, message: str, hint: str = "", *, is_forged: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.is_forged = is_forged
        """Whether it may be by somebody else than the sender that the webhook is for."""


class Delivery(NamedTuple):
    """What somebody has sent: the headers by their names in lower case, and the body as it came."""

    headers: Mapping[str, str]
    body: bytes


def run_of_delivery(
    name: str, webhook: Webhook, keys: tuple[bytes, ...], delivery: Delivery, now: float
) -> str:
    """The id of the run that a genuine delivery starts; raises Refused (`is_forged`) for any other.

    GitHub's form signs the body alone. There the body is the identity of a delivery, since its id could be
    exchanged by whoever has seen it.
    """
    known = _checked_github(keys, delivery) if webhook.signature == "github" else None
    if known is None:
        known = _checked_standard(webhook, keys, delivery, now)
    return f"{name}-{hashlib.sha256(known).hexdigest()[:_DIGITS]}"


def signed(webhook: Webhook, key: bytes, body: bytes, id_: str, now: int) -> dict[str, str]:
    """The headers of a delivery in the form of a webhook, as its sender makes them."""
    if webhook.signature == "github":
        return {"x-github-delivery": id_, "x-hub-signature-256": _github(key, body)}
    stamp = str(now)
    signature = _standard(key, b".".join((id_.encode(), stamp.encode(), body)))
    return {"webhook-id": id_, "webhook-timestamp": stamp, "webhook-signature": signature}


def read_body(body: bytes) -> Any:
    """The JSON value of a body; raises Refused if it is none."""
    try:
        return read_json(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(f"the body is not UTF-8 text (byte {error.start})") from None
    except NotJson as error:
        where = "" if error.at is None else f" (character {error.at + 1})"
        raise Refused(f"the body is not JSON: {error}{where}") from None


def why_passed(webhook: Webhook, value: Any) -> str | None:
    """Why a body is not one of those that start a run, as a sentence; None if it is."""
    for path, wanted in webhook.only.items():
        options = cast("list[object]", wanted) if isinstance(wanted, list) else [wanted]
        found = _at(value, path)
        if not any(type(found) is type(each) and found == each for each in options):
            return f"{path} of the body is not {' or '.join(map(_shown, options))}"
    return None


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def inputs_of(webhook: Webhook, value: Any) -> dict[str, Any]:
    """The inputs of a run, by name: those that the body chooses and those of the project.

    What is not in the body is left out: whether it is needed, and of which type, the plan says. Raises
    Refused for a body that gives no names of inputs, or one of the project's.
    """
    if webhook.take:
        found = {name: _at(value, path) for name, path in webhook.take.items()}
        taken = {name: each for name, each in found.items() if each is not _NOTHING}
    elif isinstance(value, dict):
        taken = dict(cast("dict[str, Any]", value))
    else:
        raise Refused("the body is no JSON object", "its members are the inputs of the plan")
    own = sorted(taken.keys() & webhook.inputs.keys())
    if own:
        raise Refused(f"{own[0]}: the body may not give this input", "the webhook sets it")
    wrong = next((name for name in taken if not _INPUT.fullmatch(name)), None)
    if wrong is not None:
        raise Refused(f"{wrong[:60]!a} is no name of an input", "the members of the body are the inputs")
    return {**taken, **webhook.inputs}


def missing_paths(webhook: Webhook, inputs: Mapping[str, Any]) -> str:
    """What the body does not have of what is taken from it, as a sentence; empty if it has all."""
    absent = [f"{path} (for {name})" for name, path in webhook.take.items() if name not in inputs]
    return f"the body has no {', '.join(absent)}" if absent else ""


# ---------------------------------------------------------------- signatures


def _checked_github(keys: tuple[bytes, ...], delivery: Delivery) -> bytes:
    given = delivery.headers.get("x-hub-signature-256", "")
    if not given:
        raise _forged("the header X-Hub-Signature-256 is missing")
    if not _is_any(given.strip(), [_github(key, delivery.body) for key in keys]):
        raise _forged("the signature is not that of the body")
    return hashlib.sha256(delivery.body).digest()


def _checked_standard(webhook: Webhook, keys: tuple[bytes, ...], delivery: Delivery, now: float) -> bytes:
    id_, stamp, given = (
        delivery.headers.get(f"webhook-{name}", "").strip() for name in ("id", "timestamp", "signature")
    )
    for header, value in (("Webhook-Id", id_), ("Webhook-Timestamp", stamp), ("Webhook-Signature", given)):
        if not value:
            raise _forged(f"the header {header} is missing")
    if len(id_) > _MOST_ID:
        raise _forged(f"the id of the delivery is longer than {_MOST_ID} characters")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise _forged("the header Webhook-Timestamp is no time in seconds since 1970")
    content = b".".join((id_.encode("utf-8", "surrogateescape"), stamp.encode(), delivery.body))
    right = [_standard(key, content) for key in keys]
    if not any(_is_any(each, right) for each in given.split()[:20]):
        raise _forged("the signature is not that of id, time and body")
    apart = abs(now - int(stamp))
    if apart > webhook.window:  # only the sender hears of clocks
        raise _forged(
            f"it was signed {apart:.0f} seconds {'ago' if int(stamp) < now else 'ahead'},"
            f" and may be at most {webhook.window}",
            "send it again with the present time, or set the clock",
        )
    return id_.encode("utf-8", "surrogateescape")


def _github(key: bytes, body: bytes) -> str:
    return f"sha256={hmac.digest(key, body, 'sha256').hex()}"


def _standard(key: bytes, content: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"


def _is_any(given: str, right: list[str]) -> bool:
    """Whether a signature is one of the right ones; each is compared, in constant time."""
    found = [hmac.compare_digest(given.encode("utf-8", "replace"), each.encode()) for each in right]
    return any(found)


def _forged(message: str, hint: str = "sign the delivery with the secret of the webhook") -> Refused:
    return Refused(message, hint, is_forged=True)


def _key(secret: str, variable: str, signature: str) -> bytes:
    """The key of a secret: with the prefix of Standard Webhooks it is in Base64."""
    key = secret.encode("utf-8", "surrogateescape")
    if signature == "standard" and secret.startswith(_STANDARD_KEY):
        try:
            key = base64.b64decode(secret.removeprefix(_STANDARD_KEY), validate=True)
        except binascii.Error:
            raise _unusable(f"what {variable} has after whsec_ is not Base64", None) from None
    if len(key) < _SHORTEST:
        hint = f"use at least {_SHORTEST} bytes: openssl rand -hex 32"
        raise _unusable(f"the secret in {variable} has {len(key)} bytes", hint)
    return key


def _unusable(message: str, hint: str | None) -> CallsheetError:
    return CallsheetError.single("CFG016", message, help=hint)


# ---------------------------------------------------------------- paths


class _Nothing:
    """What is not in a body."""


_NOTHING = _Nothing()


def _steps(path: str) -> list[str | int] | None:
    """The steps of a path; None if it is none."""
    if path == WHOLE:
        return []
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (found[1] and bool(steps) != path.startswith(".", at)):
            return None
        steps.append(found[1] or int(found[2]))
        at = found.end()
    return steps or None


def _at(value: Any, path: str) -> Any:
    """What is at a path in a JSON value; `_NOTHING` if there is nothing."""
    for step in _steps(path) or ():
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return _NOTHING
            value = cast("dict[str, Any]", value)[step]
        else:
            items = cast("list[Any]", value)
            if not isinstance(value, list) or step >= len(items):
                return _NOTHING
            value = items[step]
    return value
