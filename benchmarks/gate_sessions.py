"""Whether the gate changes what servers do: sessions of real servers, directly and through it, compared.

    python benchmarks/gate_sessions.py mcp.json calls.json

`mcp.json` names the servers as clients do, `calls.json` what to call: `{"SERVER": [["TOOL", {"a": 1}], …]}`.
Each server gets the same session twice, with the same client of the SDK: lists, the calls, every resource and
prompt that needs no arguments. Whatever differs besides times is printed: results, errors of the protocol,
progress, log lines, questions. What a server is given a second time may differ by itself, such as a file that
it has written before. Of the gate's own are instructions, capabilities, and words about unknown names.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

SECONDS = 60.0
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?|\b\d{1,2}:\d\d:\d\d(?: [AP]M)?\b")
_IDENTITY = "io.modelcontextprotocol/serverInfo"


class Session:
    """A client's session; `rows` are what it asked, the answers, and what it heard meanwhile."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, list[str]]] = []
        self._heard: list[Any] = []

    async def run(self, words: dict[str, Any], calls: list[list[Any]], log: Path) -> None:
        """Make a session with the server that these words start."""
        env = {**os.environ, **words.get("env", {})}
        started = StdioServerParameters(command=words["command"], args=words.get("args", []), env=env)
        with log.open("w") as file:
            client = Client(
                stdio_client(started, errlog=file),
                mode="legacy",
                elicitation_callback=self._elicit,
                sampling_callback=self._sample,
                list_roots_callback=self._roots,
                message_handler=self._hear,
                cache=None,
            )
            async with client:
                await self._talk(client, calls)

    async def _talk(self, client: Client, calls: list[list[Any]]) -> None:
        await self._do("tools/list", client.list_tools())
        for resource in await self._do("resources/list", client.list_resources(), "resources"):
            await self._do(f"read {resource['uri']}", client.read_resource(resource["uri"]))
        for prompt in await self._do("prompts/list", client.list_prompts(), "prompts"):
            if not any(each.get("required") for each in prompt.get("arguments", ())):
                await self._do(f"prompt {prompt['name']}", client.get_prompt(prompt["name"]))
        for tool, args in calls:
            calling = client.call_tool(tool, args, progress_callback=self._progress)
            await self._do(f"{tool} {json.dumps(args)}", calling)

    async def _do(self, what: str, request: Any, field: str = "") -> Any:
        """Make a request; of one for a list that not all servers have, this `field` counts."""
        self._heard.clear()
        try:
            got: Any = _wire(await asyncio.wait_for(request, SECONDS))
        except MCPError as error:
            got = {"error": _wire(error.error)}
        await asyncio.sleep(0.05)  # for what is told beside the answer
        meta = got.get("_meta", {})
        meta.pop(_IDENTITY, None)  # a server of 2026 names itself, whatever the client
        if not meta:
            got.pop("_meta", None)
        if field:
            has_none = got.get("error", {}).get("code") == types.METHOD_NOT_FOUND
            got = [] if has_none else got.get(field, got)
        told = sorted(json.dumps(each, sort_keys=True) for each in self._heard)
        text = json.dumps({"answer": got, "heard": told}, indent=1, sort_keys=True)
        self.rows.append((what, _TIMES.sub("TIME", text).splitlines()))
        return got

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self._heard.append({"elicitation": _wire(params) | {"message": params.message.split(" asks: ")[-1]}})
        return types.ElicitResult(action="decline")

    async def _sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        self._heard.append({"sampling": _wire(params)})
        words = types.TextContent(text="four")
        return types.CreateMessageResult(role="assistant", content=words, model="m")

    async def _roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[])

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._heard.append({"progress": [progress, total, message]})

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.LoggingMessageNotification):
            self._heard.append(_wire(message))


def _wire(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def compared(name: str, words: dict[str, Any], calls: list[list[Any]], folder: Path) -> int:
    """Print what differs between the two sessions with a server, and return how much it is."""
    place = folder / f"{name}.json"
    place.write_text(json.dumps({"mcpServers": {name: words}}))
    journal = str(folder / f"{name}.db")
    gate = ["-m", "callsheet", "gate", "--expose", "tools", "--mcp-config", str(place), "--journal", journal]
    settings = {"CALLSHEET_CONFIG": str(folder / "config.toml"), "XDG_DATA_HOME": str(folder)}
    direct, through = Session(), Session()
    await direct.run(words, calls, folder / "direct.log")
    behind = {"command": sys.executable, "args": gate, "env": settings}
    await through.run(behind, calls, folder / "gate.log")
    differing = 0
    for (what, before), (_, after) in zip(direct.rows, through.rows, strict=True):
        if before != after:
            differing += 1
            print(f"  {name}: {what[:100]}")
            print(
                "\n".join(f"    {line[:160]}" for line in [*difflib.unified_diff(before, after, n=0)][3:23])
            )
    print(f"{name}: {len(direct.rows)} requests, {differing} of them differ")
    return differing


async def main(servers: dict[str, Any], calls: dict[str, list[list[Any]]]) -> int:
    """Compare all servers; the number of requests that differ."""
    warnings.simplefilter("ignore")  # the client of an older protocol is deprecated, and meant
    with tempfile.TemporaryDirectory(prefix="gate") as place:
        folder = Path(place)
        (folder / "config.toml").write_text("")
        return sum([await compared(name, servers[name], calls.get(name, []), folder) for name in servers])


if __name__ == "__main__":
    given = [json.loads(Path(name).read_text()) for name in sys.argv[1:3]]
    sys.exit(min(1, asyncio.run(main(given[0]["mcpServers"], given[1]))))
