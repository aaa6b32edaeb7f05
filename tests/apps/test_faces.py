"""One table of requests through every face: the same diagnostics, start event and outcome.

A plan that is good or bad, its inputs, secrets, limits, policy and approvals go through the library, the
command line, the HTTP API and the MCP server, each with the same tools and a journal of its own. What a face
shows is compared with the others, and what the run was started with is read from the journal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from mcp.client.client import Client
from tests.apps.http.conftest import running, setup_of

from callsheet import BuiltinSettings, CallsheetError, Limits, RunResult, Runtime
from callsheet.api.policies import load_policy
from callsheet.apps.cli.main import main
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server import make_server
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

TOOLS = '''
from callsheet import tool

@tool(effect="read")
def look(what: str, times: int = 1) -> str:
    """Looks at something."""
    return f"seen {what}" * times

@tool
def send(text: str, to: str = "ada@example.test") -> str:
    """Sends a text."""
    return f"sent {text}"

@tool(effect="read")
def broken() -> str:
    """Fails."""
    raise RuntimeError("it is broken")
'''


class Request(NamedTuple):
    """What somebody asks for, whatever the face."""

    plan: str
    inputs: Mapping[str, Any] = {}
    secrets: Mapping[str, str] = {}
    limits: Mapping[str, Any] = {}
    policy: str = ""
    approve: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What a face shows of a request, and what its journal says of the start of the run."""

    outcome: str
    """The status of the run, or `error` if none began."""
    diagnostics: list[tuple[str, str]]
    """Codes and messages: the errors if no run began, else the warnings."""
    answer: object = None
    start: object = None


ANSWER = 'S2: @RESPOND ("$a")'
REQUESTS = {
    "a good plan": Request(f'S1: @LOOK (what="tea") > $a\n{ANSWER}'),
    "loose spelling": Request(f'Step 1: @look(what="tea") -> $a\n{ANSWER}'),
    "a JSON plan": Request(
        json.dumps(
            {
                "title": "Look",
                "steps": [
                    {
                        "index": "1",
                        "title": "Look",
                        "tool": "look",
                        "args": {"what": "tea"},
                        "depends_on": [],
                        "result_variable": "a",
                    }
                ],
            }
        )
    ),
    "a syntax error": Request('S1: @LOOK (what="tea" > $a'),
    "an unknown tool": Request(f'S1: @LOKO (what="tea") > $a\n{ANSWER}'),
    "a missing argument": Request(f"S1: @LOOK > $a\n{ANSWER}"),
    "an argument of a wrong type": Request(f'S1: @LOOK (what="tea", times="many") > $a\n{ANSWER}'),
    "a variable without a value": Request(f"S1: @LOOK (what=$what) > $a\n{ANSWER}"),
    "a variable with a value": Request(f"S1: @LOOK (what=$what) > $a\n{ANSWER}", {"what": "tea"}),
    "a value that is no text": Request(f"S1: @LOOK (what=$what) > $a\n{ANSWER}", {"what": {"kinds": [1, 2]}}),
    "a variable that nothing reads": Request(f'S1: @LOOK (what="tea") > $a\n{ANSWER}', {"other": 1}),
    "an output that nothing reads": Request('S1: @LOOK (what="tea") > $a\nS2: @RESPOND ("done")'),
    "a secret": Request(f"S1: @LOOK (what=$what) > $a\n{ANSWER}", secrets={"what": "correct horse"}),
    "a short secret": Request(f"S1: @LOOK (what=$what) > $a\n{ANSWER}", secrets={"what": "tea"}),
    "a limit that is passed": Request(
        f'S1: @LOOK (what="tea") > $a\nS3: @LOOK (what="milk") > $b\n{ANSWER}', limits={"max_calls": 1}
    ),
    "a failed step": Request(f"S1: @BROKEN > $a\n{ANSWER}"),
    "a handled failure": Request(f'S1: @BROKEN > $a ON_FAIL TERMINATE ("No: $a")\n{ANSWER}'),
    "an approval": Request('S1: @SEND (text="hello") > $a\nS2: @RESPOND ("$a")', approve=("SEND",)),
    "an approval of nothing": Request(f'S1: @LOOK (what="tea") > $a\n{ANSWER}', approve=("SEND",)),
    "a limit of nothing": Request(
        f'S1: @LOOK (what="tea") > $a\n{ANSWER}', limits={"max_calls_by_tool": {"SEND": 1}}
    ),
    "a policy that refuses": Request(f'S1: @LOOK (what="tea") > $a\n{ANSWER}', policy="strict"),
    "a policy that allows": Request('S1: @CALC ("1 + 1") > $a\nS2: @RESPOND ("$a")', policy="open"),
}
"""The requests by name."""

RUN = "r1"


def by_library(folder: Path, request: Request) -> Seen:
    """As a program asks for it."""
    settings = BuiltinSettings(workspace=folder, data=folder / "data")
    runtime = Runtime(
        [folder / "tools.py"],
        builtins=settings,
        journal=folder / "journal.db",
        approve=request.approve,
        policy=request.policy or None,
    )
    limits = Limits(**request.limits)
    try:
        result = runtime.run_sync(
            request.plan, request.inputs, secrets=request.secrets, run_id=RUN, limits=limits
        )
    except CallsheetError as error:
        return Seen("error", [(each.code, each.message) for each in error.diagnostics])
    return _of_result(folder, result)


def _of_result(folder: Path, result: RunResult) -> Seen:
    found = [(each.code, each.message) for each in result.diagnostics]
    return Seen(str(result.status), found, result.response, _start(folder))


def by_command_line(folder: Path, request: Request) -> Seen:
    """As somebody types it."""
    (folder / "plan").write_text(request.plan, encoding="utf-8")
    line = ["run", "plan", "--json", "--run-id", RUN, "--tools", "tools.py", "--journal", "journal.db"]
    for name, value in request.inputs.items():
        line += ["--var", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    for name, value in request.secrets.items():
        (folder / name).write_text(value, encoding="utf-8")
        line += ["--secret", f"{name}=file:{name}"]
    for name, value in request.limits.items():
        values = [f"{tool}={most}" for tool, most in value.items()] if isinstance(value, dict) else [value]
        for each in values:
            line += [f"--{name.removesuffix('_by_tool').replace('_', '-')}", str(each)]
    for tool in request.approve:
        line += ["--approve", tool]
    if request.policy:
        line += ["--policy", request.policy]
    done = CliRunner().invoke(main, line)
    told = json.loads(done.stdout)
    if "run_id" not in told:
        return Seen("error", _codes(told))
    return Seen(told["status"], _codes(told), told.get("response"), _start(folder))


def by_http(folder: Path, request: Request) -> Seen:
    """As a client of the HTTP API asks for it."""
    body: dict[str, Any] = {
        "plan": request.plan,
        "inputs": dict(request.inputs),
        "secrets": dict(request.secrets),
        "limits": dict(request.limits),
        "approve": list(request.approve),
        "run_id": RUN,
        **({"policy": request.policy} if request.policy else {}),
    }
    with running(folder) as api:
        said = api("POST", "/v1/runs", body)
        if said.status != 202:
            return Seen("error", _codes(said.json))
        for name, _, data in api.stream(RUN):
            if name == "end" or (name == "standing" and data["status"] in ("waiting", "in_doubt")):
                break
        run = api.get(f"/v1/runs/{RUN}")
    return Seen(run["status"], _codes(said.json), run.get("response"), _start(folder))


def by_mcp(folder: Path, request: Request) -> Seen:
    """As a client of the MCP server asks for it; its operator sets limits, approvals and policy."""

    async def ask() -> Any:
        setup = setup_of(folder)
        setup = replace(setup, settings=replace(setup.settings, approve=request.approve))
        policy = load_policy(request.policy) if request.policy else None
        given = {"variables": {**request.inputs, **request.secrets}, "secrets": list(request.secrets)}
        with Journal.open(folder / "journal.db") as journal:
            async with Host(setup, journal, limits=Limits(**request.limits), policy=policy) as host:
                server = make_server(ServerContext(host=host, library=PlanLibrary(folder / "plans")))
                async with Client(server, mode="auto") as client:
                    return await client.call_tool("plan_execute", {"ltp_text": request.plan, **given})

    said = asyncio.run(ask())
    told = said.structured_content or {}
    if said.is_error and "run_id" not in told:
        return Seen("error", _codes(told))
    return Seen(told["status"], _codes(told), told.get("response"), _start(folder))


def _codes(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = told.get("diagnostics") or []
    return [(each["code"], each["message"]) for each in found]


_OF_THE_FACE = ("setup", "plan", "file", "host")


def _start(folder: Path) -> object:
    """What the journal says that the run was started with, without what belongs to the face."""
    with Journal.open(folder / "journal.db") as journal:
        run = journal.find_run("last")
        body = dict(next(iter(journal.events(run.run_id))).body)
    launch = {name: value for name, value in body["launch"].items() if name not in _OF_THE_FACE}
    body |= {"launch": launch, "pepper": bool(body.get("pepper"))}
    if "policy" in body:  # with the files that configure the face, which no plan may write
        body |= {"policy": {**body["policy"], "files": []}, "policy_hash": ""}
    if "sealed" in body:
        body["sealed"] = [[box[1:4] for box in body["sealed"]["boxes"]], body["sealed"]["at"]]
    return body


def expected(name: str, face: str, http: Seen) -> Seen:
    """What a face shows of a request, given what the HTTP API shows; the differences that are meant.

    - The library gives the values of secrets, since the program has them; for an unfinished run, no text.
    - The command line masks secrets in its own words.
    - At an MCP server the operator sets approvals and limits for whatever plans come, so none is idle.
    """
    if face == "library" and http.outcome == "waiting":
        return http._replace(answer="")
    if name == "a secret" and face in ("library", "command line"):
        return http._replace(answer="seen correct horse" if face == "library" else "seen [secret]")
    if face == "MCP":
        return http._replace(diagnostics=[each for each in http.diagnostics if each[0] != "RUN032"])
    return http


FACES: dict[str, Callable[[Path, Request], Seen]] = {
    "library": by_library,
    "command line": by_command_line,
    "HTTP": by_http,
    "MCP": by_mcp,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_every_face_shows_and_records_the_same(
    name: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Seen] = {}
    for face, ask in FACES.items():
        folder = own_home / face.replace(" ", "-")
        folder.mkdir()
        (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
        monkeypatch.chdir(folder)
        seen[face] = ask(folder, REQUESTS[name])
    assert {face: each for face, each in seen.items() if each != expected(name, face, seen["HTTP"])} == {}
