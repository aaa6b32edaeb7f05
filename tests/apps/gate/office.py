"""A server for tests that asks and tells: `office.py FILE [older|both]`. In FILE is what it heard.

With `older` it speaks the protocol before that of 2026, in which servers send requests of their own. With
`both` it also speaks the newer one, and sends such requests all the same. Otherwise it knows the newer alone.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import ServerRunner, serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import methods

LOG, OLDER, BOTH = Path(sys.argv[1]), "older" in sys.argv[2:], "both" in sys.argv[2:]
FORM: dict[str, Any] = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
NAMES = ["ask_day", "ask_model", "count", "grow", "roots", "read"]
GROWN = LOG.with_name("grown")
NAMES += ["new_tool"] if GROWN.exists() else []
ODD = LOG.with_name("odd").exists()
"""Whether it sends what the protocol does not allow."""
if ODD:
    methods.serialize_server_result = lambda method, version, result: result
BUS = InMemorySubscriptionBus()


def refuse_older(params: Any) -> Any:
    raise MCPError(code=types.UNSUPPORTED_PROTOCOL_VERSION, message="only 2026-07-28")


if not (OLDER or BOTH):
    ServerRunner._negotiate_initialize = staticmethod(refuse_older)  # pyright: ignore[reportPrivateUsage]


def note(text: str) -> None:
    with LOG.open("a") as file:
        file.write(f"{text}\n")


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)])


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    shape = {"type": "object", "properties": {}}
    tools = [types.Tool(name=name, description=f"does {name}", input_schema=shape) for name in NAMES]
    return types.ListToolsResult(tools=tools)


async def answer(ctx: Any, params: Any, request: Any, model: Any) -> Any:
    """The client's answer to a request: asked for now, or within the answer of the call."""
    if OLDER or BOTH:
        return await ctx.session.send_request(request, model)
    if not params.input_responses:
        return types.InputRequiredResult(input_requests={"it": request}, request_state="s")
    return params.input_responses["it"]


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    match params.name:
        case "ask_day":
            form = types.ElicitRequestFormParams(message="Which day?", requested_schema=FORM)
            given = await answer(ctx, params, types.ElicitRequest(params=form), types.ElicitResult)
            if isinstance(given, types.InputRequiredResult):
                return given
            note(f"day {given.action} {given.content}")
            return text(f"{given.action} {given.content}")
        case "ask_model":
            said = types.SamplingMessage(role="user", content=types.TextContent(text="2 + 2?"))
            asks = types.CreateMessageRequestParams(
                messages=[said], max_tokens=5, include_context="allServers"
            )
            given = await answer(
                ctx, params, types.CreateMessageRequest(params=asks), types.CreateMessageResult
            )
            if isinstance(given, types.InputRequiredResult):
                return given
            return text(f"the model says {given.content.text}")
        case "roots":
            given = await answer(ctx, params, types.ListRootsRequest(), types.ListRootsResult)
            if isinstance(given, types.InputRequiredResult):
                return given
            return text(" ".join(str(root.uri) for root in given.roots))
        case "count":
            for number in (1, 2):
                await ctx.session.report_progress(number, 2, f"step {number}")
            await ctx.session.send_log_message("warning", "counted", "office", ctx.request_id)
            return text("2")
        case "grow":
            NAMES.append("new_tool")
            GROWN.touch()
            if OLDER:
                await ctx.session.send_tool_list_changed()
            else:
                await BUS.publish(ToolsListChanged())
            return text("grown")
        case _:
            note(params.name)
            if params.arguments:
                raise MCPError(code=-32050, message="no such day", data=params.arguments)
            return text(f"did {params.name}")


async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    found = [types.Resource(name=name, uri=f"office://{name}") for name in ("notes", "logo")]
    if ODD:
        found[0] = types.Resource.model_construct(name=7, uri="office://notes")
    return types.ListResourcesResult.model_construct(resources=found)


async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="day", uri_template="office://days/{day}")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    note(f"read {uri}")
    if ODD:
        return types.ReadResourceResult.model_construct(contents=["buy milk"])
    if uri == "office://logo":
        logo = types.BlobResourceContents(uri=uri, mime_type="image/png", blob="iVBORw0KGgo=")
        return types.ReadResourceResult(contents=[logo])
    if uri not in ("office://notes", "office://days/monday"):
        raise MCPError(code=types.INVALID_PARAMS, message="no such paper", data={"uri": uri})
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text="buy milk")])


async def subscribe(ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    note(f"subscribe {params.uri}")
    return types.EmptyResult()


async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    who = types.PromptArgument(name="who", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[who])])


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    note(f"prompt {params.name} {params.arguments}")
    words = types.TextContent(text=f"Greet {(params.arguments or {}).get('who')}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=words)])


async def complete(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    names = [name for name in ("ann", "anton", "bob") if name.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=names))


async def main() -> None:
    server = Server(
        "office",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe if OLDER else None,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing):
        if OLDER:
            await serve_loop(server, incoming, outgoing, lifespan_state={}, init_options=options)
        else:
            await server.run(incoming, outgoing, options)


asyncio.run(main())
