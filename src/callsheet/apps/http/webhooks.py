"""Endpoints of the project's webhooks: a signed delivery starts a run of a plan, once.

In: a delivery, whose sender has no token but a secret to sign with. Out: a run that is in the journal before
the delivery is answered, or a problem that says what is wrong with its body. What the body chooses counts as
untrusted, so a policy decides what it may reach.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any, TypedDict

from starlette.responses import Response

from callsheet.api.policies import load_policy
from callsheet.api.proving import PolicyRefused
from callsheet.api.texts import read_text
from callsheet.apps.hosting.service import RunRequest
from callsheet.apps.http.endpoint import (
    ApiRequest,
    Empty,
    Endpoint,
    ResponseSpec,
    json_response,
    schema_here,
)
from callsheet.apps.http.guard import too_many
from callsheet.apps.http.problems import Problem
from callsheet.apps.http.reading import body_bytes
from callsheet.apps.http.state import WEBHOOK, OpenWebhook, State
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.printed_service_rows import LastRun, WebhookFacts, WebhookRun
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.apps.scheduling.webhooks import (
    Delivery,
    Refused,
    inputs_of,
    missing_paths,
    read_body,
    run_of_delivery,
    why_passed,
)
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.policy.model import Policy
from callsheet.store.listing import RunQuery, listed_runs
from callsheet.store.runs import RunFilter

_TAG = "webhooks"
PATH = "/v1/webhooks/{name}"


class WebhookRow(WebhookFacts):
    """A webhook of the project, with its name."""

    name: str


class WebhookList(TypedDict):
    """The webhooks of the project."""

    webhooks: list[WebhookRow]


async def deliver(req: ApiRequest[Empty, Empty]) -> Response:
    """Start the plan of a webhook with the inputs that a signed body has.

    The sender signs instead of sending a token. A delivery that comes again is answered with the same run.
    """
    state, request, name = req.state, req.request, req.path["name"]
    webhook = state.webhooks.get(name)
    if webhook is None:
        raise Problem("API009", f"there is no webhook {name[:60]!a}")
    settings = webhook.settings
    most = min(settings.max_body, state.request_limits.most_body)
    body = await body_bytes(request, replace(state.request_limits, most_body=most))
    headers = {key.lower(): value for key, value in request.headers.items()}
    try:
        run_id = run_of_delivery(name, settings, webhook.keys, Delivery(headers, body), time.time())
    except Refused as refused:
        client = "" if request.client is None else request.client.host
        wait = state.guesses.wait(client)
        raise (too_many(wait) if wait else Problem("API021", str(refused), refused.hint)) from None
    runs = state.host.journal.parts.reader.runs
    if await state.host.beside(lambda: runs.has(run_id)):
        return await _known(state, run_id)
    wait = webhook.rates.wait(name)
    if wait:
        raise too_many(wait)
    try:
        value = read_body(body)
        passed = why_passed(settings, value)
        inputs = {} if passed else inputs_of(settings, value)
    except Refused as refused:
        raise Problem("API022", str(refused), refused.hint or None) from None
    if passed:
        return json_response({"run_id": None, "status": None, "is_new": False, "reason": passed})
    try:
        await _start(state, name, run_id, inputs)
    except CallsheetError as error:
        if error.diagnostics[0].code != "JRN003":
            raise
        return await _known(state, run_id)  # the same delivery came twice at once
    state.herald.follow(name, settings.plan, run_id)
    return _answer(202, run_id, state.host.stage(run_id), is_new=True)


async def _start(state: State, name: str, run_id: str, inputs: dict[str, Any]) -> None:
    """Start the run of a delivery; raises CallsheetError, for a body that does not fit with API022."""
    host, webhook = state.host, state.webhooks[name]
    settings = webhook.settings
    text = await host.beside(lambda: plan_of(webhook, state, inputs))
    own = settings.policy if host.config.policy is None else None
    request = RunRequest(
        text=text,
        inputs=inputs,
        untrusted=frozenset(inputs) - settings.inputs.keys(),
        run_id=run_id,
        tags={WEBHOOK: name},
        policy=None if own is None else await host.beside(lambda: _policy_of(own, webhook)),
    )
    text.require()
    try:
        await host.start(request)
    except PolicyRefused:
        raise
    except CallsheetError as error:
        wrong = [d for d in error.diagnostics if d.code in _OF_INPUTS]
        if not wrong:
            raise
        found = [replace(d, code="API022", span=None) for d in wrong]
        if absent := missing_paths(settings, inputs):
            found.insert(0, Diagnostic("API022", Severity.ERROR, absent))
        raise CallsheetError(found) from None


_OF_INPUTS = frozenset({"RUN035", "RUN036", "RUN037", "PLN023", "PLN024", "CHK001"})
"""The codes of findings about inputs that are missing, unknown or of another type."""


async def _known(state: State, run_id: str) -> Response:
    host = state.host
    return _answer(200, run_id, (await host.beside(lambda: host.state(run_id))).status, is_new=False)


def _answer(status: int, run_id: str, standing: str, *, is_new: bool) -> Response:
    data = {"run_id": run_id, "status": standing, "is_new": is_new, "reason": None}
    return json_response(data, status, {"Location": f"/v1/runs/{run_id}"})


def _policy_of(name: str, webhook: OpenWebhook) -> Policy:
    """The policy that a webhook names: a shipped one, or a file of the project."""
    is_file = name.endswith(".toml") or "/" in name
    return load_policy(str(webhook.folder / name) if is_file else name)


_SAVED = re.compile(r"(?!.*\.(?:ltp|micro|json|ya?ml|py)\Z)[a-z0-9][a-z0-9._-]*(@.*)?", re.ASCII)
"""The id of a saved plan, which has no suffix of a plan file."""


def plan_of(webhook: OpenWebhook, state: State, inputs: dict[str, Any]) -> PlanText:
    """The plan of a webhook as it is now: a file of the project, or a plan of the library.

    Raises CallsheetError if it is neither, or cannot be read; errors in its text are part of the result.
    """
    name = webhook.settings.plan
    path = webhook.folder / name
    if not path.is_file() and _SAVED.fullmatch(name):
        return text_of_stored(state.library().load(name), inputs)
    try:
        with path.open("rb") as file:
            source = Source(name, read_text(file, name, "name a file of the project, or a saved plan"))
    except OSError as error:
        raise CallsheetError.single("CFG012", f"{name} cannot be read: {error.strerror or error}") from error
    return text_of(path, source, variables=inputs)


async def list_webhooks(req: ApiRequest[Empty, Empty]) -> Response:
    """The webhooks of the project that this server was started for, each with its last run."""
    state = req.state
    rows = await state.host.beside(lambda: [_row(state, name, each) for name, each in state.webhooks.items()])
    return json_response({"webhooks": rows})


def _row(state: State, name: str, webhook: OpenWebhook) -> WebhookRow:
    settings, host = webhook.settings, state.host
    query = RunQuery(wanted=RunFilter(tags=(f"{WEBHOOK}={name}",)), limit=1)
    last: LastRun | None = None
    for info, _ in listed_runs(host.journal, query):
        last = {"run_id": info.run_id, "status": host.status(info)}
    return {
        "name": name,
        "path": PATH.format(name=name),
        "plan": settings.plan,
        "signature": settings.signature,
        "takes": dict(settings.take),
        "gives": sorted(settings.inputs),
        "last": last,
        "problem": problem_with(webhook, state),
    }


def problem_with(webhook: OpenWebhook, state: State) -> str | None:
    """Why the plan of a webhook cannot be used as it is now; None if it can be read."""
    settings = webhook.settings
    try:
        plan_of(webhook, state, dict.fromkeys((*settings.take, *settings.inputs))).require()
    except CallsheetError as error:
        return next((d for d in error.diagnostics if d.is_error), error.diagnostics[0]).message
    return None


RESULTS = (WebhookRun, WebhookList)
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/webhooks",
        summary="List webhooks",
        tag=_TAG,
        handler=list_webhooks,
        responses=(ResponseSpec(200, "The webhooks of the project.", schema_here(WebhookList)),),
    ),
    Endpoint(
        method="POST",
        path=PATH,
        summary="Deliver to a webhook",
        tag=_TAG,
        handler=deliver,
        responses=(
            ResponseSpec(202, "The run is recorded in the journal and queued.", schema_here(WebhookRun)),
            ResponseSpec(200, "It came before, or nothing starts for it.", schema_here(WebhookRun)),
        ),
        problems=(401, 404, 408, 409, 503),
        is_open=True,
        headers={
            "Webhook-Id": "The id of the delivery, of Standard Webhooks.",
            "Webhook-Timestamp": "When it was signed, in seconds since 1970.",
            "Webhook-Signature": "`v1,` and the HMAC-SHA256 of id, time and body, in Base64.",
            "X-Hub-Signature-256": "`sha256=` and the HMAC-SHA256 of the body, as GitHub signs.",
        },
    ),
)
