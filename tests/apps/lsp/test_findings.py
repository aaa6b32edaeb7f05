"""Diagnostics in an editor are the same as those of the commands, at the same positions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lsprotocol import types as lsp
from tests import forked

PLAN = """\
S1: @FETCH_PAGE (url="https://h.test/") > $page
S2: @READ_FIL (path="a") > $a
S3: @ADD (a="x", c=2) > $sum
S4: @RESPOND ("$page $missing")
"""


def printed(folder: Path, command: str, *line: str) -> list[tuple[str, int, int]]:
    done = forked.run(
        [sys.executable, "-m", "callsheet", command, "--json", *line],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = json.loads(done.stdout)["diagnostics"]
    return sorted((row["code"], row.get("line", 1) - 1, row.get("column", 1) - 1) for row in rows)


def told(found: list[lsp.Diagnostic]) -> list[tuple[str, int, int]]:
    return sorted((str(d.code), d.range.start.line, d.range.start.character) for d in found)


async def test_editor_diagnostics_equal_check_output(editor):
    async with editor("--tools", "tools.py") as it:
        (it.folder / "p.ltp").write_text(PLAN)
        it.open("p.ltp", PLAN)
        found = await it.findings("p.ltp")
        assert told(found) == printed(it.folder, "check", "--tools", "tools.py", "p.ltp")
        assert {"CHK040", "CHK041", "CHK044", "CHK001"} <= {d.code for d in found}


async def test_policy_diagnostics_equal_verify_output(editor):
    text = 'S1: @READ_FILE (path="a.txt") > $a\nS2: @WEB_SEARCH (query="$a") > $r\nS3: @RESPOND ($r)\n'
    async with editor("--policy", "workspace") as it:
        it.open("p.ltp", text)
        found = await it.findings("p.ltp")
        refused = [d for d in found if d.code == "POL103"]
        assert [d.range.start.line for d in refused] == [1]
        assert refused[0].severity is lsp.DiagnosticSeverity.Error


async def test_only_last_of_several_quick_changes_is_checked(editor):
    async with editor() as it:
        it.open("p.ltp", "S1: @RESPOND (")
        await it.findings("p.ltp")
        for version in range(2, 6):
            it.change("p.ltp", f'S1: @RESPOND ("{version}")\n', version)
        assert {d.code for d in await it.findings("p.ltp", 5)} == {"LTP101"}
        assert not any(it.was_told("p.ltp", version) for version in (2, 3, 4))


async def test_closed_document_has_no_diagnostics(editor):
    async with editor() as it:
        it.open("p.ltp", "S1: @RESPOND (")
        await it.findings("p.ltp")
        it.client.text_document_did_close(lsp.DidCloseTextDocumentParams(it.document("p.ltp")))
        await it.until(lambda: it.was_told("p.ltp", None))


async def test_graph_plan_has_diagnostics_and_symbols(editor):
    steps = [
        {"index": "1", "title": "Read", "tool": "read_file", "args": {"path": "a"}, "depends_on": []},
        {"index": "2", "title": "Add", "tool": "add", "args": {"a": 1}, "depends_on": ["1", "9"]},
    ]
    text = json.dumps({"title": "t", "steps": steps}, indent=1)
    async with editor("--tools", "tools.py") as it:
        it.open("p.dag.json", text, "json")
        found = await it.findings("p.dag.json")
        assert [d.code for d in found] == ["CHK060"]
        symbols = await it.client.text_document_document_symbol_async(
            lsp.DocumentSymbolParams(it.document("p.dag.json"))
        )
        assert [(s.name, s.detail) for s in symbols] == [("1", "Read"), ("2", "Add")]


async def test_policy_file_has_diagnostics_with_positions(editor):
    async with editor() as it:
        it.open("policy.toml", 'schema = 1\nextends = "workspace"\n[defaults]\nmemry = true\n', "toml")
        (found,) = await it.findings("policy.toml")
        assert (found.code, found.range.start.line) == ("POL002", 3)


async def test_positions_use_editor_encoding(editor):
    text = 'S1: @READ_FILE (path="😀") > $a\nS2: @RESPOND ("😀 $b")\n'
    columns = {"utf-8": 20, "utf-16": 18, "utf-32": 17}
    async with editor.listening() as port:
        for encoding, column in columns.items():
            async with editor(port=port, encodings=[encoding]) as it:
                it.open("p.ltp", text)
                (found,) = [d for d in await it.findings("p.ltp") if d.code == "CHK001"]
                assert found.range.start.character == column, encoding
