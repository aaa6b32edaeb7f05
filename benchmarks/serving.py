"""Measures runs per second over HTTP, compared with a bare Starlette application on the same machine.

    python benchmarks/serving.py [--runs 300] [--clients 4] [--rounds 3]

`callsheet serve` executes runs of a plan with two steps, each written to the journal, until all have ended.
The bare application reads the same body and returns a response of the same text. CPU time is that of the
server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PLAN = "S1: @ADD (a=1) > $x\nS2: @RESPOND ($x)"
TOOLS = '''from callsheet import tool

@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b
'''
BARE = """import json, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

ANSWER = sys.argv[1].encode()

async def start(request):
    json.loads(await request.body())
    return Response(ANSWER, 202, media_type="application/json")

listener = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sends at once on these alone
listener.bind(("127.0.0.1", 0))
listener.listen(2048)
print(json.dumps({"url": "http://127.0.0.1:%d" % listener.getsockname()[1]}), flush=True)
app = Starlette(routes=[Route("/v1/runs", start, methods=["POST"])])
config = uvicorn.Config(app, access_log=False, log_config=None, http="h11", lifespan="off")
uvicorn.Server(config).run(sockets=[listener])
"""
_BARE = 2_000
"""Requests of the bare framework: fewer are over before its clock of ticks tells anything."""
BODY = json.dumps({"plan": PLAN}).encode()
HEADERS = {"Content-Type": "application/json"}
CALLSHEET = "from callsheet.apps.cli.main import main; main()"


class Server(NamedTuple):
    """A server that listens: its process, its host and port."""

    pid: int
    host: str

    def seconds(self) -> float:
        """The processor time that its process has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Took(NamedTuple):
    """The mean cost of one request: elapsed seconds and CPU seconds."""

    wall: float
    cpu: float


@contextmanager
def served(folder: Path, *command: str) -> Generator[Server]:
    """A server process that prints as JSON where it listens."""
    child = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        url = json.loads(child.stdout.readline())["url"]
        yield Server(child.pid, url.removeprefix("http://"))
    finally:
        child.terminate()
        child.communicate()


def ask(host: str, count: int, method: str, path: str, body: bytes | None) -> bytes:
    """Send the same request repeatedly on one connection; returns the last response."""
    connection = http.client.HTTPConnection(host, timeout=60)
    said = b""
    for _ in range(count):
        connection.request(method, path, body, HEADERS)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status in (200, 202), said
    connection.close()
    return said


def have_ended(host: str) -> bool:
    """Whether no run is queued or under way."""
    open_now = [f"/v1/runs?limit=1&status={status}" for status in ("queued", "running")]
    return not any(json.loads(ask(host, 1, "GET", path, None))["runs"] for path in open_now)


def measured(
    server: Server, count: int, clients: int, method: str, body: bytes | None, until: Callable[[str], bool]
) -> Took:
    """The cost of a request, with several clients, until all runs that they started have ended."""
    cpu, wall = server.seconds(), time.monotonic()
    share = count // clients
    with ThreadPoolExecutor(clients) as threads:
        asked = [threads.submit(ask, server.host, share, method, "/v1/runs", body) for _ in range(clients)]
    for each in asked:
        each.result()
    while not until(server.host):
        time.sleep(0.05)
    done = share * clients
    return Took((time.monotonic() - wall) / done, (server.seconds() - cpu) / done)


def least(took: list[Took]) -> Took:
    """The least of several rounds."""
    return Took(min(each.wall for each in took), min(each.cpu for each in took))


def main() -> None:
    """Measure both in interleaved rounds, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools.py").write_text(TOOLS)
        ours = ("serve", "--port", "0", "--no-auth", "--rate", "0", "--json", "--journal", "j.db")
        with served(folder, "-c", CALLSHEET, *ours, "--tools", "tools.py") as callsheet:
            answer = ask(callsheet.host, 1, "POST", "/v1/runs", BODY)
            with served(folder, "-c", BARE, answer.decode()) as bare:
                _compare(callsheet, bare, wanted.runs, wanted.clients, wanted.rounds)


def _compare(callsheet: Server, bare: Server, runs: int, clients: int, rounds: int) -> None:
    started, looked, plain = list[Took](), list[Took](), list[Took]()
    for _ in range(rounds):
        started.append(measured(callsheet, runs, clients, "POST", BODY, have_ended))
        looked.append(measured(callsheet, runs, clients, "GET", None, lambda _: True))
        plain.append(measured(bare, max(_BARE, runs), clients, "POST", BODY, lambda _: True))
    floor = least(plain)
    print("| | per second | ms of CPU time each | times the bare framework |")
    print("|---|---|---|---|")
    rows = (("a run, to its end", started), ("a list of runs", looked), ("bare Starlette", plain))
    for name, took in rows:
        one = least(took)
        print(f"| {name} | {1 / one.wall:,.0f} | {one.cpu * 1_000:.2f} | {one.cpu / floor.cpu:.1f} |")


if __name__ == "__main__":
    main()
