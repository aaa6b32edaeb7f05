"""Endpoints about the server: health, tools, policy, diagnostic pages, sign-in and sign-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from callsheet import __version__
from callsheet.api.policies import SHIPPED, load_policy
from callsheet.apps.hosting import Stage
from callsheet.apps.http import bodies, shapes
from callsheet.apps.http.guard import cookie_name, session_of
from callsheet.apps.http.keys import SESSION_SECONDS
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.problems import Problem
from callsheet.apps.operations.explaining import explain_code
from callsheet.apps.operations.schemas import EXPLANATION
from callsheet.apps.operations.tools import tools_json
from callsheet.policy.canon import policy_hash, policy_to_json

_TAG = "house"


async def health(asked: Asked[Nothing, Nothing]) -> Response:
    """Whether the server is well, and how much it has to do; needs no token."""
    stages = [run.stage for run in asked.state.host.hosted_runs()]
    return answered(
        {
            "ok": True,
            "version": __version__,
            "running": stages.count(Stage.RUNNING),
            "queued": stages.count(Stage.QUEUED),
        }
    )


async def list_tools(asked: Asked[Nothing, Nothing]) -> Response:
    """The tools that plans can call, those of MCP servers among them."""
    return answered(tools_json(await asked.state.host.tools.for_plan(None)))


async def get_policy(asked: Asked[Nothing, Nothing]) -> Response:
    """The policy that all runs are under, and those that a request may name where there is none."""
    policy = asked.state.host.config.policy
    told: dict[str, Any] | None = None
    if policy is not None:
        said = replace(policy, files=())
        told = {"name": policy.name, "policy": policy_to_json(said), "hash": policy_hash(said)}
    return answered({"in_force": told, "shipped": list(SHIPPED)})


async def get_shipped(asked: Asked[Nothing, Nothing]) -> Response:
    """A policy that comes with callsheet."""
    name = asked.path["name"]
    if name not in SHIPPED:
        raise Problem("API009", f"there is no policy {name[:40]!a}", f"there are {', '.join(SHIPPED)}")
    policy = load_policy(name)
    return answered({"name": name, "policy": policy_to_json(policy), "hash": policy_hash(policy)})


async def explain(asked: Asked[Nothing, Nothing]) -> Response:
    """The page of a code of a diagnostic, or of a rule of LCTL."""
    return answered(explain_code(asked.path["code"]).to_json())


async def sign_in(asked: Asked[bodies.SignInBody, Nothing]) -> Response:
    """Give the token, or a code that is good once, and get the cookie of a browser."""
    state, request = asked.state, asked.request
    host = request.headers.get("host", "").strip().lower()
    response = answered({"signed_in": True, "seconds": int(SESSION_SECONDS)})
    if state.keys.is_open:
        return response
    cookie = state.keys.sign_in(asked.body.secret)
    if cookie is None:
        client = "" if request.client is None else request.client.host
        wait = state.guesses.wait(client)
        if wait:
            raise Problem("API006", "too many guesses", "wait", {"Retry-After": str(int(wait) + 1)})
        raise Problem("API015", "that is neither the token nor a code that is still good")
    response.set_cookie(
        cookie_name(host),
        cookie,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return response


async def sign_out(asked: Asked[Nothing, Nothing]) -> Response:
    """Forget the cookie of this browser."""
    request = asked.request
    host = request.headers.get("host", "").strip().lower()
    asked.state.keys.sign_out(session_of(request.headers, host))
    response = Response(None, 204)
    response.delete_cookie(cookie_name(host), httponly=True, samesite="strict")
    return response


async def session(asked: Asked[Nothing, Nothing]) -> Response:
    """That this request is signed in; else 401 says so."""
    return answered({"signed_in": True, "seconds": int(SESSION_SECONDS)})


_POLICY = shapes.table({"name": shapes.text(), "policy": shapes.any_object(), "hash": shapes.text()})
PAGES = (
    Page(
        method="GET",
        path="/v1/health",
        summary="Say whether the server is well",
        tag=_TAG,
        answer=health,
        answers=(Answer(200, "It is.", shapes.HEALTH),),
        is_open=True,
    ),
    Page(
        method="GET",
        path="/v1/tools",
        summary="List tools",
        tag=_TAG,
        answer=list_tools,
        answers=(Answer(200, "The tools.", shapes.TOOLS),),
        problems=(422,),
    ),
    Page(
        method="GET",
        path="/v1/policy",
        summary="Show the policy in force",
        tag=_TAG,
        answer=get_policy,
        answers=(Answer(200, "The policy.", shapes.POLICY),),
    ),
    Page(
        method="GET",
        path="/v1/policy/{name}",
        summary="Show a policy that is shipped",
        tag=_TAG,
        answer=get_shipped,
        answers=(Answer(200, "The policy.", _POLICY),),
        problems=(404,),
    ),
    Page(
        method="GET",
        path="/v1/explain/{code}",
        summary="Explain a code",
        tag=_TAG,
        answer=explain,
        answers=(Answer(200, "The page.", EXPLANATION),),
        problems=(404,),
        is_open=True,
    ),
    Page(
        method="GET",
        path="/v1/session",
        summary="Say whether this request is signed in",
        tag=_TAG,
        answer=session,
        answers=(Answer(200, "It is.", shapes.SESSION),),
    ),
    Page(
        method="POST",
        path="/v1/session",
        summary="Sign a browser in",
        tag=_TAG,
        answer=sign_in,
        answers=(Answer(200, "It is signed in by a cookie.", shapes.SESSION),),
        body=bodies.SignInBody,
        problems=(401,),
        is_open=True,
    ),
    Page(
        method="DELETE",
        path="/v1/session",
        summary="Sign a browser out",
        tag=_TAG,
        answer=sign_out,
        answers=(Answer(204, "It is signed out.", None, ""),),
    ),
)
