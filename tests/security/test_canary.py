"""Canaries: secrets from every source are searched for in everything that is written or shown.

One run does everything that a run can do, with real servers, a kill, a resume and a question. Then every
byte of its journal, its user's folders, and its printed and exported output is searched for every canary in
every encoding. Switching off one defence at a time shows that the search finds what is not sealed.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import re2
from tests.apps.conftest import Machine, machine
from tests.security.test_servers_at_urls import Site
from tests.security.world import World
from tests.written import all_bytes

from callsheet.apps.masking import Masker
from callsheet.runtime.asking import Respondents
from callsheet.runtime.recording import Secrecy
from callsheet.sealing.credentials import Shapes
from callsheet.sealing.known import Known, forms_of
from callsheet.sealing.sealer import Sealer
from callsheet.store import Journal

__all__ = ["machine"]
SERVER = Path(__file__).parent / "servers" / "leaky.py"
PLAN = """
S1: @LEAKY__ECHO ("login $token") > $seen
S2: @SITE__LOOK () > $site
S3: @CHAIN ("$token $other") > $failed ON_FAIL GOTO S4
S4: @LARGE ($token) > $large
S5: @AWAY__LOOK () > $gone ON_FAIL GOTO S6
S6: @LEAKY__PERISH ($token) > $dead ON_FAIL GOTO S7
S7: @DIE ($token) > $alive
S8: @KEEP ("$token") > $kept
S9: @ASK_HUMAN ("which one?") > $said
S10: @RESPOND ("all is well")
"""
TOOLS = '''
"""Tools that cannot keep anything to themselves."""
import os
import sys
from pathlib import Path

import callsheet


@callsheet.tool(effect="read")
def chain(text: str) -> str:
    """Fails for a reason that has a reason."""
    try:
        raise KeyError(text)
    except KeyError as error:
        raise RuntimeError(f"while looking for {text!r} with {os.environ['MY_API_KEY']}") from error


@callsheet.tool(effect="read")
def large(text: str) -> str:
    """A value of more than a mebibyte."""
    print("large", text)
    print("large", text, file=sys.stderr)
    return f"{'x' * 600_000} {text} {'y' * 600_000} {os.environ['GIVEN']}"


@callsheet.tool(effect="read")
def die(text: str) -> str:
    """Ends the process the first time, as kill -9 would."""
    if not Path("marker").exists():
        Path("marker").touch()
        os.kill(os.getpid(), 9)
    return f"alive with {text}"


@callsheet.tool(effect="read")
def answer(text: str) -> dict:
    """Knows a password."""
    return {"user": "ada", "password": Path("given/entry").read_text()}


@callsheet.tool
def keep(text: str) -> str:
    """Keeps a text outside of all that is searched."""
    Path("given/kept").write_text(text)
    return f"kept {text}"
'''


def new_canary() -> str:
    return f"Canary.{secrets.token_hex(9)}"


CANARIES = {
    "token": new_canary(),
    "other": new_canary(),
    "env": new_canary(),
    "argument": new_canary(),
    "header": new_canary(),
    "process": new_canary(),
    "entry": new_canary(),
    "new": new_canary(),
    "shape": f"ghp_{secrets.token_hex(18)}",
    "redirect": f"ghp_{secrets.token_hex(18)}",
}
"""By the way that each comes in; the last two are known to nobody and found by what they look like, and
`entry` by its name in an answer; `new` is set in a fork."""


FORMS = {
    name: [form.encode() for form in forms_of(canary) if len(form) >= 8] for name, canary in CANARIES.items()
}


ANY = re2.compile(b"|".join(re2.escape(form) for forms in FORMS.values() for form in forms))


@cache
def hits(data: bytes) -> list[str]:
    """The canaries that occur in the bytes, in any form."""
    if not ANY.search(data):
        return []
    return [name for name, forms in FORMS.items() if any(form in data for form in forms)]


def hits_below(folder: Path, but: Path) -> dict[str, list[str]]:
    """The files below a folder that contain a canary, except those in one that may."""
    files = (file for file in folder.rglob("*") if file.is_file() and but not in file.parents)
    return {
        str(file): found for file in files if (found := [*hits(file.read_bytes()), *hits(str(file).encode())])
    }


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    site, away = Site(), Site()
    site.result = {"content": [{"type": "text", "text": f"you are {CANARIES['header']}"}]}
    away.redirects["tools/call"] = 307, f"http://127.0.0.1:1/?token={CANARIES['redirect']}"
    yield site, away
    site.close()
    away.close()


@pytest.fixture
def leaky(machine: Machine, sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with three servers that know secrets; allowed files lie in `given`."""
    header = {"Authorization": f"Bearer {CANARIES['header']}"}
    servers: dict[str, Any] = {
        "leaky": {
            "command": sys.executable,
            "args": [str(SERVER), "--token", CANARIES["argument"]],
            "env": {"LEAKY_SECRET": CANARIES["env"], "MORE": f"use {CANARIES['shape']}"},
        },
        "site": {"url": sites[0].url, "headers": header},
        "away": {"url": sites[1].url, "headers": header},
    }
    machine.write("given/mcp.json", json.dumps({"mcpServers": servers}))
    machine.write("given/entry", CANARIES["entry"])
    machine.write("given/other", f"{CANARIES['other']}\n")
    machine.write("tools.py", TOOLS)
    monkeypatch.setenv("WORD", CANARIES["token"])
    monkeypatch.setenv("MY_API_KEY", CANARIES["process"])
    monkeypatch.setenv("GIVEN", f"use {CANARIES['shape']}")
    monkeypatch.delenv("CALLSHEET_SEAL_KEY", raising=False)
    return machine


RUN = (
    "run", "plan.ltp", "--tools", "tools.py", "--mcp-config", "given/mcp.json", "--run-id", "r",
    "--secret", "token=env:WORD", "--secret", "other=file:given/other", "--approve", "keep",
    "--on-in-doubt", "fail",
)  # fmt: skip
DRY = (*RUN[:6], "--dry-run", "--secret", "token=env:WORD")
LOOKS = (
    ("inbox",), ("inbox", "--json"), ("show", "r"), ("show", "r", "--json"), ("show", "r", "--events"),
    ("show", "r", "--events", "--json"), ("show", "r", "--timeline"), ("why", "r", "large"),
    ("why", "r", "kept", "--json"), ("why", "r", "token", "--forward"), ("at", "r", "9"),
    ("at", "r", "9", "--json"), ("blame", "r"), ("lctl", "emit", "r"),
    ("lctl", "emit", "r", "--debug", "--json"), ("runs", "diff", "r", "q"),
    ("runs", "diff", "r", "q", "--json"), ("runs",), ("runs", "--json"), ("runs", "verify"),
    ("trace", "export", "r", "--file", "traces.json", "--content"), ("report", "r", "-o", "report.html"),
    ("graph", "plan.ltp"), (*DRY, "--secret", "other=file:given/other"),
)  # fmt: skip


def test_no_canary_is_written_or_shown(leaky: Machine) -> None:
    leaky.plan(*PLAN.strip().splitlines())
    said: dict[str, bytes] = {}

    def type_in(*line: str) -> subprocess.CompletedProcess[str]:
        done = leaky.shell(*line)
        said[f"{len(said)} {' '.join(line)}"] = (done.stdout + done.stderr).encode()
        return done

    assert type_in(*RUN).returncode == -9
    assert hits_below(leaky.folder, leaky.folder / "given") == {}
    assert type_in("show", "r").returncode == 0
    waiting = type_in("resume", "r")
    assert waiting.returncode == 4, waiting.stderr
    assert "[sealed k:" in type_in("inbox").stdout
    assert type_in("approve", "r", "--note", f"by {CANARIES['header']}").returncode == 0
    assert type_in("resume", "r").returncode == 4
    answered = leaky.shell("approve", "r", "--answer", f"that of {CANARIES['header']}")
    assert answered.returncode == 0, answered.stderr
    assert hits_below(leaky.folder, leaky.folder / "given") == {}  # it knows of no server, and writes nothing
    assert type_in("inbox").returncode == 0
    ended = type_in("resume", "r", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["response"] == "all is well"
    second = [word if word != "r" else "q" for word in RUN]
    assert type_in(*second, "--json").returncode == 4
    for line in LOOKS:
        looked = leaky(*line)
        assert looked.exit_code in (0, 1), (line, looked.output)
        assert looked.exception is None or isinstance(looked.exception, SystemExit), (line, looked.output)
        said[" ".join(line)] = looked.output.encode()

    assert (leaky.folder / "given" / "kept").read_text() == CANARIES["token"]  # the tools got the real ones
    assert "S8     ok" in leaky("show", "r").stdout
    assert "[sealed k:" in (leaky.folder / "traces.json").read_text()
    assert (leaky.folder / "report.html").exists()
    for line, text in said.items():
        assert hits(text) == [], (line, text.decode()[-3000:])
    assert hits_below(leaky.folder, leaky.folder / "given") == {}
    assert leaky.shell("runs", "export", "r", "-o", "exported.jsonl").returncode == 0
    assert leaky.shell("runs", "import", "exported.jsonl", "--journal", "other/journal.db").returncode == 0
    assert hits_below(leaky.folder, leaky.folder / "given") == {}


def test_no_canary_set_in_fork_is_written_or_shown(leaky: Machine) -> None:
    """Declared, configured here and at a server, recognized by pattern, and replacing a sealed value."""
    lines = (
        'S1: @LARGE ("nothing") > $seen',
        'S2: @ANSWER ("ask $token") > $account',
        "S3: @CHAIN ($seen) > $failed ON_FAIL GOTO S4",
        'S4: @RESPOND ("$account.password")',
    )
    leaky.plan(*lines)
    assert leaky.shell(*RUN).returncode == 0
    assert hits_below(leaky.folder, leaky.folder / "given") == {}
    given = (
        ("seen", CANARIES["token"]), ("seen", CANARIES["header"]), ("seen", f"a {CANARIES['process']}"),
        ("seen", CANARIES["redirect"]), ("token", CANARIES["new"]),
        ("account", CANARIES["new"]), ("account", json.dumps({"user": "ada", "code": CANARIES["new"]})),
    )  # fmt: skip
    at = {"seen": "2", "account": "4", "token": "1"}
    for number, (name, value) in enumerate(given):
        text = value if value.startswith("{") else json.dumps(value)
        line = ("fork", "r", "--at", at[name], "--set", f"{name}={text}", "--run-id", f"f{number}")
        asked = leaky.shell(*line) if number % 3 == 0 else None
        assert asked is None or asked.returncode in (0, 4), asked.stderr
        made = leaky.shell(*line, "--yes") if asked is None or asked.returncode == 4 else asked
        assert made.returncode == 0, made.stderr
        assert hits(((asked.stderr if asked else "") + made.stderr).encode()) == []
        assert hits(leaky("show", f"f{number}", "--events", "--json").output.encode()) == []
        assert hits_below(leaky.folder, leaky.folder / "given") == {}, (name, value)
    for name in ("token", "header", "process", "redirect", "entry"):
        for edit in (
            ("--args", f"S3.text={json.dumps(CANARIES[name])}"),
            ("--replace", f'S3=@CHAIN ("{CANARIES[name]}")'),
        ):
            refused = leaky("fork", "r", "--at", "1", *edit, "--yes")
            assert refused.exit_code == 2, refused.output
            assert "SEC009" in refused.output
            assert hits(refused.output.encode()) == []
    assert hits_below(leaky.folder, leaky.folder / "given") == {}


SMALL = (
    "S1: @CHAIN ($token) > $failed ON_FAIL GOTO S2",
    'S2: @LARGE ("nothing") > $large',
    'S3: @RESPOND ("it was $token")',
)
_NO_LIKENESS: Callable[..., Any] = lambda *given: False  # noqa: E731


def small_run(leaky: Machine) -> bytes:
    """A short run within this process: its output, and all bytes of its journal."""
    leaky.plan(*SMALL)
    done = leaky("run", "plan.ltp", "--tools", "tools.py", "--secret", "token=env:WORD")
    assert done.exit_code == 0, done.output
    files = b"".join(file.read_bytes() for file in leaky.journal.parent.rglob("*") if file.is_file())
    return done.output.encode() + files


def test_short_run_contains_no_canary(leaky: Machine) -> None:
    assert hits(small_run(leaky)) == []


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "seen"),
    [
        (Sealer, "sealed", lambda *given: None, "token"),
        (Known, "may_be_in", _NO_LIKENESS, "token"),
        (Known, "found_in", lambda *given: iter(()), "process"),
        (Shapes, "may_be_in", _NO_LIKENESS, "shape"),
        (Masker, "outcome", lambda masker, outcome: outcome, "token"),
        (Masker, "add_secrets", lambda masker, known: None, "token"),
    ],
)
def test_search_detects_each_removed_defence(
    leaky: Machine, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, mutant: Any, seen: str
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    assert seen in hits(small_run(leaky))


def test_notes_are_masked_twice(leaky: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as a note, and once on standard error."""
    monkeypatch.setattr(Masker, "note", lambda masker, note: note)
    assert hits(small_run(leaky)) == []
    monkeypatch.setattr(
        "callsheet.apps.masking._ChunkStream.write", lambda chunks, text: chunks._stream.write(text)
    )
    assert "token" in hits(small_run(leaky))


LABELLED = """
S1: @READ_FILE ("box/key.txt") > $key
S2: @NOTE ($key) > $noted
S3: @WRITE_FILE ("box/copy.txt", $key) > $w
S4: @READ_FILE ("box/gone-$key") > $e ON_FAIL GOTO S5
S5: @NOTE ("done") > $end
"""


@pytest.mark.parametrize("is_off", [False, True])
async def test_value_with_secret_label_is_sealed_for_any_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_off: bool
) -> None:
    if is_off:
        monkeypatch.setattr(Secrecy, "of", lambda *given: {})
    word = "wednesday evening"
    (tmp_path / "work").mkdir()
    with Journal.open(tmp_path / "journal" / "journal.db") as journal:
        world = World(tmp_path / "work", journal)
        world.write("box/key.txt", word)
        outcome = await world.run(LABELLED, present=Respondents(lambda ask: True))
        assert outcome.result is not None
        assert outcome.result.variables["key"] == word
        assert outcome.result.secret >= {"key"}
        again = await world.resume()
        assert again.result == outcome.result
    assert (word.encode() in all_bytes(tmp_path / "journal")) == is_off
