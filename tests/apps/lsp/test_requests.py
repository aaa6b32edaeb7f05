"""Requests of an editor over a real connection, answered by `views.editor` in LSP terms."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from lsprotocol import converters
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from tests.apps.conftest import SERVER
from tests.apps.lsp.conftest import TOOLS

from callsheet.frontends.ltp import format_plan, parse

PLAN = """\
PLAN_START
S1: @ADD (a=1) > $one
S2: @ADD (a=2) > $two
S3: respond "$one $two"
PLAN_END
"""


def edited(text: str, edits) -> str:
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]

    def at(position):
        return starts[position.line] + position.character

    for edit in sorted(edits, key=lambda e: at(e.range.start), reverse=True):
        text = text[: at(edit.range.start)] + edit.new_text + text[at(edit.range.end) :]
    return text


def place(text: str, mark: str) -> lsp.Position:
    offset = text.index(mark) + len(mark)
    return lsp.Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)


async def test_editor_session_answers_every_request(editor):
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", PLAN)
        await it.findings("p.ltp")
        document, ask = it.document("p.ltp"), it.client
        here = place(PLAN, '"$one $tw')

        hover = await ask.text_document_hover_async(lsp.HoverParams(document, here))
        assert "used by S3" in hover.contents.value
        (definition,) = await ask.text_document_definition_async(lsp.DefinitionParams(document, here))
        assert (definition.range.start.line, definition.range.start.character) == (2, 18)
        references = await ask.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(False), document, here)
        )
        assert [r.range.start.line for r in references] == [3]
        marks = await ask.text_document_document_highlight_async(lsp.DocumentHighlightParams(document, here))
        assert [m.kind for m in marks] == [lsp.DocumentHighlightKind.Write, lsp.DocumentHighlightKind.Read]
        symbols = await ask.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
        assert [s.name for s in symbols] == ["S1", "S2", "S3"]

        options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
        edits = await ask.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
        assert edited(PLAN, edits) == format_plan(parse(PLAN).require())
        line = lsp.Range(lsp.Position(3, 0), lsp.Position(3, 1))
        edits = await ask.text_document_range_formatting_async(
            lsp.DocumentRangeFormattingParams(document, line, options)
        )
        assert edited(PLAN, edits) == PLAN.replace('respond "$one $two"', '@RESPOND ("$one $two")')

        hints = await ask.text_document_inlay_hint_async(
            lsp.InlayHintParams(document, lsp.Range(lsp.Position(0, 0), lsp.Position(5, 0)))
        )
        assert [(h.position.line, h.label) for h in hints] == [(1, "∥ S2"), (2, "∥ S1")]
        it.folder.joinpath("p.test.toml").touch()
        lenses = await ask.text_document_code_lens_async(lsp.CodeLensParams(document))
        assert [(one.command.title.split()[-1], one.command.arguments) for one in lenses] == [
            (word, (document.uri,)) for word in ("Run", "run", "Debug", "Test")
        ]
        # the extension for VS Code is built without client features that this server does not offer
        script = Path(__file__).parents[3].joinpath("editors", "vscode", "build.js").read_text("utf-8")
        table = script.partition("LEFT_OUT = {")[2].partition("}")[0]
        left_out = re.findall(r'^  \w+: "([\w.]+)",', table, re.M)
        offered = converters.get_converter().unstructure(it.capabilities)
        assert len(left_out) > 10
        places = {*offered, *(f"workspace.{name}" for name, said in offered["workspace"].items() if said)}
        assert {*left_out} & places == set()
        page, data = [
            await ask.workspace_execute_command_async(
                lsp.ExecuteCommandParams(command="callsheet.planGraph", arguments=[document.uri, shape])
            )
            for shape in ("html", "graph")
        ]
        assert "<!doctype html>" in page
        assert data["steps"][0]["id"] == "S1"
        with pytest.raises(JsonRpcException, match="no format 'svg': write one of terminal, mermaid"):
            await ask.workspace_execute_command_async(
                lsp.ExecuteCommandParams(command="callsheet.planGraph", arguments=[document.uri, "svg"])
            )


async def test_rename_changes_every_occurrence_or_gives_reason(editor):
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", PLAN)
        document, here = it.document("p.ltp"), place(PLAN, "> $on")
        span = await it.client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, here))
        assert (span.start.character, span.end.character) == (18, 21)
        done = await it.client.text_document_rename_async(lsp.RenameParams(document, here, "first"))
        assert edited(PLAN, done.changes[it.uri("p.ltp")]) == PLAN.replace("$one", "$first")
        with pytest.raises(JsonRpcException, match="LSP004"):
            await it.client.text_document_rename_async(lsp.RenameParams(document, here, "two"))


async def test_code_actions_accompany_diagnostics(editor):
    text = "PLAN_START\nS1: @ADDD (a=True) > $x\nS2: @RESPOND ($x)\nPLAN_END\n"
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", text)
        everywhere = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))

        async def actions(only):
            context = lsp.CodeActionContext([], only=only)
            asked = lsp.CodeActionParams(it.document("p.ltp"), everywhere, context)
            return await it.client.text_document_code_action_async(asked)

        found = await actions(None)
        assert {"write ADD", "write true", "write all loose spellings canonically"} <= {
            a.title for a in found
        }
        (add,) = [a for a in found if a.title == "write ADD"]
        assert [d.code for d in add.diagnostics] == ["CHK040"]
        assert "@ADD (" in edited(text, add.edit.changes[it.uri("p.ltp")])
        (whole,) = await actions([lsp.CodeActionKind.SourceFixAll])
        assert edited(text, whole.edit.changes[it.uri("p.ltp")]) == text.replace("True", "true")


async def test_completions_are_ordered(editor):
    text = "PLAN_START\nS1: @ADD (a=1) > $one\nS2: @ADD ("
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", text)
        asked = lsp.CompletionParams(it.document("p.ltp"), place(text, "S2: @ADD ("))
        found = await it.client.text_document_completion_async(asked)
        assert [(i.label, i.text_edit.new_text) for i in found.items] == [
            ("a=", "a="), ("b=", "b="), ("$one", "$one"),
        ]  # fmt: skip
        assert sorted(i.sort_text for i in found.items) == [i.sort_text for i in found.items]


async def test_semantic_tokens_are_delta_encoded(editor):
    text = 'S1: @ADD (a=1) > $x\nS2: @RESPOND ("😀 $x")'
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", text)
        document = it.document("p.ltp")
        whole = await it.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(document))
        legend = it.capabilities.semantic_tokens_provider.legend
        line = column = 0
        seen = []
        for start in range(0, len(whole.data), 5):
            down, right, length, kind, bits = whole.data[start : start + 5]
            line, column = line + down, right + (0 if down else column)
            units = text.splitlines()[line].encode("utf-16-le")
            word = units[2 * column : 2 * (column + length)].decode("utf-16-le")
            names = [m for n, m in enumerate(legend.token_modifiers) if bits >> n & 1]
            seen.append((word, legend.token_types[kind], *names))
        assert ("@ADD", "function", "readonly") in seen
        assert ("$x", "variable", "declaration") in seen
        assert seen[-2] == ("$x", "variable")
        second = lsp.Range(lsp.Position(1, 0), lsp.Position(1, 99))
        part = await it.client.text_document_semantic_tokens_range_async(
            lsp.SemanticTokensRangeParams(document, second)
        )
        assert part.data[0] == 1
        assert len(part.data) < len(whole.data)


async def test_document_without_plan_has_only_diagnostics(editor):
    async with editor() as it:
        it.open("policy.toml", "schema = 1\n", "toml")
        await it.findings("policy.toml")
        document, start = it.document("policy.toml"), lsp.Position(0, 0)
        assert await it.client.text_document_hover_async(lsp.HoverParams(document, start)) is None
        assert not await it.client.text_document_definition_async(lsp.DefinitionParams(document, start))
        assert not await it.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))


# ---------------------------------------------------------------- connections


async def test_output_of_tools_file_does_not_disturb_protocol(editor):
    async with editor("--tools", "loud.py", prepare={"loud.py": TOOLS + "print('hello')\n"}) as it:
        it.open("p.ltp", PLAN)
        assert [d.code for d in await it.findings("p.ltp")]


async def test_tools_are_reloaded_on_request(editor):
    async with editor("--tools", "tools.py") as it:
        it.open("p.ltp", "PLAN_START\nS1: @TWICE (n=1) > $x\nPLAN_END\n")
        assert "CHK040" in [d.code for d in await it.findings("p.ltp")]
        tools = it.folder / "tools.py"
        tools.write_text(
            tools.read_text()
            + "\n\n@tool(effect='read')\ndef twice(n: int) -> int:\n    '''2n'''\n    return 2 * n\n"
        )
        it.forget()
        await it.client.workspace_execute_command_async(lsp.ExecuteCommandParams("callsheet.reloadTools"))
        assert "CHK040" not in [d.code for d in await it.findings("p.ltp")]


async def test_named_configuration_starts_servers_for_tools(editor):
    servers = {"hall": {"command": sys.executable, "args": [str(editor.folder / "server.py")]}}
    prepare = {"server.py": SERVER, "mcp.json": json.dumps({"mcpServers": servers})}
    async with editor("--mcp-config", "mcp.json", prepare=prepare) as it:
        it.open("p.ltp", 'PLAN_START\nS1: @GREET (name="Ada") > $x\nS2: @RESPOND ($x)\nPLAN_END\n')
        while any(d.code == "CHK040" for d in await it.findings("p.ltp")):
            it.forget()  # the server has not answered yet; what it says is told then
        here = lsp.HoverParams(it.document("p.ltp"), lsp.Position(1, 6))
        assert "mcp:hall" in (await it.client.text_document_hover_async(here)).contents.value


async def test_invalid_configuration_is_reported_and_rest_works(editor):
    async with editor("--mcp-config", "mcp.json", prepare={"mcp.json": "{"}) as it:
        await it.until(lambda: bool(it.messages))
        it.open("p.ltp", "S1: @RESPOND (")
        assert await it.findings("p.ltp")


async def test_editors_share_port(editor, tmp_path: Path):
    async with editor.listening() as port:
        async with editor(port=port) as one, editor(port=port) as other:
            one.open("p.ltp", "S1: @RESPOND (")
            other.open("p.ltp", 'PLAN_START\nS1: @RESPOND ("x")\nPLAN_END\n')
            assert "LTP022" in [d.code for d in await one.findings("p.ltp")]
            assert await other.findings("p.ltp") == []
        async with editor(port=port) as third:
            third.open("p.ltp", "S1: @RESPOND (")
            assert await third.findings("p.ltp")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", port)
