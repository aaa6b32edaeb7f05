"""Labels that servers give to results, in `_meta` and in declarations: they only ever add to the policy."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import uvicorn
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult

from callsheet.api.policies import load_policy
from callsheet.apps.cli.main import main
from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.ir.labels import LITERAL, UNKNOWN, read_label
from callsheet.ports.mcp.server_labels import SaidLabel, said_of_result, said_of_tool
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

TRUST = "io.modelcontextprotocol/trust-annotations"
POLICY = """
schema = 1
extends = "workspace"
[tools."mcp:lab/stock"]
egress = false
destructive = false
returns = "T/pub"
[tools."mcp:lab/post"]
destructive = false
returns = "T/pub"
approval = "never"
"""


def tool(name: str, argument: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


class Labelling:
    """A server of the SDK that returns what it is told to, and notes what is called."""

    def __init__(self) -> None:
        self.reset()
        server: Any = Server(
            "labelling",
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
        )
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp"
        app = server.streamable_http_app()
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def reset(self) -> None:
        """Be as at first."""
        self.tools = [tool("stock", "of"), tool("post", "text")]
        self.answers: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.made: list[str] = []

    def end(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in self.tools])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.made.append(params.name)
        answer = {"content": [{"type": "text", "text": "42 crates"}], **self.answers.get(params.name, {})}
        return types.CallToolResult.model_validate(answer)

    async def _resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="plan", uri="lab://plan")])

    async def _read(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        part = {"uri": params.uri, "text": "a plan", "_meta": self.resource}
        return types.ReadResourceResult(contents=[types.TextResourceContents.model_validate(part)])


@pytest.fixture(scope="module")
def labelling() -> Iterator[Labelling]:
    served = Labelling()
    yield served
    served.end()


class Lab:
    """A folder with a policy and a server that labels what it says, and a command line in it."""

    def __init__(self, folder: Path, server: Labelling) -> None:
        self.folder, self.server = folder, server
        server.reset()
        (folder / "policy.toml").write_text(POLICY)
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"lab": {"url": server.url}}}))

    def says(self, **answer: Any) -> None:
        """Answer calls of `stock` so from now on."""
        self.server.answers["stock"] = answer

    @property
    def made(self) -> list[str]:
        """The tools that were called."""
        return self.server.made

    def __call__(self, *line: str) -> Result:
        takes = line[0] in ("run", "verify", "resume")
        of_tools = ("--mcp-config", "mcp.json", "--policy", "policy.toml") if takes else ()
        return CliRunner().invoke(main, [*line, *of_tools])

    def run(self, *steps: str) -> Result:
        """Run a plan of version 2 with these steps."""
        (self.folder / "plan.ltp").write_text("\n".join(["# ltp: 2", *steps, ""]))
        return self("run", "plan.ltp")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labelling: Labelling) -> Lab:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("CALLSHEET_")]:
        monkeypatch.delenv(name)
    return Lab(tmp_path, labelling)


POSTED = ('S1: @STOCK (of="crates") > $n', 'S2: @POST (text="We have ${n}.") > $x', 'S3: @RESPOND ("ok")')
PRIVATE = {"ifc": {"integrity": "trusted", "confidentiality": ["ann", "bob"]}}

# ------------------------------------------------------------ what is read


def of_meta(meta: Any, *, block: Any = None) -> SaidLabel:
    content = [{"type": "text", "text": "x", "_meta": block}]
    return said_of_result(CallToolResult.model_validate({"content": content, "_meta": meta}))


@pytest.mark.parametrize(
    ("meta", "label"),
    [
        ({"ifc": {"integrity": "trusted", "confidentiality": ["public"]}}, "T/pub"),
        ({"ifc": {"integrity": "untrusted", "confidentiality": "public"}}, "U/pub"),
        ({"ifc": {"integrity": "trusted", "confidentiality": "private"}}, "T/priv"),
        ({"ifc": {"confidentiality": ["public", "eve"]}}, "T/priv"),
        ({"ifc": {"confidentiality": []}}, "T/user"),
        ({"annotations": {"privateHint": True, "openWorldHint": True}}, "U/priv"),
        ({"annotations": {"privateHint": False, "openWorldHint": False, "attribution": ["a"]}}, "T/pub"),
        ({"annotations": {"sensitiveHint": "high"}}, "T/user"),
        ({"annotations": {"sensitivity": {"regulated": {"scopes": ["HIPAA"]}}}}, "T/user"),
        ({"annotations": {"source": ["internal", "untrustedPublic"]}}, "U/pub"),
        ({TRUST: {"sensitive": True, "evidenceRef": {"type": "ifc.fides.v1"}}}, "T/priv"),
        ({TRUST: {"untrusted": True}}, "U/pub"),
        ({"other": {"integrity": "untrusted"}}, "T/pub"),
        (None, "T/pub"),
    ],
)
def test_known_labels_of_a_result_are_read(meta: Any, label: str) -> None:
    assert of_meta(meta) == of_meta(meta)._replace(label=read_label(label), odd=())


def test_labels_of_parts_and_of_the_whole_count_together() -> None:
    said = of_meta({"ifc": {"integrity": "untrusted"}}, block={TRUST: {"sensitive": True}})
    assert said.label == UNKNOWN
    assert said.places == ("_meta.ifc.integrity", f"content[0]._meta.{TRUST}.sensitive")


@pytest.mark.parametrize(
    ("meta", "place"),
    [
        ({"ifc": "public"}, "_meta.ifc"),
        ({"ifc": {"integrity": "TRUSTED"}}, "_meta.ifc.integrity"),
        ({"ifc": {"confidentiality": {"public": True}}}, "_meta.ifc.confidentiality"),
        ({"ifc": {"confidentiality": ["public", ["public"]]}}, "_meta.ifc.confidentiality"),
        ({"annotations": {"sensitiveHint": "none at all " * 10_000}}, "_meta.annotations.sensitiveHint"),
        ({"annotations": {"source": ["internal"] * 100_000}}, "_meta.annotations.source"),
        ({TRUST: {"sensitive": "no"}}, f"_meta.{TRUST}.sensitive"),
    ],
)
def test_label_that_is_not_understood_counts_in_full_and_is_told_by_its_place(meta: Any, place: str) -> None:
    said = of_meta(meta)
    assert said.odd == (place,)
    assert UNKNOWN.flows_to(said.label) or not said.label.is_public


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["public", "trusted", "high", "internal", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["integrity", "confidentiality", "sensitiveHint", "openWorldHint", "source", "regulated"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["ifc", "annotations", TRUST]), JSONS))
def test_any_label_is_one_of_a_few_and_never_fails(meta: dict[str, Any]) -> None:
    known = {read_label(f"{integrity}/{who}") for integrity in "TU" for who in ("pub", "priv", "user")}
    assert of_meta(meta).label in known
    assert said_of_tool({"name": "t", "_meta": meta, "annotations": meta}).label in known


def test_defaults_that_libraries_write_into_every_declaration_are_no_label() -> None:
    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    assert said_of_tool({"name": "t", "annotations": hints}).label == LITERAL


# ------------------------------------------------------------ during a run


def test_public_result_is_sent_and_claims_of_the_server_loosen_nothing(lab: Lab) -> None:
    assert lab.run(*POSTED).exit_code == 0
    (lab.folder / "policy.toml").write_text(POLICY.replace('returns = "T/pub"', 'returns = "U/priv"', 1))
    lab.says(_meta={"ifc": {"integrity": "trusted", "confidentiality": ["public"]}})
    refused = lab("verify", "plan.ltp")
    assert "POL103" in refused.output


@pytest.mark.parametrize(
    "answer",
    [
        {"_meta": PRIVATE},
        {"content": [{"type": "text", "text": "42", "_meta": {"annotations": {"privateHint": True}}}]},
        {"_meta": {TRUST: "?" * 100_000}},
    ],
)
def test_result_that_the_server_calls_private_is_not_sent_away(lab: Lab, answer: dict[str, Any]) -> None:
    lab.says(**answer)
    run = lab.run(*POSTED)
    assert run.exit_code == 3
    assert "private data in text ($n) of @POST would reach outside" in run.output
    assert lab.made == ["stock"]
    assert "its server says" in lab("why", "last", "n").output


def test_label_comes_from_the_journal_when_a_run_is_resumed(lab: Lab) -> None:
    lab.says(_meta=PRIVATE)
    asking = POSTED[0], 'S4: @ASK_HUMAN ("Go on?", options=["yes", "no"]) > $go', *POSTED[1:]
    waiting = lab.run(*asking)
    assert waiting.exit_code == 4, waiting.output
    lab.says()  # the server calls nothing private any more
    assert lab("approve", "last", "--answer", "yes").exit_code == 0
    resumed = lab("resume", "last")
    assert resumed.exit_code == 3, resumed.output
    assert lab.made == ["stock"]
    assert "chain verified" in lab("show", "last").output


def test_failure_has_the_label_that_the_server_gives_it(lab: Lab) -> None:
    lab.says(isError=True, content=[{"type": "text", "text": "no crates of Ann"}], _meta=PRIVATE)
    told = ('S1: @STOCK (of="crates") > $n ON_FAIL CONTINUE', 'S2: @POST (text="It said: ${n.error}") > $x')
    run = lab.run(*told)
    assert run.exit_code == 3, run.output
    assert lab.made == ["stock"]


def test_field_that_a_policy_trusts_is_untrusted_where_the_server_says_so(lab: Lab) -> None:
    fields = 'returns = "U/pub"\nfields = {to = "T/pub"}'
    policy = POLICY.replace('returns = "T/pub"', fields, 1).replace(
        'approval = "never"', 'control = ["text"]'
    )
    (lab.folder / "policy.toml").write_text(policy)
    chosen = ('S1: @STOCK (of="crates") > $n', "S2: @POST (text=$n.to) > $x")
    text = {"content": [{"type": "text", "text": '{"to": "ann"}'}], "structuredContent": {"to": "ann"}}
    lab.says(**text)
    assert lab.run(*chosen).exit_code == 0
    lab.says(**text, _meta={"ifc": {"integrity": "untrusted"}})
    assert lab.run(*chosen).exit_code == 3
    assert lab.made == ["stock", "post", "stock"]


def test_resource_has_the_label_that_its_server_gives_it(lab: Lab) -> None:
    entry = '[tools."@RESOURCE"]\negress = false\ndestructive = false\nreturns = "T/pub"\n'
    (lab.folder / "policy.toml").write_text(POLICY + entry)
    reading = 'S1: @RESOURCE (uri="lab://plan") > $n', *POSTED[1:]
    assert lab.run(*reading).exit_code == 0
    lab.server.resource = PRIVATE
    refused = lab.run(*reading)
    assert "private data in text ($n) of @POST would reach outside" in refused.output
    assert lab.made == ["post"]


# ------------------------------------------------------------ before a run, and through the gate


def test_label_that_a_tool_declares_is_part_of_the_proof(lab: Lab) -> None:
    assert lab.run(*POSTED).exit_code == 0
    (lab.folder / "home").rename(lab.folder / "other-home")  # whoever sees the server for the first time
    lab.server.tools[0]["_meta"] = {"annotations": {"sensitiveHint": "high"}}
    proof = lab("verify", "plan.ltp")
    assert "the server lab declares the results of mcp:lab/stock as T/user" in proof.output
    assert "POL103" in proof.output
    assert lab("run", "plan.ltp").exit_code == 3
    assert lab.made == ["stock", "post"]


async def test_session_of_the_gate_has_read_what_the_server_calls_private(lab: Lab) -> None:
    policy = load_policy(str(lab.folder / "policy.toml"))
    configs = (lab.folder / "mcp.json",)
    setup = Setup(workspace=lab.folder, data=lab.folder / "data", mcp_configs=configs, discovers=False)

    async def posted(meta: dict[str, Any]) -> CallToolResult:
        lab.says(_meta=meta)
        with Journal.open(lab.folder / "gate.db") as journal:
            async with Host(setup, journal, policy=policy) as host:
                context = ServerContext(host=host, library=PlanLibrary(lab.folder / "plans"))
                async with Gate(context, Expose.TOOLS) as gate, Client(make_server(gate)) as client:
                    stock = await client.call_tool("stock", {"of": "crates"})
                    assert (stock.meta or {}).get("ifc") == meta.get("ifc")  # it passes through unchanged
                    return await client.call_tool("post", {"text": "42 crates"})

    assert not (await posted({})).is_error
    refused = await posted(PRIVATE)
    assert refused.is_error
    assert "private data in text of @POST would reach outside" in str(refused.content)
    assert lab.made == ["stock", "post", "stock"]
