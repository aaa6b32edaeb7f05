"""Names and content in requests: no way out of a folder, into a header or past a limit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.apps.http.conftest import Api, api, folder

from callsheet.apps.http.endpoint import Endpoint
from callsheet.apps.http.table import ENDPOINTS

__all__ = ["api", "folder"]

GOOD = {"run_id": "r", "plan_id": "p", "seq": "1", "name": "strict", "code": "CHK040", "digest": "0" * 64}
HOSTILE = [
    "..", ".", "../x", "../../../../etc/passwd", "%2e%2e/x", "..%2fx",
    "..\\x", "a/b", "/etc/passwd", "~", "*", "CON",
    "\0", "a\0b", "\r\nX-Evil: 1", "a\nb", " ", "a b", "x" * 300,
    "ä", "٣", "\u202e", "𝕏", "a@1", "a@-1", "a@",
    "a@99999999999999999999999999", "@", "'; drop table runs;--", "%", "%00", "-x", ".hidden", "journal.db",
]  # fmt: skip


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A nested folder: a way out of it is visible, and files of other tests are not."""
    inner = tmp_path / "machine"
    inner.mkdir()
    return inner


def addresses(endpoint: Endpoint) -> list[str]:
    """The addresses of a route with one hostile name."""
    names = re.findall(r"\{([a-z_]+)\}", endpoint.path)
    found: list[str] = []
    for hostile in names:
        for value in HOSTILE:
            path = endpoint.path
            for name in names:
                given = quote(value, safe="") if name == hostile else GOOD[name]
                path = path.replace(f"{{{name}}}", given)
            found.append(path)
    return found


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*")}


@pytest.mark.parametrize(
    "endpoint",
    [endpoint for endpoint in ENDPOINTS if "{" in endpoint.path],
    ids=lambda endpoint: endpoint.name,
)
def test_url_names_leave_no_folder_and_cause_no_bug(api: Api, endpoint: Endpoint):
    assert api("GET", "/v1/runs").status == 200
    before = files(api.folder)
    for path in addresses(endpoint):
        said = api(endpoint.method, path, {} if endpoint.body else None)
        assert 400 <= said.status < 500, path
        assert "x-evil" not in said.headers
        assert b"root:" not in said.body
    assert files(api.folder) == before


@pytest.mark.parametrize("name", HOSTILE)
def test_body_names_leave_no_folder_and_inject_no_header(api: Api, name: str):
    api("GET", "/v1/runs")
    before = files(api.folder)
    said = api("POST", "/v1/runs", {"plan": "S1: @ADD (a=1) > $x", "run_id": name})
    assert said.status == 422 or said.headers["location"] == f"/v1/runs/{name}"
    assert "x-evil" not in said.headers
    assert api("POST", "/v1/runs", {"plan_id": name}).status in (404, 422)
    policy = api("POST", "/v1/runs", {"plan": "S1: @ADD (a=1) > $x", "policy": name})
    assert policy.status == 422, "a policy is one of those that are shipped, and no file"
    if said.status == 422:
        assert files(api.folder) == before


def test_request_cannot_widen_operator_settings(api: Api):
    for more in (
        {"workspace": "/"}, {"tools": ["x.py"]},
        {"mcp_configs": ["/x.json"]}, {"setup": {}}, {"model": "x.py:f"},
        {"limits": {"max_steps": -1}}, {"limits": {"max_steps": 1e400}}, {"limits": {"journal": "/x"}},
        {"policy": "/etc/passwd"}, {"policy": {"name": "open"}}, {"inputs": {"a b": 1}}, {"inputs": {"": 1}},
        {"secrets": {"x": 1}}, {"approved": "S1"}, {"accept_changed_tools": "yes"},
    ):  # fmt: skip
        body = json.dumps({"plan": "S1: @ADD (a=1) > $x", **more}).encode()
        said = api("POST", "/v1/runs", raw=body)
        assert said.status == 422, more
    assert api.get("/v1/runs")["runs"] == []


@pytest.mark.parametrize(
    "header", ["Last-Event-ID", "Content-Type", "Accept", "Cookie", "Origin", "X-Callsheet"]
)
@pytest.mark.parametrize("value", ["\x00", "\xff" * 10, "1" * 5_000, "-1", "=;=;=", "٣", "a\tb"])
def test_header_values_cause_no_bug(api: Api, header: str, value: str):
    api.start("S1: @ADD (a=1) > $x", run_id="r")
    named: dict[str, Any] = {header.replace("-", "_"): value.encode("utf-8").decode("latin-1")}
    for path in ("/v1/runs", "/v1/runs/none/events"):
        try:
            said = api("GET", path, **named)
        except ValueError:
            continue  # our own client does not send it
        assert said.status < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
CHANGES = [endpoint for endpoint in ENDPOINTS if endpoint.body is not None]


@given(st.sampled_from(CHANGES), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bodies_cause_no_bug(api: Api, endpoint: Endpoint, data: st.DataObject):
    assert endpoint.body is not None
    names = data.draw(st.lists(st.sampled_from([*endpoint.body.model_fields, "more"]), unique=True))
    body = {name: data.draw(JSON) for name in names}
    path = endpoint.path.replace("{run_id}", "none").replace("{plan_id}", "none")
    said = api(endpoint.method, path, raw=json.dumps(body).encode())
    assert 400 <= said.status < 500
    assert said.headers["content-type"] == "application/problem+json"
    assert said.json["diagnostics"]


@pytest.mark.parametrize("levels", [150, 500])
def test_body_depth_is_limited(api: Api, levels: int):
    deep = "[" * levels + "]" * levels
    said = api(
        "POST", "/v1/runs", raw=f'{{"plan": "S1: @ADD (a=1) > $x", "inputs": {{"x": {deep}}}}}'.encode()
    )
    assert said.status == 422
    assert "nested deeper than 100 levels" in said.json["diagnostics"][0]["message"]
    assert api.get("/v1/runs")["runs"] == []
