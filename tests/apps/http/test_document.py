"""The OpenAPI document is correct: every request that it allows gets a response that it describes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from apps.http.conftest import TOKEN
from callsheet.apps.http.table import ENDPOINTS, EXAMPLES, document, statuses_of
from callsheet.diagnostics import CODES
from callsheet.machine.limits import IN_REQUESTS

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
_WRONG_BODIES_TRIED_ONCE = r"""
[[operations]]
include-path-regex = '^/v1/(runs/.*(fork|rerun|resume)|dry-run|verify|explain-policy|editor/(?!name).*)$'
generation.mode = "positive"
"""
"""Their bodies have the parts of those of `/v1/runs` and `/v1/editor/name`, which get all wrong types."""


def test_every_documented_request_gets_documented_response(api):
    run = api.start("S1: @ADD (a=1) > $x", run_id="r")
    api.ended(run)
    (api.folder / "schemathesis.toml").write_text(_WRONG_BODIES_TRIED_ONCE)
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    assert program is not None
    line = [
        program, "run", f"{api.url}/v1/openapi.json", "-H", f"Authorization: Bearer {TOKEN}",
        "--phases", "coverage", "--generation-deterministic",
        "--checks", ",".join(_CHECKS), "--suppress-health-check", "all", "--request-timeout", "30",
        "--no-color",
    ]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, cwd=api.folder)
    assert done.returncode == 0, done.stdout[-6_000:]


def test_every_route_is_documented_once_with_responses():
    paths = document()["paths"]
    assert sum(len(methods) for methods in paths.values()) == len(ENDPOINTS)
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names))
    for endpoint in ENDPOINTS:
        told = paths[endpoint.path][endpoint.method.lower()]
        assert any(status.startswith("2") for status in told["responses"])
        assert {str(status) for status in statuses_of(endpoint)} <= set(told["responses"])
        assert len(told["description"]) > 10


def test_examples_of_all_requests_are_taken_and_stand_on_the_page_of_the_api(api):
    assert set(EXAMPLES) == {endpoint.path for endpoint in ENDPOINTS if endpoint.body is not None}
    page = api("GET", "/docs", authorization=None)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    run = api("POST", "/v1/runs", EXAMPLES["/v1/runs"])
    assert run.status == 202, run.body
    assert api.ended("first")["outcome"] == "done"
    for endpoint in ENDPOINTS:
        assert f'id="{endpoint.name}"'.encode() in page.body
        if endpoint.body is not None:
            endpoint.body.model_validate(EXAMPLES[endpoint.path])
        if endpoint.tag == "texts" and endpoint.path != "/v1/compile":
            said = api(endpoint.method, endpoint.path, EXAMPLES[endpoint.path])
            assert said.status == 200, (endpoint.path, said.body)


def test_operations_on_plans_and_runs_are_told_apart_by_their_tags():
    for path, methods in document()["paths"].items():
        for operation in methods.values():
            if path.startswith("/v1/plans"):
                assert operation["tags"] == ["plans"]
            elif path.startswith("/v1/runs"):
                assert operation["tags"] != ["plans"]


def test_request_bodies_allow_no_additional_properties_and_just_the_limits_of_requests():
    schemas = document()["components"]["schemas"]
    for endpoint in ENDPOINTS:
        if endpoint.body is not None:
            assert schemas[endpoint.body.__name__]["additionalProperties"] is False
    assert schemas["LimitArguments"]["properties"].keys() == IN_REQUESTS


def test_every_api_code_has_its_status():
    from callsheet.apps.http.problems import status_of
    from callsheet.diagnostics import CallsheetError

    elsewhere = {"API012", "API017", "API018", "API019", "API060", "API061"}  # at the start, and in clients
    for code in CODES:
        if code.startswith("API") and code not in elsewhere:
            status = status_of(CallsheetError.single(code, "x"))
            assert status != 422 or code in ("API008", "API022")
