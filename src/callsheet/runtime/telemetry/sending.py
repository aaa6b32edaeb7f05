"""Sends telemetry to a collector over HTTP in portions, and counts what was accepted.

In: telemetry of a run. Out: counts, or CallsheetError: TRC001 for an unreachable collector, TRC002 for one
that refuses, TRC005 for one that does not accept JSON. A busy collector is retried a few times.
"""

from __future__ import annotations

import gzip
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.telemetry.target import Signal, Target
from callsheet.version import VERSION
from callsheet.views.otel import otlp
from callsheet.views.otel.model import Telemetry

if TYPE_CHECKING:
    import httpx2

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
_COUNTS = {
    Signal.TRACES: "rejectedSpans",
    Signal.LOGS: "rejectedLogRecords",
    Signal.METRICS: "rejectedDataPoints",
}
_IDS = ("traceId", "spanId", "parentSpanId")


def best_encoding() -> str:
    """The content type: protobuf, which all collectors accept, with `callsheet[otel]`; else JSON, which most
    accept.
    """
    try:
        spec = find_spec("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ModuleNotFoundError:
        spec = None
    return JSON if spec is None else PROTOBUF


def encoded(document: dict[str, Any], signal: Signal, content_type: str) -> bytes:
    """The bytes of a request."""
    if content_type == JSON:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        )
    from google.protobuf.json_format import ParseDict  # noqa: PLC0415 - only where something is sent

    return ParseDict(_with_bytes(document), _message(signal, "Request")).SerializeToString(deterministic=True)


class Rejected(NamedTuple):
    """How many items of accepted requests a collector has rejected, and its reason."""

    items: int
    why: str


NOTHING_REJECTED = Rejected(0, "")


def rejected(body: bytes, content_type: str, signal: Signal) -> Rejected:
    """The partial success that a response with status 200 tells of.

    A body that is no OTLP response means that everything was accepted: some collectors answer with a text.

    >>> rejected(b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "old"}}', JSON, Signal.TRACES)
    Rejected(items=2, why='old')
    >>> rejected(b"ok", "text/plain", Signal.TRACES)
    Rejected(items=0, why='')
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == JSON:
            partial = json.loads(body)["partialSuccess"]
        elif kind == PROTOBUF:
            partial = _partial_success(body, signal)
        else:
            return NOTHING_REJECTED
        return Rejected(int(partial.get(_COUNTS[signal], 0)), str(partial.get("errorMessage", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return NOTHING_REJECTED


def _partial_success(body: bytes, signal: Signal) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only where something is sent
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above

    message = _message(signal, "Response")
    try:
        message.ParseFromString(body)
    except DecodeError:
        return {}
    return MessageToDict(message).get("partialSuccess", {})


def _message(signal: Signal, kind: str) -> Any:
    """An empty message of the protocol for a signal: its "Request" or its "Response"."""
    match signal:
        case Signal.TRACES:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service  # noqa: PLC0415

            name = "Trace"
        case Signal.METRICS:
            from opentelemetry.proto.collector.metrics.v1 import (  # noqa: PLC0415
                metrics_service_pb2 as service,
            )

            name = "Metrics"
        case Signal.LOGS:
            from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service  # noqa: PLC0415

            name = "Logs"
    return getattr(service, f"Export{name}Service{kind}")()


def _with_bytes(value: Any) -> Any:
    """The data with ids in base64, as protobuf's JSON requires, instead of OTLP's hexadecimal."""
    if isinstance(value, list):
        return [_with_bytes(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, Any]", value).items()
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_bytes(item)
        for key, item in pairs
    }


_PORTION = 500
_BUSY = frozenset({429, 502, 503, 504})
_NOT_THERE = frozenset({404, 405, 501})
"""Status codes of a collector that does not support a signal."""
_WRONG_TYPE = 415
_LONGEST_WAIT = 5.0
_MOST_OF_AN_ANSWER = 200
_SMALL = 1_000
_T = TypeVar("_T")


@dataclass(slots=True)
class Sent:
    """How much has been accepted, what was rejected, and which signals the collector does not support."""

    spans: int = 0
    logs: int = 0
    metrics: int = 0
    not_taken: dict[Signal, str] = field(default_factory=dict[Signal, str])
    rejected: dict[Signal, Rejected] = field(default_factory=dict[Signal, Rejected])

    def reject(self, signal: Signal, found: Rejected) -> None:
        """Count what a response rejects; the last reason is kept."""
        if found.items > 0:
            before = self.rejected.get(signal, NOTHING_REJECTED)
            self.rejected[signal] = Rejected(before.items + found.items, _shortened(found.why) or before.why)


class Sender:
    """A connection to a collector, for one thread; `timeout` is per request, in seconds.

    `tries` is the number of attempts per request if the collector is busy or unreachable.
    """

    def __init__(
        self,
        target: Target,
        run_id: str,
        *,
        timeout: float = 10.0,
        tries: int = 3,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._target = target
        self._run_id = run_id
        self._timeout = timeout
        self._tries = tries
        self._wait = wait
        self._type = best_encoding()
        self._client: httpx2.Client | None = None
        self.sent = Sent()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def send(self, telemetry: Telemetry) -> None:
        """Send everything; raises CallsheetError (TRC001, TRC002, TRC005), after which part may have arrived.

        Resending is harmless: ids and times are the same.
        """
        version = VERSION
        for spans in _portions(telemetry.spans):
            self.sent.spans += self._post(Signal.TRACES, otlp.traces(spans, version), len(spans))
        for records in _portions(telemetry.logs):
            self.sent.logs += self._post(Signal.LOGS, otlp.logs(records, version), len(records))
        if telemetry.metrics:
            document = otlp.metrics(telemetry.metrics, version, self._run_id)
            self.sent.metrics += self._post(Signal.METRICS, document, len(telemetry.metrics))

    def _post(self, signal: Signal, document: dict[str, Any], size: int) -> int:
        """Send one request with `size` items, and return how many were accepted.

        A collector that does not support the signal, or rejects some of the items, is not a failure.
        """
        if signal in self.sent.not_taken:
            return 0
        body = encoded(document, signal, self._type)
        headers = {**self._target.headers, "content-type": self._type}
        if len(body) > _SMALL:
            body, headers["content-encoding"] = gzip.compress(body, 5, mtime=0), "gzip"
        response = self._answer(signal, body, headers)
        status = response.status_code
        if response.is_success:
            found = rejected(response.content, response.headers.get("content-type", ""), signal)
            self.sent.reject(signal, found)
            return max(size - found.items, 0)
        if signal is not Signal.TRACES and status in _NOT_THERE:
            self.sent.not_taken[signal] = f"it answers {status}"
            return 0
        if status == _WRONG_TYPE and self._type == JSON:
            raise CallsheetError.single(
                "TRC005",
                f"the collector at {self._target.url} accepts only protobuf, not JSON",
                help="pip install 'callsheet[otel]'",
            )
        summary = _shortened(response.text)
        if status in _BUSY:
            raise _unreachable(self._target, f"it answers {status}", summary)
        raise CallsheetError.single(
            "TRC002",
            f"the collector at {self._target.url} refuses the {signal}: it answers {status}"
            + (f", {summary!a}" if summary and summary.isprintable() else ""),
            help="check the address and the headers: --header NAME=env:VARIABLE",
        )

    def _answer(self, signal: Signal, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        """The response to a request, with retries; raises CallsheetError (TRC001)."""
        import httpx2  # noqa: PLC0415 - only where something is sent

        if self._client is None:
            self._client = httpx2.Client(timeout=self._timeout, follow_redirects=False)
        pause = 0.5
        for left in range(self._tries - 1, -1, -1):
            try:
                response = self._client.post(self._target.address(signal), content=body, headers=headers)
            except httpx2.HTTPError as error:
                if not left:
                    raise _unreachable(self._target, _words(error), "") from None
                self._wait(pause)
            else:
                if response.status_code not in _BUSY or not left:
                    return response
                self._wait(max(pause, _asked_to_wait(response.headers.get("retry-after", ""))))
            pause *= 2
        raise AssertionError("there is a last try")


def _portions(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for at in range(0, len(items), _PORTION):
        yield items[at : at + _PORTION]


def _asked_to_wait(text: str) -> float:
    """The seconds given in a Retry-After header, bounded."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), _LONGEST_WAIT)


def _words(error: Exception) -> str:
    return _shortened(str(error) or type(error).__name__)


def _shortened(text: str) -> str:
    return " ".join(text[: _MOST_OF_AN_ANSWER * 2].split())[:_MOST_OF_AN_ANSWER]


def _unreachable(target: Target, why: str, text: str) -> CallsheetError:
    more = f", {text!a}" if text and text.isprintable() else ""
    return CallsheetError.single(
        "TRC001",
        f"the collector at {target.url} cannot be reached: {why}{more}",
        help="check that it runs there and accepts OTLP over HTTP; the journal still has all the data",
    )
