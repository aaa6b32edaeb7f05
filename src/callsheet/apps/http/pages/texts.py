"""Endpoints on plan texts: parse, format, check, draw, prove, dry-run; and compiling a goal.

What is wrong with a plan stands in the answer, which is 200 then as well: a text that is no plan is no
mistake of the request.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from callsheet.api.policies import load_policy
from callsheet.api.reach import parameters_of
from callsheet.apps.http import bodies, shapes
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.pages.plans import read_text, text_for
from callsheet.apps.http.problems import Problem
from callsheet.apps.http.state import State
from callsheet.apps.operations import schemas
from callsheet.apps.operations.checking import check_text
from callsheet.apps.operations.compiling import compile_text
from callsheet.apps.operations.foretelling import Supposed, foretell
from callsheet.apps.operations.formatting import Formatted, convert_text, format_text
from callsheet.apps.operations.parsing import parse_text
from callsheet.apps.operations.picturing import Shape, draw
from callsheet.apps.operations.proving import Proved, prove_text
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.shelf import Shelf
from callsheet.diagnostics import to_json
from callsheet.frontends.spelling import Syntax
from callsheet.policy.model import Policy
from callsheet.views.labels import labels_json

_TAG = "texts"


async def parse(asked: Asked[bodies.PlanBody, Nothing]) -> Response:
    """Read a text as a plan."""
    body = asked.body
    return answered(await asked.state.host.beside(lambda: parse_text(read_text(body.plan, body)).to_json()))


async def format_plan(asked: Asked[bodies.FormatBody, Nothing]) -> Response:
    """Write a plan in its canonical form, or in another spelling."""
    state, body = asked.state, asked.body

    def formatted() -> Formatted:
        text = read_text(body.plan, body)
        if body.to is None:
            return format_text(text)
        local = state.host.tools.shelf.local
        return convert_text(text, Syntax(body.to), lambda plan: parameters_of(plan, local))

    return answered((await state.host.beside(formatted)).to_json())


async def validate(asked: Asked[bodies.CheckBody, Nothing]) -> Response:
    """Say what is wrong with a plan, on the tools that there are."""
    state, body = asked.state, asked.body
    text = await state.host.beside(lambda: read_text(body.plan, body, body.inputs))
    shelf = await _shelf(state, text, asks_servers=body.servers) if body.tools else None
    checked = await state.host.beside(lambda: check_text(text, shelf, body.inputs).to_json())
    return answered(checked)


async def _shelf(state: State, text: PlanText, *, asks_servers: bool) -> Shelf:
    """The tools that a text is looked at against: the shared ones, or only those that need no server."""
    tools = state.host.tools
    plan = text.plan or text.partial
    if not asks_servers or plan is None:
        return tools.shelf
    return Shelf(tools.setup, await tools.for_plan(plan, tools.setup.agents))


async def visualize(asked: Asked[bodies.PictureBody, Nothing]) -> Response:
    """Draw a plan."""
    body = asked.body

    def drawn() -> dict[str, Any]:
        return draw(read_text(body.plan, body), Shape(body.format)).to_json()

    return answered(await asked.state.host.beside(drawn))


async def verify(asked: Asked[bodies.VerifyBody, Nothing]) -> Response:
    """Prove a plan against a policy; nothing runs."""
    return answered((await _proved(asked)).to_json())


async def explain_policy(asked: Asked[bodies.VerifyBody, Nothing]) -> Response:
    """Say of each step of a plan whose data it takes and gives under a policy, and why."""
    proved = await _proved(asked)
    found = to_json(proved.diagnostics, proved.text.source)
    if proved.proof is None:
        return answered({"ok": False, "policy": "", "steps": [], "diagnostics": found})
    steps, name = labels_json(proved.proof.steps), proved.proof.policy.name
    return answered({"ok": proved.ok, "policy": name, "steps": steps, "diagnostics": found})


async def _proved(asked: Asked[bodies.VerifyBody, Nothing]) -> Proved:
    state, body = asked.state, asked.body
    policy = _policy(state, body.policy)
    text = await state.host.beside(lambda: read_text(body.plan, body, body.inputs))
    shelf = await _shelf(state, text, asks_servers=body.servers)
    return await state.host.beside(
        lambda: prove_text(
            text,
            policy,
            shelf,
            body.inputs,
            approved=body.approved,
            can_ask=not body.unattended,
            journal=state.host.journal.path,
        )
    )


def _policy(state: State, named: str | None) -> Policy:
    """The policy that is named, else the one in force; raises Problem where there is none."""
    own = state.host.config.policy
    if named is None and own is None:
        raise Problem("API008", "policy: it is missing, and no policy is in force", "name one: strict")
    return load_policy(named) if named is not None else own or load_policy("strict")


async def compile_goal(asked: Asked[bodies.CompileBody, Nothing]) -> Response:
    """Have a model make a plan for a goal; it is checked, and not run."""
    state, body = asked.state, asked.body
    toolbox = await state.host.tools.for_plan(None)
    made = await compile_text(
        body.goal,
        state.host.tools.setup,
        toolbox,
        context=body.context,
        library=state.library() if body.library else None,
        policy=state.host.config.policy,
    )
    return answered(made.to_json())


async def dry_run(asked: Asked[bodies.DryRunBody, Nothing]) -> Response:
    """Say what a plan would do, and do nothing of it."""
    state, body = asked.state, asked.body
    text = await text_for(state, body, body.inputs)
    text.require()
    shelf = await _shelf(state, text, asks_servers=body.servers)
    supposed = Supposed(
        inputs=body.inputs,
        assume=body.assume,
        price=body.price,
        approve=body.approve,
        policy=state.host.config.policy or (None if body.policy is None else load_policy(body.policy)),
        approved=body.approved,
        journal=state.host.journal.path,
    )
    return answered(await state.host.beside(lambda: foretell(text, shelf, supposed).to_json()))


def _page(path: str, summary: str, answer: Any, body: Any, schema: Any, *problems: int) -> Page:
    return Page(
        method="POST",
        path=path,
        summary=summary,
        tag=_TAG,
        answer=answer,
        answers=(Answer(200, "What came of it.", schema),),
        body=body,
        problems=problems,
    )


PAGES = (
    _page("/v1/parse", "Read a plan", parse, bodies.PlanBody, schemas.PARSED),
    _page("/v1/format", "Write a plan canonically", format_plan, bodies.FormatBody, schemas.FORMATTED),
    _page("/v1/validate", "Check a plan", validate, bodies.CheckBody, schemas.CHECKED),
    _page("/v1/visualize", "Draw a plan", visualize, bodies.PictureBody, schemas.PICTURE),
    _page("/v1/verify", "Prove a plan", verify, bodies.VerifyBody, schemas.PROVED),
    _page("/v1/explain-policy", "Explain a policy", explain_policy, bodies.VerifyBody, shapes.EXPLAINED),
    _page("/v1/compile", "Make a plan for a goal", compile_goal, bodies.CompileBody, schemas.COMPILED, 503),
    _page("/v1/dry-run", "Say what a plan would do", dry_run, bodies.DryRunBody, schemas.FORETOLD, 404, 409),
)
