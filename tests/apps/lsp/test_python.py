"""Python plans in an editor, over a real connection; ordinary programs in Python are left alone."""

from __future__ import annotations

from lsprotocol import types as lsp
from tests.apps.lsp.conftest import TOOLS
from tests.apps.lsp.test_requests import place

MODULE = '''\
import os
from asyncio import gather

from callsheet import plan, tool

HERE = os.getcwd()


@tool(effect="read")
def price(item: str) -> float: ...


@plan
async def total(items: list[str], rate: int = 2) -> str:
    """What the items cost."""
    prices = await gather(*[price(item) for item in items])
    return shown(await add(a=1, b=rate), prices)


@plan
async def twice(item: str) -> list[float]:
    return await gather(price(item), price(item))


def shown(sum: int, prices: list[float]) -> str:
    """The answer."""
    return f"{sum} {prices}"


def unrelated() -> str:
    return open(HERE).read()
'''
PROGRAM = """\
import aiohttp


async def main():
    async with aiohttp.ClientSession() as session:
        return await fetch(session)
"""
SCRIPT = "async def main(n: int):\n    text = add(a=n)\n    return text\n"


async def test_plan_in_a_module_is_checked_and_explained(editor):
    async with editor("--tools", "tools.py", prepare={"tools.py": TOOLS}) as it:
        it.open("m.py", MODULE, "python")
        assert await it.findings("m.py") == []
        document, ask = it.document("m.py"), it.client

        hover = await ask.text_document_hover_async(lsp.HoverParams(document, place(MODULE, "await ad")))
        assert "async def add(a: int, b: int = 1) -> int" in hover.contents.value
        assert "effect: read" in hover.contents.value
        hover = await ask.text_document_hover_async(lsp.HoverParams(document, place(MODULE, "return sho")))
        assert "def shown(sum: int, prices: list[float]) -> str" in hover.contents.value

        (found,) = await ask.text_document_definition_async(
            lsp.DefinitionParams(document, place(MODULE, "return sho"))
        )
        assert MODULE.splitlines()[found.range.start.line].startswith("def shown")
        assert found.range.start.character == 4

        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(40, 0))
        hints = await ask.text_document_inlay_hint_async(lsp.InlayHintParams(document, whole))
        assert [(MODULE.splitlines()[h.position.line].split()[0], h.label) for h in hints] == [
            ("prices", "∥ all items"),
            ("return", "∥ 2 calls"),
        ]
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        assert not await ask.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
        assert not await ask.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))


async def test_tools_and_arguments_are_proposed(editor):
    text = MODULE.replace("await add(a=1, b=rate)", "await ad")
    call = MODULE.replace("add(a=1, b=rate)", "add(a=1, ")
    model = MODULE.replace("add(a=1, b=rate)", "llm(data=prices, ")
    cases = [(text, "await ad", "add"), (call, "add(a=1, ", "b="), (model, "llm(data=prices, ", "prompt=")]
    async with editor("--tools", "tools.py", prepare={"tools.py": TOOLS}) as it:
        for version, (written, mark, wanted) in enumerate(cases):
            it.open(f"m{version}.py", written, "python")
            at = lsp.CompletionParams(it.document(f"m{version}.py"), place(written, mark))
            found = await it.client.text_document_completion_async(at)
            assert [item.label for item in found.items] == [wanted]
            assert wanted != "b=" or found.items[0].detail == "int"


async def test_errors_have_their_places_and_ordinary_programs_none(editor):
    async with editor("--tools", "tools.py", prepare={"tools.py": TOOLS}) as it:
        it.open("script.py", SCRIPT.replace("add(a=n)", "await add(a=n, c=1)"), "python")
        (found,) = await it.findings("script.py")
        assert (found.code, found.range.start.line) == ("CHK041", 1)
        it.change("script.py", SCRIPT.replace("text = add", "x = await add(a=1)\n    text = add"), 2)
        (found,) = await it.findings("script.py", 2)
        assert (found.code, found.range.start.line) == ("PYT007", 2)
        broken = MODULE.replace("return shown(", "return eval(")
        it.open("broken.py", broken, "python")
        (found,) = await it.findings("broken.py")
        assert found.code == "PYT006"
        it.open("program.py", PROGRAM, "python")
        assert await it.findings("program.py") == []
        at = place(PROGRAM, "await fet")
        document = it.document("program.py")
        assert await it.client.text_document_hover_async(lsp.HoverParams(document, at)) is None
        assert await it.client.text_document_completion_async(lsp.CompletionParams(document, at)) is None
