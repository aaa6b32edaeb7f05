"""An OpenTelemetry collector for tests: an HTTP server that parses OTLP with the official messages."""

from __future__ import annotations

import gzip
import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

REQUESTS = {
    "/v1/traces": traces.ExportTraceServiceRequest,
    "/v1/logs": logs.ExportLogsServiceRequest,
    "/v1/metrics": metrics.ExportMetricsServiceRequest,
}
RESPONSES = {
    "/v1/traces": traces.ExportTraceServiceResponse,
    "/v1/logs": logs.ExportLogsServiceResponse,
    "/v1/metrics": metrics.ExportMetricsServiceResponse,
}


class Collector:
    """Stores spans by their ids, like a trace backend. `answers` are the first statuses to answer with.

    `rejects` are the partial successes that it tells of, by path.
    """

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.takes = set(REQUESTS)
        self.rejects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.spans: dict[str, Any] = {}
        self.logs: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.arrived = threading.Event()
        self.hold = threading.Event()
        self.hold.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.arrived.set()
                collector.hold.wait(30)
                status = collector.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                answer = collector.answer(self.path, self.headers["content-type"]) if status == 200 else b""
                self.send_response(status)
                self.send_header("content-type", self.headers["content-type"])
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.requests.append((path, headers))
        if self.answers:
            return self.answers.pop(0)
        if path not in self.takes:
            return 405
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if headers["content-type"] == "application/json":
            data = json.loads(body)
        else:
            message = REQUESTS[path]()
            message.ParseFromString(body)
            data = MessageToDict(message)
        self._keep(data)
        return 200

    def answer(self, path: str, content_type: str) -> bytes:
        """The body of the response to an accepted request."""
        said = {"partialSuccess": self.rejects[path]} if path in self.rejects else {}
        if content_type == "application/json":
            return json.dumps(said).encode()
        return ParseDict(said, RESPONSES[path]()).SerializeToString()

    def _keep(self, data: dict[str, Any]) -> None:
        for resource in data.get("resourceSpans", ()):
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    self.spans[span["spanId"]] = span | {"schemaUrl": scope["schemaUrl"]}
        for resource in data.get("resourceLogs", ()):
            self.logs += [record for scope in resource["scopeLogs"] for record in scope["logRecords"]]
        for resource in data.get("resourceMetrics", ()):
            for scope in resource["scopeMetrics"]:
                self.metrics |= {metric["name"]: metric for metric in scope["metrics"]}

    def tree(self) -> dict[str, list[str]]:
        """The names of the spans below each span, by its name."""
        found: dict[str, list[str]] = defaultdict(list)
        names = {span_id: span["name"] for span_id, span in self.spans.items()}
        for span in sorted(self.spans.values(), key=lambda span: int(span["startTimeUnixNano"])):
            found[names.get(span.get("parentSpanId", ""), "")].append(span["name"])
        return dict(found)


def attribute(span: dict[str, Any], name: str) -> Any:
    """The value of an attribute of a received span; None if it has none of that name."""
    found = [each["value"] for each in span["attributes"] if each["key"] == name]
    return next(iter(found[0].values())) if found else None
