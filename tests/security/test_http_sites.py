"""The HTTP API and pages of other sites: DNS rebinding, origins, forms, requests made by browsers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from tests.apps.http.conftest import TOKEN, Api, api, folder, plan_of, raw, running

from callsheet.apps.http.table import ENDPOINTS

__all__ = ["api", "folder"]

PATHS = ("/", "/assets/main.js", "/v1/health", "/v1/runs", "/v1/openapi.json", "/v1/nothing")
PLAN = plan_of('S1: @NOTE (line="from elsewhere") > $x')


def signed_in(api: Api) -> str:
    """The cookie of a browser that has signed in."""
    said = api("POST", "/v1/session", {"secret": TOKEN}, authorization=None)
    return said.headers["set-cookie"].partition(";")[0]


def untouched(api: Api) -> bool:
    return api.get("/v1/runs")["runs"] == [] and not (api.folder / "notes.txt").exists()


# ---------------------------------------------------------------- names that lead here all the same


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}",
        "127.0.0.1.evil.example:{port}", "evil.localhost:{port}", "127.0.0.1",
        "127.0.0.1:1", "127.0.0.1:{port}.evil", "127.0.0.1:{port}@evil.example", "evil@127.0.0.1:{port}",
        "127.0.0.1:{port}, evil.example", "localhost.:{port}",
        "127.1:{port}", "2130706433:{port}", "0.0.0.0:{port}",
        "[::ffff:127.0.0.1]:{port}", "[::1]", "127.0.0.1:0{port}", "\u217061:{port}",
        "", ":{port}", "*", "null",
    ],
)  # fmt: skip
def test_foreign_host_name_gets_nothing(api: Api, host: str):
    port = api.host.rpartition(":")[2]
    for path in PATHS:
        for key in ({}, {"authorization": None}, {"cookie": signed_in(api)} if path == "/v1/runs" else {}):
            said = api("GET", path, host=quote(host.format(port=port), safe=":/@[], *"), **key)
            assert said.status == 421, path
            assert b"runs" not in said.body


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_local_host_names_are_accepted(api: Api, host: str):
    assert api("GET", "/v1/runs", host=host.format(port=api.host.rpartition(":")[2])).status == 200


def test_no_header_overrides_host_name(api: Api):
    for name in ("X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-Host"):
        lines = ("GET /v1/health HTTP/1.1", "Host: evil.example", f"{name}: {api.host}", "Connection: close")
        assert raw(api.url, "\r\n".join([*lines, "", ""]).encode()).startswith(b"HTTP/1.1 421")
    whole = f"GET http://{api.host}/v1/health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(api.url, whole.encode()).startswith(b"HTTP/1.1 421")


# ---------------------------------------------------------------- pages of other sites


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}@evil.example",
        "file://", "chrome-extension://x",
        "ftp://127.0.0.1:{port}", "//127.0.0.1:{port}", "127.0.0.1:{port}", "", "http://127.0.0.1:{port}/",
    ],
)  # fmt: skip
def test_cross_origin_page_is_refused(api: Api, origin: str):
    named, cookie = origin.format(port=api.host.rpartition(":")[2]), signed_in(api)
    for key in ({"authorization": None, "cookie": cookie, "x_callsheet": "1"}, {}):
        for method, body in (("GET", None), ("POST", {"plan": PLAN}), ("OPTIONS", None), ("DELETE", None)):
            said = api(method, "/v1/runs", body, origin=named, **key)
            assert said.status == 403, (method, key)
            assert not any(name.startswith("access-control") for name in said.headers)
    assert untouched(api)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "odd", ""])
def test_fetch_metadata_from_other_sites_is_refused(api: Api, site: str):
    for mode in ("no-cors", "navigate", "cors"):
        asked = {
            "sec_fetch_site": site,
            "sec_fetch_mode": mode,
            "cookie": signed_in(api),
            "authorization": None,
        }
        assert api("GET", "/v1/runs", **asked).status == 403
        assert api("POST", "/v1/runs", {"plan": PLAN}, x_callsheet="1", **asked).status == 403
        assert api("POST", "/", raw=b"a=b", **asked).status in (403, 405)
    assert untouched(api)


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "text/plain"]
)
def test_cross_site_form_starts_nothing_even_in_old_browser(api: Api, kind: str):
    """A browser that sends no origin headers and ignores SameSite."""
    body = b'{"plan": "' + PLAN.replace('"', '\\"').replace("\n", "\\n").encode() + b'", "name": "=x"}'
    cookie = signed_in(api)
    for endpoint in ENDPOINTS:
        if endpoint.method == "POST":
            path = endpoint.path.replace("{run_id}", "r")
            for more in (
                {"cookie": cookie},
                {"cookie": cookie, "x_callsheet": "1"},
                {"authorization": f"Bearer {TOKEN}"},
            ):
                said = api("POST", path, raw=body, **{"authorization": None, "content_type": kind, **more})
                assert 400 <= said.status < 500, (path, more)
    assert untouched(api)


def test_cookie_authenticated_change_needs_custom_header(api: Api):
    cookie = signed_in(api)
    for path, method in (
        ("/v1/runs", "POST"),
        ("/v1/runs/r/cancel", "POST"),
        ("/v1/plans/p", "PUT"),
        ("/v1/plans/p", "DELETE"),
    ):
        said = api(method, path, {"plan": PLAN}, authorization=None, cookie=cookie)
        assert said.status == 403, path
    assert untouched(api)
    said = api("POST", "/v1/runs", {"plan": PLAN}, authorization=None, cookie=cookie, x_callsheet="1")
    assert said.status == 202


def test_wrong_header_is_not_excused_by_cookie(api: Api):
    cookie = signed_in(api)
    assert api("GET", "/v1/runs", authorization="Bearer wrong", cookie=cookie).status == 401
    assert api("GET", "/v1/runs", authorization=None, cookie=cookie).status == 200


def test_cookie_is_host_only_and_http_only(api: Api):
    said = api("POST", "/v1/session", {"secret": TOKEN}, authorization=None)
    flags = {
        flag.strip().lower().partition("=")[0]: flag for flag in said.headers["set-cookie"].split(";")[1:]
    }
    assert "httponly" in flags
    assert flags["samesite"].lower().endswith("strict")
    assert "domain" not in flags
    assert TOKEN not in said.headers["set-cookie"]
    name = said.headers["set-cookie"].partition("=")[0]
    assert name.endswith(api.host.rpartition(":")[2])


def test_get_changes_nothing():
    assert {
        endpoint.method for endpoint in ENDPOINTS if endpoint.method not in ("GET", "POST", "PUT", "DELETE")
    } == set()
    assert all(endpoint.body is None for endpoint in ENDPOINTS if endpoint.method == "GET")


def test_responses_forbid_framing_and_cross_origin_reading(api: Api):
    for path in PATHS:
        headers = api("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert not {"server", "x-powered-by", "access-control-allow-origin"} & headers.keys()
        assert "no-store" in headers["cache-control"] or not path.startswith("/v1")


def test_server_without_token_refuses_other_sites(folder: Path):
    with running(folder, token=None) as api:
        open_to_all = {"authorization": None}
        assert api("GET", "/v1/runs", **open_to_all).status == 200
        assert api("GET", "/v1/runs", host="evil.example", **open_to_all).status == 421
        assert (
            api("POST", "/v1/runs", {"plan": PLAN}, origin="https://evil.example", **open_to_all).status
            == 403
        )
        assert (
            api("POST", "/v1/runs", {"plan": PLAN}, sec_fetch_site="cross-site", **open_to_all).status == 403
        )
        body = b'{"plan": "x"}'
        assert api("POST", "/v1/runs", raw=body, content_type="text/plain", **open_to_all).status == 415
        assert api("GET", "/v1/runs", **open_to_all).json["runs"] == []


def test_report_is_downloaded_and_not_rendered(api: Api):
    """It contains tool output: opened from the origin of this server it could act as its user."""
    api.start("S1: @ADD (a=1) > $x", run_id="r")
    said = api("GET", "/v1/runs/r/report")
    assert said.status == 200
    assert said.headers["content-disposition"].startswith("attachment;")
    assert said.headers["content-security-policy"] == "sandbox"
