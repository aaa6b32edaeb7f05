"""Settings of the library are checked when they are made, not by the first call of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet.ir import Effect
from callsheet.policy.model import Audience, Policy
from callsheet.ports.builtin import BuiltinSettings
from callsheet.ports.builtin.settings import ExecutionSettings, FetchSettings, SearchSettings
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, StdioServer, ToolRule
from callsheet.ports.models.local.model import LocalSettings
from callsheet.ports.models.settings import ModelPrices, ModelSettings
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.telemetry.target import OtelSettings

_DATA = Path("data")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BuiltinSettings(workspace=3, data=_DATA), TypeError, "workspace must be a path"),
        (lambda: BuiltinSettings(workspace="a\0b", data=_DATA), ValueError, "workspace must be a path"),
        (lambda: BuiltinSettings(workspace="w", data=_DATA, fetch={}), TypeError, "fetch must be FetchSet"),
        (lambda: BuiltinSettings(workspace="w", data=_DATA, host="no"), TypeError, "host must be True or F"),
        (lambda: FetchSettings(timeout="30"), TypeError, "timeout must be a number, not str"),
        (lambda: FetchSettings(timeout=True), TypeError, "timeout must be a number, not bool"),
        (lambda: FetchSettings(timeout=float("nan")), ValueError, "timeout must be a finite number"),
        (lambda: FetchSettings(timeout=0), ValueError, "timeout must be more than 0"),
        (lambda: FetchSettings(max_redirects=-1), ValueError, "max_redirects must not be negative"),
        (lambda: FetchSettings(max_bytes=1.5), TypeError, "max_bytes must be a whole number"),
        (lambda: FetchSettings(allow_private_hosts="*"), TypeError, "allow_private_hosts must be a list"),
        (lambda: SearchSettings(provider="bing"), ValueError, "provider must be 'searxng' or 'brave'"),
        (lambda: ExecutionSettings(require="none"), ValueError, "require must be 'sandbox' or 'best-eff"),
        (lambda: ModelSettings(kind="gpt"), ValueError, "kind must be 'openai'"),
        (lambda: ModelSettings(temperature="0"), TypeError, "temperature must be a number or None, not str"),
        (lambda: ModelPrices(input="1"), TypeError, "input must be a number or None, not str"),
        (lambda: LocalSettings(threads="4"), TypeError, "threads must be a whole number or None"),
        (lambda: OtelSettings(content="yes"), TypeError, "content must be True or False"),
        (lambda: OtelSettings(headers={1: "env:A"}), TypeError, "each name in headers must be a text"),
        (lambda: TemporalSettings(heartbeat="30"), TypeError, "heartbeat must be a number"),
        (lambda: StdioServer("run", args="a b"), TypeError, "args must be a list"),
        (lambda: HttpServer("https://a", headers={"a": 1}), TypeError, "headers\\['a'\\] must be a text"),
        (lambda: McpServerConfig("a", "run"), TypeError, "transport must be StdioServer or HttpServer"),
        (
            lambda: McpServerConfig("a", StdioServer("b"), effects={"x": "reads"}),
            ValueError,
            "effects\\['x'\\] must be 'pure' or",
        ),
        (lambda: ToolRule(max_concurrent=0), ValueError, "max_concurrent must be more than 0"),
        (lambda: Policy(egress_hosts="a.example"), TypeError, "egress_hosts must be .* not str"),
        (lambda: Policy(max_steps="3"), TypeError, "max_steps must be a whole number or None"),
        (lambda: Audience(name="a", hosts="b"), TypeError, "hosts must be a list, not str"),
    ],
)
def test_wrong_setting_is_refused_where_it_is_made(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_what_says_the_same_in_another_type_is_taken() -> None:
    settings = BuiltinSettings(workspace="work", data="data", fetch=FetchSettings(allow_private_hosts=["a"]))  # type: ignore[arg-type]
    assert (settings.workspace, settings.data) == (Path("work"), Path("data"))
    assert settings.fetch.allow_private_hosts == ("a",)
    assert StdioServer("run", cwd="here").cwd == Path("here")  # type: ignore[arg-type]
    assert McpServerConfig("a", StdioServer("b"), effects={"x": "read"}).effects == {"x": Effect.READ}  # type: ignore[dict-item]
    assert Policy(denied_tools=["A"]).denied_tools == frozenset({"A"})  # type: ignore[arg-type]
