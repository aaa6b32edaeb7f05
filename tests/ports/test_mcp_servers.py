"""Real MCP servers: starting, connecting, concurrent calls, failures, cleanup."""

import asyncio
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from opentelemetry import context, trace
from tests import forked
from tests.network import free_port
from tests.waiting import until

from callsheet import Limits, arun
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Effect
from callsheet.machine.keys import span_id, trace_id
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.mcp import HttpServer, McpPool, McpServerConfig, StdioServer, folder_sink
from callsheet.ports.mcp.declarations import pin_of
from callsheet.ports.tools import Registry

pytestmark = pytest.mark.servers

CONTEXT = CallContext("run-1", "S1.0.1", "key-1")
WORKSHOP = str(Path(__file__).parent / "servers" / "workshop.py")


@pytest.fixture
def workshop(tmp_path):
    """The configuration of the test server; its events are recorded in `notes`."""
    command, *arguments = forked.line(WORKSHOP, "stdio", tmp_path / "notes")
    transport = StdioServer(command, tuple(arguments))
    return McpServerConfig("workshop", transport, timeout=60)


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes"
    return lambda: path.read_text().split("\n")[:-1] if path.exists() else []


def handlers(pool):
    return {tool.spec.executor: tool.handler for tool, _ in pool.tools()}


async def failure(call):
    with pytest.raises(ToolFailed) as caught:
        await call
    return caught.value


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        if os.path.isdir("/proc")
        else True
    )


async def refusal(config, **options):
    async with McpPool([config], **options) as pool:
        with pytest.raises(CallsheetError) as caught:
            await pool.connect()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


# ---------------------------------------------------------------- the public servers


@pytest.fixture
def public(server_python, tmp_path):
    """The git, time and sqlite servers, each in its own environment."""
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", str(repo)], check=True)

    def command(package):
        return str(server_python(package).parent / package)

    return repo, [
        McpServerConfig(
            "git", StdioServer(command("mcp-server-git"), ("--repository", str(repo))), trusted=True
        ),
        McpServerConfig(
            "time", StdioServer(command("mcp-server-time")), effects={"convrt_time": Effect.READ}
        ),
        McpServerConfig(
            "db", StdioServer(command("mcp-server-sqlite"), ("--db-path", str(tmp_path / "x.db")))
        ),
    ]


async def test_three_servers_of_different_kinds_work_concurrently(public):
    repo, configs = public
    async with McpPool(configs) as pool:
        (doubt,) = await pool.connect()
        assert (doubt.code, doubt.help) == ("TOL015", "did you mean convert_time?")
        registry = Registry()
        for tool, alias in pool.tools():
            registry.add(tool, alias)
        assert registry.require("GIT__GIT_LOG") is registry.require("GIT_LOG")
        assert registry.require("GIT_STATUS").spec.effect is Effect.READ
        assert registry.require("GIT_COMMIT").spec.effect is Effect.UNSAFE
        assert registry.require("CONVERT_TIME").spec.effect is Effect.UNSAFE
        assert registry.require("READ_QUERY").spec.parameter_names == ("query",)
        assert {s.name for s in pool.status()} == {"git", "time", "db"}
        assert len({s.protocol for s in pool.status()}) == 2

        async def call(name, **args):
            return await registry.require(name).handler(args, CONTEXT)

        (repo / "a.txt").write_text("a\n")
        assert "a.txt" in await call("GIT_STATUS", repo_path=str(repo))
        converted = await call(
            "CONVERT_TIME", source_timezone="UTC", target_timezone="Asia/Tokyo", time="12:00"
        )
        assert converted["time_difference"] == "+9.0h"
        await call("CREATE_TABLE", query="create table t (a int)")
        await call("WRITE_QUERY", query="insert into t values (7)")
        assert await call("READ_QUERY", query="select a from t") == "[{'a': 7}]"
        refused = await failure(call("GIT_STATUS", repo_path="/"))
        assert "outside" in str(refused)
        assert not refused.in_doubt


async def test_pins_are_stable_across_starts(public):
    _, configs = public
    pins = []
    for _ in range(2):
        async with McpPool(configs) as pool:
            await pool.connect()
            pins.append({tool.spec.name: tool.spec.pin for tool, _ in pool.tools()})
    assert pins[0] == pins[1]
    assert len(set(pins[0].values())) == len(pins[0]) > 15


async def test_server_exiting_at_start_is_reported_with_last_output(broken_server_python, tmp_path):
    command = broken_server_python("mcp-server-sqlite").parent / "mcp-server-sqlite"
    transport = StdioServer(str(command), ("--db-path", str(tmp_path / "x.db")))
    said = await refusal(McpServerConfig("db", transport))
    assert said.code == "TOL011"
    assert "ended with exit status 1; it last wrote:" in said.message
    assert "AttributeError: 'Server' object has no attribute 'list_resources'" in said.message


@pytest.fixture
def everything(node_server):
    node, script = node_server("@modelcontextprotocol/server-everything")
    return McpServerConfig("everything", StdioServer(node, (script, "stdio")), timeout=60)


async def test_reference_server_returns_images_links_structures_and_slow_answers(everything, tmp_path):
    async with McpPool([everything], blob_sink=folder_sink(tmp_path)) as pool:
        await pool.connect()
        call = handlers(pool)
        assert await call["echo"]({"message": "hi"}, CONTEXT) == "Echo: hi"
        image = next(b for b in await call["get-tiny-image"]({}, CONTEXT) if isinstance(b, dict))
        assert image["mimeType"] == "image/png"
        assert _bytes(image)[:4] == b"\x89PNG"
        weather = await call["get-structured-content"]({"location": "Chicago"}, CONTEXT)
        assert set(weather) == {"temperature", "conditions", "humidity"}
        links = await call["get-resource-links"]({"count": 2}, CONTEXT)
        assert [b["type"] for b in links if isinstance(b, dict)] == ["resource_link"] * 2
        blob = (await call["get-resource-reference"]({"resourceType": "Blob", "resourceId": 1}, CONTEXT))[1]
        assert len(_bytes(blob)) == blob["size"]
        slow = await call["trigger-long-running-operation"]({"duration": 0.3, "steps": 3}, CONTEXT)
        assert slow.startswith("Long running operation completed")
        task = call["simulate-research-query"]({"topic": "tides"}, CONTEXT)  # takes calls as tasks only
        assert (await task).startswith("# Research Report: tides")
        assert "expected number" in str(await failure(call["get-sum"]({"a": 1, "b": "x"}, CONTEXT)))


async def test_reference_server_works_over_http(everything):
    port = free_port()
    env = {**os.environ, "PORT": str(port)}
    command = [everything.transport.command, everything.transport.args[0], "streamableHttp"]
    with _serving(command, port, env):
        http = dataclasses.replace(everything, transport=HttpServer(f"http://127.0.0.1:{port}/mcp"))
        async with McpPool([http]) as pool:
            await pool.connect()
            call = handlers(pool)
            answers = await asyncio.gather(*(call["echo"]({"message": str(n)}, CONTEXT) for n in range(20)))
            assert answers == [f"Echo: {n}" for n in range(20)]


# ---------------------------------------------------------------- calls


async def test_results_are_values_and_idempotency_key_is_sent(workshop):
    async with McpPool([workshop]) as pool:
        assert await pool.connect() == ()
        names = {tool.spec.executor: tool.spec.name for tool, _ in pool.tools()}
        assert names["select"] == "WORKSHOP__SELECT"
        call = handlers(pool)
        assert await call["numbers"]({"count": 3}, CONTEXT) == [0, 1, 2]
        assert await call["texts"]({}, CONTEXT) == ["one", "two"]
        assert await call["nothing"]({}, CONTEXT) is None
        assert await call["select"]({}, CONTEXT) == "chosen"
        meta = await call["meta"]({}, CONTEXT)
        assert meta["dev.callsheet/idempotency-key"] == "key-1"
        assert "dev.callsheet/idempotency-key" not in await call["meta"]({}, CallContext("r", "k", ""))
        refused = await failure(call["fail"]({"text": "no paper"}, CONTEXT))
        assert "no paper" in str(refused)
        assert not refused.in_doubt


async def test_call_carries_trace_context_of_run(workshop):
    async with McpPool([workshop]) as pool:
        await pool.connect()
        meta = await handlers(pool)["meta"]({}, CONTEXT)
    assert meta["traceparent"] == f"00-{trace_id('run-1')}-{span_id('run-1', 'S1.0.1')}-01"


async def test_trace_id_is_that_of_run_in_program_with_own_spans(workshop):
    own = trace.SpanContext(0xABC, 0xDEF, False, trace.TraceFlags(1))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(own)))
    try:
        async with McpPool([workshop]) as pool:
            await pool.connect()
            meta = await handlers(pool)["meta"]({}, CONTEXT)
        assert trace.get_current_span().get_span_context() == own
    finally:
        context.detach(token)
    assert meta["traceparent"].split("-")[1] == trace_id("run-1")


async def test_many_calls_are_concurrent(workshop, notes):
    async with McpPool([workshop]) as pool:
        await pool.connect()
        slow = handlers(pool)["slow"]
        calls = [asyncio.create_task(slow({"seconds": 50}, CONTEXT)) for _ in range(20)]
        await until(lambda: notes().count("slow 50") == 20)
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert await handlers(pool)["texts"]({}, CONTEXT) == ["one", "two"]


async def test_late_answer_is_failure_in_doubt_and_server_is_notified(workshop, notes):
    async with McpPool([dataclasses.replace(workshop, timeout=2)]) as pool:
        await pool.connect()
        late = await failure(handlers(pool)["slow"]({"seconds": 60}, CONTEXT))
        assert (str(late), late.in_doubt) == ("no answer within 2 s", True)
        await until(lambda: "cancelled" in notes())
        assert await handlers(pool)["texts"]({}, CONTEXT) == ["one", "two"]
        assert notes().count("start") == 1


async def test_cancelled_call_leaves_session_and_other_calls(workshop, notes):
    async with McpPool([workshop]) as pool:
        await pool.connect()
        slow = handlers(pool)["slow"]
        stays = asyncio.create_task(slow({"seconds": 1}, CONTEXT))
        goes = asyncio.create_task(slow({"seconds": 60}, CONTEXT))
        await until(lambda: {"slow 1", "slow 60"} <= set(notes()))
        goes.cancel()
        with pytest.raises(asyncio.CancelledError):
            await goes
        await until(lambda: "cancelled" in notes())
        assert await stays == "done"
        assert notes().count("start") == 1


async def test_dead_server_is_reported_with_last_output_and_restarted(workshop, notes):
    async with McpPool([workshop]) as pool:
        await pool.connect()
        call = handlers(pool)
        other = asyncio.create_task(failure(call["slow"]({"seconds": 60}, CONTEXT)))
        await until(lambda: "slow 60" in notes())
        died = await failure(call["die"]({"words": "out of ink"}, CONTEXT))
        expected = "the MCP server 'workshop' gave no answer: it ended with exit status 3; it last wrote:"
        for error in (died, await other):
            assert str(error).startswith(expected)
            assert str(error).endswith("out of ink")
            assert error.in_doubt
        assert await call["texts"]({}, CONTEXT) == ["one", "two"]
        assert notes().count("start") == 2
        changed = await failure(call["moody"]({}, CONTEXT))
        assert str(changed).endswith("'workshop' is declared differently now (description); not called")
        assert not changed.in_doubt


async def test_server_killed_between_calls_is_restarted_once(workshop, notes):
    async with McpPool([workshop]) as pool:
        await pool.connect()
        (status,) = pool.status()
        os.kill(status.pid, signal.SIGKILL)
        await until(lambda: not pool.status())
        texts = handlers(pool)["texts"]
        assert await asyncio.gather(*(texts({}, CONTEXT) for _ in range(5))) == [["one", "two"]] * 5
        assert notes().count("start") == 2


@pytest.fixture
def fickle():
    """A server of the protocol of 2025 without any library."""
    script = Path(__file__).parent / "servers" / "fickle.py"
    return McpServerConfig("fickle", StdioServer(sys.executable, (str(script),)), timeout=60)


async def test_tools_are_paged_and_pinned_as_received(fickle):
    async with McpPool([fickle]) as pool:
        await pool.connect()
        specs = {tool.spec.executor: tool.spec for tool, _ in pool.tools()}
        assert [n for n in specs if n.startswith("spare")] == [f"spare{n}" for n in range(20)]
        wire = {"name": "spare3", "inputSchema": {"type": "object"}, "x-own": {"b": 1, "a": 2}}
        assert specs["spare3"].pin == pin_of(wire)
        assert (await pool.connect(), pool.status()[0].protocol) == ((), "2025-06-18")


async def test_tool_changed_during_session_is_refused(fickle):
    async with McpPool([fickle]) as pool:
        await pool.connect()
        call = handlers(pool)
        assert await call["look"]({}, CONTEXT) == "ok"
        await call["change"]({}, CONTEXT)
        assert "is declared differently now (description); not called" in str(
            await failure(call["look"]({}, CONTEXT))
        )
        assert await call["spare1"]({}, CONTEXT) == "ok"
        await call["drop"]({}, CONTEXT)
        assert "is no longer offered; not called" in str(await failure(call["spare1"]({}, CONTEXT)))


async def test_large_answer_is_complete(fickle):
    async with McpPool([fickle]) as pool:
        await pool.connect()
        got = await handlers(pool)["large"]({"size": 8_000_000}, CONTEXT)
        assert got == "ä" * 8_000_000


async def test_name_of_two_servers_is_ambiguous(workshop):
    other = dataclasses.replace(workshop, name="annexe")
    async with McpPool([workshop, other]) as pool:
        await pool.connect()
        registry = Registry()
        for tool, alias in pool.tools():
            registry.add(tool, alias)
        with pytest.raises(CallsheetError, match="TOL003"):
            registry.require("TEXTS")
        assert await registry.require("ANNEXE__TEXTS").handler({}, CONTEXT) == ["one", "two"]
        assert registry.require("WORKSHOP__TEXTS").spec.origin == "mcp:workshop"


# ---------------------------------------------------------------- opening and closing


async def test_missing_command_names_server_and_remedy():
    said = await refusal(McpServerConfig("notes", StdioServer("no-such-server")))
    assert said.code == "TOL010"
    assert (
        said.message
        == "the MCP server 'notes' cannot be started with 'no-such-server': there is no such program"
    )
    assert said.help == "install it, or give its whole path as the command"


async def test_missing_working_directory_is_reported(tmp_path):
    said = await refusal(McpServerConfig("notes", StdioServer(sys.executable, cwd=tmp_path / "none")))
    assert (said.code, said.help) == ("TOL010", "correct `cwd`")


async def test_non_program_command_is_reported(tmp_path):
    (tmp_path / "text").write_text("x")
    (tmp_path / "text").chmod(0o755)
    said = await refusal(McpServerConfig("notes", StdioServer(str(tmp_path / "text"))))
    assert said.code == "TOL010"
    assert "Exec format error" in said.message


async def test_program_exiting_at_once_is_reported_with_exit_status():
    code = "import sys; print('usage: give a vault', file=sys.stderr); sys.exit(2)"
    said = await refusal(McpServerConfig("notes", StdioServer(sys.executable, ("-c", code))))
    assert said.code == "TOL011"
    assert said.message.endswith("it ended with exit status 2; it last wrote:\nusage: give a vault")


async def test_unresponsive_program_is_awaited_aloud_then_abandoned_and_killed(caplog):
    code = (
        "import sys, time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('hm', file=sys.stderr, flush=True); time.sleep(60)"
    )
    said = await refusal(McpServerConfig("notes", StdioServer(sys.executable, ("-c", code))), start_timeout=3)
    assert said.code == "TOL012"
    assert said.message.endswith("did not answer the first request within 3 s; it last wrote:\nhm")
    assert "waiting for the MCP server 'notes' to start" in caplog.messages


async def test_refused_connection_is_reported_without_secrets():
    port = free_port()
    said = await refusal(
        McpServerConfig(
            "wiki", HttpServer(f"http://me:hunter2@127.0.0.1:{port}/mcp?key=hunter2", {"A": "hunter2"})
        )
    )
    assert said.code == "TOL013"
    assert f"at http://127.0.0.1:{port}/mcp cannot be reached" in said.message
    assert "hunter2" not in f"{said.message}{said.help}"


async def test_non_mcp_url_is_reported(tmp_path):
    port = free_port()
    with _serving(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], port, None, tmp_path
    ):
        said = await refusal(McpServerConfig("wiki", HttpServer(f"http://127.0.0.1:{port}/mcp")))
    assert said.code == "TOL013"
    assert said.message.endswith(
        f"at http://127.0.0.1:{port}/mcp cannot be reached: HTTP 501 Unsupported method ('POST')"
    )


async def test_failing_server_does_not_block_others(workshop):
    async with McpPool([McpServerConfig("none", StdioServer("no-such-server")), workshop]) as pool:
        (said,) = await pool.connect(keep_going=True)
        assert said.code == "TOL010"
        assert await handlers(pool)["texts"]({}, CONTEXT) == ["one", "two"]


async def test_no_process_remains_after_close_or_cancel(workshop):
    pids = []

    async def use(forever):
        async with McpPool([workshop, dataclasses.replace(workshop, name="annexe")]) as pool:
            await pool.connect()
            pids.extend(s.pid for s in pool.status())
            if forever:
                await handlers(pool)["slow"]({"seconds": 60}, CONTEXT)

    await use(False)
    task = asyncio.create_task(use(True))
    await until(lambda: len(pids) == 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(alive(pid) for pid in pids)


async def test_cancelling_startup_leaves_no_process(workshop, notes, tmp_path):
    pool = McpPool([workshop])
    task = asyncio.create_task(pool.connect())
    await until(notes)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pool.close()
    await until(lambda: not _running(str(tmp_path)))


async def test_child_processes_of_server_end_with_it(tmp_path):
    grandchild = tmp_path / "pid"
    code = (
        "import subprocess, sys, runpy; p = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(grandchild)!r}, 'w').write(str(p.pid))\n"
        f"sys.argv = [{WORKSHOP!r}, 'stdio', {str(tmp_path / 'notes')!r}]\n"
        f"runpy.run_path({WORKSHOP!r}, run_name='__main__')"
    )
    async with McpPool([McpServerConfig("nest", StdioServer(sys.executable, ("-c", code)))]) as pool:
        await pool.connect()
        pid = int(grandchild.read_text())
        assert alive(pid)
    assert not alive(pid)


def test_servers_end_when_client_is_killed(workshop, tmp_path, everything):
    script = tmp_path / "client.py"
    script.write_text(
        "import asyncio\nfrom callsheet.ports.mcp import *\n"
        f"configs = [{workshop!r}, {everything!r}]\n"
        "async def main():\n    async with McpPool(configs) as pool:\n        await pool.connect()\n"
        "        print(*(s.pid for s in pool.status()), flush=True)\n        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n".replace("PosixPath", "Path")
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as client:
        pids = [int(p) for p in client.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        client.kill()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


# ---------------------------------------------------------------- http


async def test_url_server_is_called_and_reconnected(tmp_path, notes):
    port = free_port()
    command = [sys.executable, WORKSHOP, "http", str(port), str(tmp_path / "notes")]
    config = McpServerConfig("workshop", HttpServer(f"http://127.0.0.1:{port}/mcp"), timeout=60)
    async with McpPool([config]) as pool:
        with _serving(command, port):
            await pool.connect()
            call = handlers(pool)
            assert (
                await asyncio.gather(*(call["slow"]({"seconds": 0.3}, CONTEXT) for _ in range(5)))
                == ["done"] * 5
            )
            assert "no paper" in str(await failure(call["fail"]({"text": "no paper"}, CONTEXT)))
            goes = asyncio.create_task(call["slow"]({"seconds": 60}, CONTEXT))
            await until(lambda: "slow 60" in notes())
            goes.cancel()
            with pytest.raises(asyncio.CancelledError):
                await goes
            await until(lambda: "cancelled" in notes())
        lost = await failure(call["texts"]({}, CONTEXT))
        assert "workshop" in str(lost)
        with _serving(command, port):
            assert await call["texts"]({}, CONTEXT) == ["one", "two"]
            assert "declared differently" in str(await failure(call["moody"]({}, CONTEXT)))


async def test_url_server_gets_idempotency_key_in_header(tmp_path, notes):
    """A call with a late answer is redelivered with the same key; another call has another key."""
    port = free_port()
    plan = "S1: @PAY (seconds=30) > $a ON_FAIL @RETRY(1)\nS2: @PAY () > $b"
    servers = {
        "workshop": {
            "url": f"http://127.0.0.1:{port}/mcp",
            "callsheet": {"effects": {"pay": "keyed"}, "timeout": 3},
        }
    }
    with _serving([sys.executable, WORKSHOP, "http", str(port), str(tmp_path / "notes")], port):
        limits = Limits(retry_delay=0.0)
        result = await arun(plan, mcp=servers, data=tmp_path, limits=limits, run_id="run")
    keys = [line.removeprefix("key ") for line in notes() if line.startswith("key ")]
    assert [f"paid by {key}" for key in keys[1:]] == [result.variables["a"], result.variables["b"]]
    assert keys[0] == keys[1] == CallContext("run", "S1.0.1").idempotency_key
    assert keys[2] == CallContext("run", "S2.0.1").idempotency_key


def _bytes(block):
    return Path(block["ref"]).read_bytes()


def _running(words):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if words in line]


class _serving:
    """A server process that listens on a port while the block runs."""

    def __init__(self, command, port, env=None, cwd=None):
        start = forked.Popen if command[0] == sys.executable else subprocess.Popen
        self.process = start(command, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port = port

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
