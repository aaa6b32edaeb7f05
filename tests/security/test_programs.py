"""What programs see in runs under a policy: the same files that their results are labelled by."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from callsheet import Runtime
from callsheet.api.proving import PolicyRefused
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, isolation

POLICY = """schema = 1
extends = "workspace"
[sources]
"file:**/.env" = { conf = "secret" }
"file:docs/**" = { conf = "pub" }
[tools."@TELL"]
egress = true
destructive = false
idempotent = true
"""


def settings_in(place: Path, **execution: Any) -> BuiltinSettings:
    return BuiltinSettings(workspace=place, data=place / ".data", execution=ExecutionSettings(**execution))


with tempfile.TemporaryDirectory() as _place:
    pytestmark = pytest.mark.skipif(
        isolation(settings_in(Path(_place))).kind != "namespaces", reason="there is no sandbox here"
    )


@pytest.fixture
def place() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(folder)
        (root / "docs").mkdir()
        for name in ("docs/a.md", "docs/.env", "notes.txt", ".env"):
            (root / name).write_text(f"<{name}>")
        yield root


def policy_of(place: Path, more: str = "") -> str:
    path = place / ".test" / "policy.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(POLICY + more)
    return str(path)


def tell(text: str) -> str:
    return "told"


def runtime(place: Path, more: str = "", **execution: Any) -> Runtime:
    builtins = settings_in(place, **{"workspace": "read", **execution})
    return Runtime([tell], builtins=builtins, policy=policy_of(place, more))


def plan(code: str, then: str = "@RESPOND ($o)", reads: str = "") -> str:
    return f'S1: @SHELL_EXEC (code=r"""{code}"""{reads}) > $o\nS2: {then}'


TELL = "@TELL (text=$o)"
ALL = "cat docs/a.md notes.txt $(printf 'docs/.%s' env) $(printf '.%s' env) 2>/dev/null; true"


async def test_program_that_declares_nothing_sees_no_secret_and_its_output_stays(place: Path) -> None:
    result = await runtime(place).run(plan(ALL))
    assert result.variables["o"] == "<docs/a.md><notes.txt>"
    with pytest.raises(PolicyRefused) as caught:
        await runtime(place).run(plan(ALL, TELL))
    (found,) = (d for d in caught.value.diagnostics if d.code == "POL103")
    assert "S1 may read the whole workspace: say what it reads with reads=" in (found.help or "")


async def test_program_sees_what_it_declares_and_its_output_may_be_told(place: Path) -> None:
    result = await runtime(place, workspace="hidden").run(plan(ALL, "@RESPOND ($o)", ', reads=["docs"]'))
    assert result.variables["o"] == "<docs/a.md>"
    assert (await runtime(place).run(plan(ALL, TELL, ', reads=["docs"]'))).ok
    with pytest.raises(PolicyRefused):
        await runtime(place).run(plan(ALL, TELL, ', reads=["docs", "notes.txt"]'))


async def test_policy_declares_for_a_tool(place: Path) -> None:
    usual = """
[tools."@SHELL_EXEC"]
egress = false
destructive = false
returns = "T/pub"
reads = ["docs/*.md"]
"""
    result = await runtime(place, usual).run(plan(ALL))
    assert result.variables["o"] == "<docs/a.md>"
    assert (await runtime(place, usual).run(plan(ALL, TELL))).ok


async def test_label_of_written_file_counts_for_program_that_declares_it(place: Path) -> None:
    journal = str(place / "runs.db")
    kept = 'S1: @READ_FILE ("notes.txt") > $n\nS2: @WRITE_FILE ("docs/n.md", $n) > $w\nS3: @RESPOND ("ok")'
    policy = policy_of(place)
    async with Runtime([tell], builtins=settings_in(place), policy=policy, journal=journal) as recorded:
        assert (await recorded.run(kept)).ok
        with pytest.raises(PolicyRefused):
            await recorded.run(plan("make report", TELL, ', reads=["docs"]'))
        assert (await recorded.run(plan("cat docs/a.md", TELL, ', reads=["docs/a.md"]'))).ok


async def test_secret_is_read_where_it_is_named_and_approved(place: Path) -> None:
    with pytest.raises(PolicyRefused) as caught:
        await runtime(place).run(plan("cat .env", "@RESPOND ($o)", ', reads=[".env"]'))
    assert any("secret" in d.message for d in caught.value.diagnostics)
