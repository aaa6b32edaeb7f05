"""The child process that serves a model on the loopback interface until its parent ends.

In: one line of JSON on standard input. Out: one line with the server's address on standard output. The
input stays open while the parent lives; when it closes, the process exits. Imports nothing of callsheet.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def serve(request: dict[str, Any]) -> Any:
    """A server for the model file with the requested context, threads, batch size and key."""
    library: Any = import_module("xllamacpp")  # it has no types
    params = library.CommonParams()
    params.model.path = request["path"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [request["key"]]
    params.n_ctx = request["context"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = request["block"]
    params.cpuparams.n_threads = request["threads"]
    params.cpuparams_batch.n_threads = request["threads"]
    params.n_threads_http = 2
    params.cache_ram_mib = 0
    params.warmup = False
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.verbosity = 1
    return library.Server(params)


def main() -> None:
    """Serve until standard input is closed."""
    answer = os.dup(1)
    os.dup2(2, 1)  # the library's output must not mix with the answer
    server = serve(json.loads(sys.stdin.buffer.readline()))
    os.write(answer, json.dumps({"address": server.listening_address}).encode() + b"\n")
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)  # nobody waits for an answer in progress any more


if __name__ == "__main__":
    main()
