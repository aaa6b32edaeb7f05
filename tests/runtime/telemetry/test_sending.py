"""Telemetry sent over HTTP to a collector that parses it with OpenTelemetry's messages."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.collector import Collector, attribute

from callsheet import CallsheetError
from callsheet.runtime.telemetry import sending
from callsheet.runtime.telemetry.sending import JSON, PROTOBUF, Sender, best_encoding, rejected
from callsheet.runtime.telemetry.target import Signal, target_of
from callsheet.views.otel.model import Histogram, Link, LogRecord, Span, SpanEvent, SpanKind, Telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, **more: Any) -> Span:
    attributes = {"a": "text", "b": True, "c": 3, "d": 0.5, "e": ("x", "y")}
    parent = "" if number == 0 else f"{0xB0:016x}"
    times = 1_000_000_000_000_000_001 + number, 1_000_000_000_000_000_009 + number
    return Span(
        TRACE, f"{0xB0 + number:016x}", parent, f"span {number}", SpanKind.CLIENT, *times, attributes, **more
    )


TOLD = Telemetry(
    (
        span(0),
        span(
            1,
            events=(SpanEvent("happened", 7, {"n": 1}),),
            links=(Link(TRACE, f"{0xB0:016x}", {"why": "because"}),),
            error="broken ☠",
        ),
    ),
    (LogRecord(TRACE, f"{0xB0:016x}", "said", 5, {"score": 0.5}),),
    (Histogram("m", "s", "how long", {"k": "v"}, 1, 9, (1.0, 2.0), (1, 0, 2), 7.5, 0.5, 4.0),),
)


def sender(collector: Collector, **options: Any) -> Sender:
    return Sender(target_of(collector.url), "r", wait=lambda _: None, **options)


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_everything_arrives_in_both_encodings(
    collector: Collector, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "best_encoding", lambda: encoding)
    with sender(collector) as opened:
        opened.send(TOLD)
    assert {headers["content-type"] for _, headers in collector.requests} == {encoding}
    first, second = collector.spans.values()
    assert [attribute(first, name) for name in "abcd"] == ["text", True, "3", 0.5]
    assert [each["stringValue"] for each in attribute(first, "e")["values"]] == ["x", "y"]
    assert first["startTimeUnixNano"] == "1000000000000000001"
    assert "parentSpanId" not in first
    assert second["parentSpanId"] == first["spanId"]
    assert second["status"]["message"] == "broken ☠"
    assert second["events"][0]["name"] == "happened"
    assert second["links"][0]["spanId"] == first["spanId"]
    assert collector.logs[0]["eventName"] == "said"
    (point,) = collector.metrics["m"]["histogram"]["dataPoints"]
    assert (point["count"], point["sum"], point["bucketCounts"]) == ("3", 7.5, ["1", "0", "2"])


def test_protobuf_is_used_if_installed() -> None:
    assert best_encoding() == PROTOBUF


def test_busy_collector_is_retried_and_duplicates_are_dropped(collector: Collector) -> None:
    collector.answers = [503, 429]
    with sender(collector) as opened:
        opened.send(TOLD)
        opened.send(TOLD)
    assert len(collector.requests) == 8
    assert len(collector.spans) == 2
    assert opened.sent.spans == 4


def test_permanently_busy_collector_is_abandoned(collector: Collector) -> None:
    collector.answers = [503] * 9
    with sender(collector) as opened, pytest.raises(CallsheetError, match="it answers 503") as refused:
        opened.send(TOLD)
    assert refused.value.diagnostics[0].code == "TRC001"
    assert len(collector.requests) == 3


def test_unsupported_signals_are_reported_and_no_failure(collector: Collector) -> None:
    collector.takes = {"/v1/traces"}
    with sender(collector) as opened:
        opened.send(TOLD)
        opened.send(TOLD)
    assert [str(signal) for signal in opened.sent.not_taken] == ["logs", "metrics"]
    assert (opened.sent.spans, opened.sent.logs, opened.sent.metrics) == (4, 0, 0)
    assert [path for path, _ in collector.requests].count("/v1/logs") == 1


@pytest.mark.parametrize("encoding", [PROTOBUF, JSON])
def test_items_that_the_collector_rejects_are_counted_with_its_reason(
    collector: Collector, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "best_encoding", lambda: encoding)
    collector.rejects = {
        "/v1/traces": {"rejectedSpans": "1", "errorMessage": "too\nlong"},
        "/v1/logs": {"errorMessage": "a warning"},
        "/v1/metrics": {"rejectedDataPoints": 1},
    }
    with sender(collector) as opened:
        opened.send(TOLD)
    sent = opened.sent
    assert {str(signal): tuple(found) for signal, found in sent.rejected.items()} == {
        "traces": (1, "too long"),
        "metrics": (1, ""),
    }
    assert (sent.spans, sent.logs, sent.metrics) == (1, 1, 0)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"partialSuccess": 3}'),
        (JSON, b'{"partialSuccess": {"rejectedSpans": "many"}}'),
        (PROTOBUF, b"ok"),
        ("text/html", b"<p>ok</p>"),
        ("", b""),
    ],
)
def test_response_that_is_not_otlp_rejects_nothing(kind: str, body: bytes) -> None:
    assert rejected(body, kind, Signal.TRACES).items == 0


def test_refusal_is_reported_with_status(collector: Collector) -> None:
    collector.answers = [401]
    with sender(collector) as opened, pytest.raises(CallsheetError, match="it answers 401") as refused:
        opened.send(TOLD)
    assert refused.value.diagnostics[0].code == "TRC002"


def test_collector_without_json_support_is_reported(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "best_encoding", lambda: JSON)
    collector.answers = [415]
    with sender(collector) as opened, pytest.raises(CallsheetError, match="TRC005") as refused:
        opened.send(TOLD)
    assert refused.value.diagnostics[0].help == "pip install 'callsheet[otel]'"


def test_unreachable_collector_is_reported_after_retries() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    waits: list[float] = []
    with (
        Sender(target_of(url), "r", wait=waits.append) as opened,
        pytest.raises(CallsheetError, match="TRC001"),
    ):
        opened.send(TOLD)
    assert waits == [0.5, 1.0]


def test_headers_come_from_environment_and_no_message_shows_them(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLECTOR_AUTH", "Bearer s3cret")
    target = target_of(f"{collector.url}/v1/traces", {"authorization": "env:COLLECTOR_AUTH"})
    with Sender(target, "r") as opened:
        opened.send(TOLD)
    assert {headers["authorization"] for _, headers in collector.requests} == {"Bearer s3cret"}
    assert "s3cret" not in repr(target)


@pytest.mark.parametrize(
    ("url", "headers", "code"),
    [
        ("localhost:4318", {}, "TRC003"),
        ("ftp://localhost", {}, "TRC003"),
        ("http://", {}, "TRC003"),
        ("http://a:b@localhost", {}, "TRC003"),
        ("http://localhost?key=1", {}, "TRC003"),
        ("http://localhost:99999", {}, "TRC003"),
        ("http://localhost", {"a b": "env:X"}, "TRC004"),
        ("http://localhost", {"a": "value"}, "TRC004"),
        ("http://localhost", {"a": "env:NO_SUCH_VARIABLE"}, "TRC004"),
        ("http://localhost", {"a": "env:TWO_LINES"}, "TRC004"),
    ],
)
def test_invalid_endpoint_is_refused(
    url: str, headers: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWO_LINES", "a\nb")
    with pytest.raises(CallsheetError) as refused:
        target_of(url, headers)
    assert refused.value.diagnostics[0].code == code
