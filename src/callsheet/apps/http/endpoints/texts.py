"""Endpoints on plan texts: parse, format, check, draw, prove, dry-run; and compiling a goal.

Errors of a plan are part of the response, whose status is still 200: an invalid plan does not make the
request invalid.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from callsheet.api.policies import load_policy
from callsheet.api.proving import Assumptions
from callsheet.api.requirements import parameters_of
from callsheet.apps.compiling import ProofTerms
from callsheet.apps.http import bodies, responses
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec, json_response
from callsheet.apps.http.endpoints.plans import read_text, text_for
from callsheet.apps.http.problems import Problem
from callsheet.apps.http.state import State
from callsheet.apps.operations import schemas
from callsheet.apps.operations.checking import check_text
from callsheet.apps.operations.compiling import compile_text
from callsheet.apps.operations.drawing import DrawingFormat, draw
from callsheet.apps.operations.formatting import Formatted, convert_text, format_text
from callsheet.apps.operations.parsing import parse_text
from callsheet.apps.operations.predicting import PredictionOptions, predict
from callsheet.apps.operations.proving import Proved, prove_text
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.tool_declarations import DeclaredTools
from callsheet.diagnostics import to_json
from callsheet.frontends.spelling import Syntax
from callsheet.policy.model import Policy
from callsheet.views.labels import labels_json

_TAG = "texts"


async def parse(req: ApiRequest[bodies.PlanBody, Empty]) -> Response:
    """Parse a text as a plan."""
    body = req.body
    return json_response(
        await req.state.host.beside(lambda: parse_text(read_text(body.plan, body)).to_json())
    )


async def format_plan(req: ApiRequest[bodies.FormatBody, Empty]) -> Response:
    """Format a plan in its canonical form or in another syntax."""
    state, body = req.state, req.body

    def formatted() -> Formatted:
        text = read_text(body.plan, body)
        if body.to is None:
            return format_text(text)
        local = state.host.tools.declared.local
        return convert_text(text, Syntax(body.to), lambda plan: parameters_of(plan, local))

    return json_response((await state.host.beside(formatted)).to_json())


async def validate(req: ApiRequest[bodies.CheckBody, Empty]) -> Response:
    """Check a plan against the available tools."""
    state, body = req.state, req.body
    text = await state.host.beside(lambda: read_text(body.plan, body, body.inputs))
    declared = await _shelf(state, text, asks_servers=body.servers) if body.tools else None
    checked = await state.host.beside(lambda: check_text(text, declared, body.inputs).to_json())
    return json_response(checked)


async def _shelf(state: State, text: PlanText, *, asks_servers: bool) -> DeclaredTools:
    """The tools to check a text against: with those of servers, or only local ones."""
    tools = state.host.tools
    plan = text.plan or text.partial
    if not asks_servers or plan is None:
        return tools.declared
    return DeclaredTools(tools.setup, await tools.for_plan(plan, tools.setup.agents))


async def visualize(req: ApiRequest[bodies.PictureBody, Empty]) -> Response:
    """Draw a plan."""
    body = req.body

    def drawn() -> dict[str, Any]:
        return draw(read_text(body.plan, body), DrawingFormat(body.format)).to_json()

    return json_response(await req.state.host.beside(drawn))


async def verify(req: ApiRequest[bodies.VerifyBody, Empty]) -> Response:
    """Prove a plan against a policy; nothing runs."""
    return json_response((await _proved(req)).to_json())


async def explain_policy(req: ApiRequest[bodies.VerifyBody, Empty]) -> Response:
    """The labels of the data that each step of a plan reads and writes under a policy, and why."""
    proved = await _proved(req)
    found = to_json(proved.diagnostics, proved.text.source)
    if proved.proof is None:
        return json_response({"ok": False, "policy": "", "steps": [], "diagnostics": found})
    steps, name = labels_json(proved.proof.steps), proved.proof.policy.name
    return json_response({"ok": proved.ok, "policy": name, "steps": steps, "diagnostics": found})


async def _proved(req: ApiRequest[bodies.VerifyBody, Empty]) -> Proved:
    state, body = req.state, req.body
    policy = _policy(state, body.policy)
    text = await state.host.beside(lambda: read_text(body.plan, body, body.inputs))
    declared = await _shelf(state, text, asks_servers=body.servers)
    assumed = Assumptions(inputs=body.inputs, approved=body.approved, can_ask=not body.unattended)
    return await state.host.beside(
        lambda: prove_text(text, policy, declared, assumed, journal=state.host.journal.path)
    )


def _policy(state: State, named: str | None) -> Policy:
    """The named policy, else that of the server; raises Problem (API008) if there is none."""
    own = state.host.config.policy
    if named is None and own is None:
        raise Problem("API008", "policy: it is missing, and the server has none", "name one, such as strict")
    return load_policy(named) if named is not None else own or load_policy("strict")


async def compile_goal(req: ApiRequest[bodies.CompileBody, Empty]) -> Response:
    """Compile a goal into a plan with a model; the plan is checked, not run."""
    state, body, policy = req.state, req.body, req.state.host.config.policy
    toolbox = await state.host.tools.for_plan(None)
    made = await compile_text(
        body.goal,
        state.host.tools.setup,
        toolbox,
        context=body.context,
        library=state.library() if body.library else None,
        terms=None if policy is None else ProofTerms(policy, state.host.journal.path),
    )
    return json_response(made.to_json())


async def dry_run(req: ApiRequest[bodies.DryRunBody, Empty]) -> Response:
    """Predict what a plan would do, without running it."""
    state, body = req.state, req.body
    text = await text_for(state, body, body.inputs)
    text.require()
    declared = await _shelf(state, text, asks_servers=body.servers)
    options = PredictionOptions(
        inputs=body.inputs,
        assume=body.assume,
        price=body.price,
        approve=body.approve,
        policy=state.host.config.policy or (None if body.policy is None else load_policy(body.policy)),
        approved=body.approved,
        journal=state.host.journal.path,
    )
    return json_response(await state.host.beside(lambda: predict(text, declared, options).to_json()))


def _post(path: str, summary: str, handler: Any, body: Any, schema: Any, *problems: int) -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        summary=summary,
        tag=_TAG,
        handler=handler,
        responses=(ResponseSpec(200, "The result.", schema),),
        body=body,
        problems=problems,
    )


ENDPOINTS = (
    _post("/v1/parse", "Parse a plan", parse, bodies.PlanBody, schemas.PARSED),
    _post("/v1/format", "Format a plan", format_plan, bodies.FormatBody, schemas.FORMATTED),
    _post("/v1/validate", "Check a plan", validate, bodies.CheckBody, schemas.CHECKED),
    _post("/v1/visualize", "Draw a plan", visualize, bodies.PictureBody, schemas.PICTURE),
    _post("/v1/verify", "Prove a plan", verify, bodies.VerifyBody, schemas.PROVED),
    _post(
        "/v1/explain-policy",
        "Explain a policy",
        explain_policy,
        bodies.VerifyBody,
        responses.EXPLAINED,
    ),
    _post("/v1/compile", "Compile a goal", compile_goal, bodies.CompileBody, schemas.COMPILED, 503),
    _post("/v1/dry-run", "Dry-run a plan", dry_run, bodies.DryRunBody, schemas.PREDICTION, 404, 409),
)
