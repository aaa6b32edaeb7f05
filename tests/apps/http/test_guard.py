"""Requests refused before routing: other hosts and sites, no token, too large, too slow, too many."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from tests import forked

from apps.http.conftest import TOKEN, TOOLS, Api, raw, running
from callsheet.apps.cli.main import main
from callsheet.apps.http.clients import (
    CODE_SECONDS,
    SESSION_SECONDS,
    Keys,
    Rate,
    Rates,
    client_of,
    read_network,
)
from callsheet.apps.http.serving import ServeOptions, chosen_token, is_private, served_hosts
from callsheet.apps.http.state import RequestLimits
from callsheet.apps.http.table import ENDPOINTS
from callsheet.diagnostics import CallsheetError

GUARDED = [endpoint for endpoint in ENDPOINTS if not endpoint.is_open]


def path_of(endpoint):
    names = {
        "run_id": "r",
        "plan_id": "p",
        "seq": "1",
        "name": "strict",
        "code": "CHK040",
        "digest": "0",
        "tool": "ADD",
    }
    return endpoint.path.format(**names)


@pytest.mark.parametrize(
    "token", [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", TOKEN]
)
def test_requests_without_token_are_refused(api, token):
    said = api("GET", "/v1/runs", authorization=token)
    assert (said.status, said.code) == (401, "API001")
    assert said.headers["www-authenticate"].startswith("Bearer")


def test_every_route_but_open_ones_needs_token(api):
    seen = Counter(
        api(p.method, path_of(p), {} if p.body else None, authorization=None).status for p in GUARDED
    )
    assert set(seen) <= {401, 429}, "after many guesses it is 429"
    assert seen[401] >= 15
    assert api("GET", "/v1/nothing", authorization=None).status in (401, 429), "what there is, is not told"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "", "127.0.0.1.evil"]
)
def test_request_for_another_host_is_refused(api, host):
    for path in ("/v1/health", "/v1/runs", "/"):
        said = api("GET", path, host=host)
        assert (said.status, said.code) == (421, "API002")


def test_missing_or_repeated_host_is_refused(api):
    for hosts in (b"", f"Host: {api.host}\r\nHost: evil\r\n".encode()):
        answer = raw(api.url, b"GET /v1/health HTTP/1.0\r\n" + hosts + b"Connection: close\r\n\r\n")
        assert answer.split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "file://", "http://localhost:1"]
)
def test_cross_origin_requests_are_refused(api, origin):
    for method in ("GET", "POST", "OPTIONS"):
        said = api(method, "/v1/runs", origin=origin)
        assert (said.status, said.code) == (403, "API003")
        assert not any(name.startswith("access-control") for name in said.headers)
    assert api("GET", "/v1/runs", origin=api.url).status == 200


def test_cross_site_requests_are_refused_except_links_to_viewer(api):
    assert api("GET", "/v1/runs", sec_fetch_site="cross-site").status == 403
    assert api("GET", "/v1/runs", sec_fetch_site="same-site").status == 403
    assert api("GET", "/v1/runs", sec_fetch_site="same-origin").status == 200
    assert api("GET", "/", sec_fetch_site="cross-site", authorization=None).status == 200


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
    ],
)
def test_non_json_content_type_is_refused(api, kind):
    said = api("POST", "/v1/runs", raw=b'{"plan": "x"}', content_type=kind)
    assert (said.status, said.code) == (415, "API004")
    packed = api("POST", "/v1/parse", {"plan": "x"}, content_encoding="gzip")
    assert packed.status == 415


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"plan": 1}', b'{"plan": "x", "plan": "y"}', b'{"plan": NaN}',
        b'{"plan": "x", "more": 1}', b'{"plan": "\\ud800"}', b'\xff',
        b'{"plan":' + b"[" * 200 + b"]" * 200 + b"}",
        b"[" * 100_000, b'{"plan": ' + b"1" * 5_000 + b"}",
    ],
)  # fmt: skip
def test_invalid_body_is_refused_with_reason(api, body):
    said = api("POST", "/v1/parse", raw=body)
    assert (said.status, said.code) == (422, "API008")
    assert said.json["diagnostics"]


def test_body_that_is_no_object_is_refused_in_terms_of_json(api):
    assert api("POST", "/v1/parse", raw=b"[]").json["detail"] == "the body: input should be a JSON object"
    inputs = api("POST", "/v1/runs", {"plan": "S1: @RESPOND (1)", "inputs": []})
    assert inputs.json["detail"] == "inputs: input should be a JSON object"


def test_oversized_body_is_refused_with_or_without_length(folder):
    with running(folder, request_limits=RequestLimits(most_body=2_000)) as api:
        said = api("POST", "/v1/parse", {"plan": "x" * 3_000})
        assert (said.status, said.code) == (413, "API005")
        chunks = b"".join(b"3e8\r\n" + b"x" * 1_000 + b"\r\n" for _ in range(3)) + b"0\r\n\r\n"
        head = (
            f"POST /v1/parse HTTP/1.1\r\nHost: {api.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        assert raw(api.url, head.encode() + chunks).startswith(b"HTTP/1.1 413")
        assert api("POST", "/v1/parse", {"plan": "x" * 1_000}).status == 200


def test_client_sending_far_too_much_gets_reason(folder):
    with running(folder, request_limits=RequestLimits(most_body=1_000_000)) as api:
        said = api("POST", "/v1/parse", raw=b"x" * 12_000_000)
    assert (said.status, said.code) == (413, "API005")


def test_missing_body_times_out(folder):
    with running(folder, request_limits=RequestLimits(body_seconds=0.2)) as api:
        head = (
            f"POST /v1/parse HTTP/1.1\r\nHost: {api.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
            'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"plan"'
        )
        assert raw(api.url, head.encode()).startswith(b"HTTP/1.1 408")


def test_oversized_head_is_refused(api):
    head = f"GET / HTTP/1.1\r\nHost: {api.host}\r\nConnection: close\r\nX: {'x' * 20_000}\r\n\r\n"
    assert raw(api.url, head.encode()).startswith(b"HTTP/1.1 413")
    assert api("GET", f"/v1/runs?plan={'x' * 20_000}").status == 413


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.1", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
        ("1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n"),
    ],
)
def test_request_with_two_lengths_is_refused_and_ends_connection(api, version, headers):
    hidden = f"GET /v1/health HTTP/1.1\r\nHost: {api.host}\r\nConnection: close\r\n\r\n"
    head = (
        f"POST /v1/check HTTP/{version}\r\nHost: {api.host}\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n"
    )
    answer = raw(api.url, f"{head}0\r\n\r\n{hidden}".encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 413, "API005"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 413, "API005"),
        (b"ping\r\n\r\n", 400, "API008"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "API008"),
    ],
)
def test_malformed_requests_get_problem_document(api, sent, status, code):
    head, _, body = raw(api.url, sent).partition(b"\r\n\r\n")
    told = json.loads(body)
    assert (told["status"], told["code"]) == (status, code)
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert b"content-type: application/problem+json" in head
    assert b"nosniff" in head


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        ("127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["6.6.6.6", "203.0.113.7, 10.1.2.3"], "203.0.113.7"),
        ("127.0.0.1", ["[2001:db8::1]"], "2001:db8::1"),
        ("127.0.0.1", ["6.6.6.6, nonsense"], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("10.9.9.9", ["10.1.2.3"], "10.1.2.3"),
        ("198.51.100.1", ["203.0.113.7"], "198.51.100.1"),
        ("", ["203.0.113.7"], ""),
    ],
)
def test_forwarded_headers_count_only_from_trusted_proxy(peer, said, client):
    trusted = [read_network("127.0.0.1"), read_network("10.0.0.0/8")]
    assert client_of(peer, said, trusted) == client


def test_clients_behind_trusted_proxy_have_separate_rates(folder):
    proxies = (read_network("127.0.0.1"),)
    with running(folder, rate=Rate(0.001, 2), proxies=proxies) as api:
        statuses = [api("GET", "/v1/health", X_Forwarded_For="203.0.113.7").status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert api("GET", "/v1/health", X_Forwarded_For="203.0.113.8").status == 200
    with running(folder, rate=Rate(0.001, 2)) as api:
        statuses = [api("GET", "/v1/health", X_Forwarded_For=f"203.0.113.{n}").status for n in range(3)]
        assert statuses == [200, 200, 429]


def test_requests_above_rate_get_429_with_retry_after(folder):
    with running(folder, rate=Rate(0.001, 5)) as api:
        seen = [api("GET", "/v1/health") for _ in range(6)]
        assert [said.status for said in seen] == [200] * 5 + [429]
        assert seen[-1].code == "API006"
        assert int(seen[-1].headers["retry-after"]) > 1


def test_number_of_open_streams_is_limited(folder):
    with running(folder, request_limits=RequestLimits(most_streams=1)) as api:
        api.start('S1: @HOLD (name="never") > $x', run_id="r")
        stream = api.stream("r")
        next(stream)
        said = api("GET", "/v1/runs/r/events")
        assert (said.status, said.code) == (429, "API006")
        assert "1 open event streams" in said.json["detail"]
        assert "--streams" in said.json["diagnostics"][0]["help"]
        stream.close()
        deadline = time.monotonic() + 60
        while api("GET", "/v1/health").json["running"] and time.monotonic() < deadline:
            again = api.stream("r")
            try:
                next(again)
                break
            except AssertionError:
                time.sleep(0.05)
            finally:
                again.close()
        else:
            raise AssertionError("the place of a stream that was closed is not free again")


def test_unknown_method_or_route_is_reported(api):
    for path in {endpoint.path for endpoint in ENDPOINTS}:
        methods = {endpoint.method for endpoint in ENDPOINTS if endpoint.path == path}
        opened = {endpoint.method for endpoint in ENDPOINTS if endpoint.path == path and endpoint.is_open}
        methods |= {"HEAD"} if "GET" in opened else set()
        there = path_of(next(endpoint for endpoint in ENDPOINTS if endpoint.path == path))
        for method in {"PATCH", "TRACE", "HEAD", "OPTIONS"} - methods:
            said = api(method, there)
            assert said.status == 405, (method, there)
            assert methods == set(said.headers["allow"].split(", "))
    said = api("GET", "/v1/run")
    assert (said.status, said.code) == (404, "API009")
    assert api("GET", "/v1/runs/").status == 404


def test_monitor_reads_the_health_with_head_and_without_token(api):
    said = api("HEAD", "/v1/health", authorization=None)
    assert (said.status, said.body) == (200, b"")
    assert api("HEAD", "/v1/runs", authorization=None).status == 401


def test_every_response_has_security_headers(api):
    for path in ("/", "/v1/runs", "/v1/none", "/assets/page.js", "/assets/none"):
        headers = api("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers
    assert api("GET", "/v1/runs").headers["cache-control"] == "no-store"


def test_get_changes_no_state():
    assert {endpoint.method for endpoint in ENDPOINTS if endpoint.body is not None} <= {"POST", "PUT"}


def test_viewer_serves_only_package_files(api):
    assert api("GET", "/", authorization=None).status == 200
    for name in ("..%2fapp.py", "%2e%2e/app.py", "../app.py", "page.js/", "__init__.py", "nothing.js"):
        assert api("GET", f"/assets/{name}", authorization=None).status == 404


# ---------------------------------------------------------------- browsers


def cookie_of(said):
    return said.headers["set-cookie"].partition(";")[0]


def test_browser_signs_in_with_printed_code_once(api):
    said = api("POST", "/v1/session", {"secret": api.code}, authorization=None, origin=api.url)
    assert said.status == 200
    flags = said.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=strict" in flags
    cookie = cookie_of(said)
    assert api("GET", "/v1/runs", authorization=None, cookie=cookie).status == 200
    again = api("POST", "/v1/session", {"secret": api.code}, authorization=None)
    assert (again.status, again.code) == (401, "API015")
    assert api("POST", "/v1/session", {"secret": TOKEN}, authorization=None).status == 200


def test_cookie_authenticated_change_needs_custom_header(api):
    cookie = cookie_of(api("POST", "/v1/session", {"secret": TOKEN}, authorization=None))
    body = {"plan": "S1: @ADD (a=1) > $x", "run_id": "r"}
    said = api("POST", "/v1/runs", body, authorization=None, cookie=cookie)
    assert (said.status, said.code) == (403, "API014")
    assert api("POST", "/v1/runs", body, authorization=None, cookie=cookie, x_callsheet="1").status == 202
    assert api("DELETE", "/v1/session", authorization=None, cookie=cookie, x_callsheet="1").status == 204
    assert api("GET", "/v1/runs", authorization=None, cookie=cookie).status == 401


def test_guessing_is_throttled_and_token_holder_is_not(api):
    statuses = {api("POST", "/v1/session", {"secret": "x"}, authorization=None).status for _ in range(40)}
    assert statuses == {401, 429}
    assert api("GET", "/v1/runs").status == 200


def test_signed_in_sessions_expire():
    now = [0.0]
    keys = Keys("t" * 32, clock=lambda: now[0])
    late, code = keys.new_code(), keys.new_code()
    cookie = keys.sign_in(code)
    assert cookie is not None
    assert keys.person_of_session(cookie)
    now[0] = CODE_SECONDS
    assert keys.sign_in(late) is None
    now[0] = SESSION_SECONDS
    assert not keys.person_of_session(cookie)


def test_session_outlives_server_with_same_token_and_journal_until_it_is_signed_out(tmp_path):
    journal, said = tmp_path / "journal.db", list[str]()
    before, other = Keys("t" * 32, journal), Keys("t" * 32, journal)
    kept, left = before.sign_in("t" * 32) or "", before.sign_in("t" * 32) or ""
    for keys in (before, other, Keys("t" * 32, journal)):
        assert keys.person_of_session(kept)
        assert keys.person_of_session(left)
    for stranger in (Keys("u" * 32, journal), Keys("t" * 32, tmp_path / "other.db"), Keys(None, journal)):
        assert not stranger.person_of_session(kept)
    other_first, other_middle = "AB"[kept[0] == "A"], ("zz", "yy")[kept[20:22] == "zz"]
    changes = (
        other_first + kept[1:],
        kept[:20] + other_middle + kept[22:],
        kept[:-3] + "xx=",
        kept[:40],
        "é",
        "",
    )
    for changed in changes:
        assert not before.person_of_session(changed), changed
    before.sign_out(left)
    before.sign_out("forged")
    for keys in (before, other, Keys("t" * 32, journal)):
        assert (bool(keys.person_of_session(kept)), keys.person_of_session(left)) == (True, None)
    assert (tmp_path / "journal.db-signed-out").stat().st_mode & 0o777 == 0o600
    missing = Keys("t" * 32, tmp_path / "no folder" / "journal.db", say=said.append)
    session = missing.sign_in("t" * 32) or ""
    missing.sign_out(session)
    assert not missing.person_of_session(session)
    assert "cannot be written" in said[0]


def test_expired_sessions_leave_list_of_those_signed_out(tmp_path):
    now = [1_000.0]
    keys = Keys("t" * 32, tmp_path / "journal.db", clock=lambda: now[0])
    for _ in range(3):
        keys.sign_out(keys.sign_in("t" * 32) or "")
        now[0] += SESSION_SECONDS / 2
    assert len((tmp_path / "journal.db-signed-out").read_text().split()) == 2


def test_browser_stays_signed_in_when_server_is_restarted(folder):
    with running(folder) as api:
        cookies = [cookie_of(api("POST", "/v1/session", {"secret": TOKEN}, authorization=None)) for _ in "12"]
        named = [cookie.partition("=")[2] for cookie in cookies]
        port = api.host.rpartition(":")[2]
        ended = api("DELETE", "/v1/session", authorization=None, cookie=cookies[1], x_callsheet="1")
        assert ended.status == 204
    with running(folder, port=int(port)) as api:
        seen = [
            api("GET", "/v1/runs", authorization=None, cookie=f"callsheet_{port}={name}") for name in named
        ]
        assert [said.status for said in seen] == [200, 401]


def test_rate_bucket_refills():
    now = [0.0]
    rates = Rates(Rate(2.0, 2), lambda: now[0])
    assert [rates.wait("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    assert rates.wait("b") == 0.0
    now[0] = 0.5
    assert rates.wait("a") == 0.0
    assert Rates(Rate(0, 0)).wait("a") == 0.0


# ---------------------------------------------------------------- at the start


def codes(caught):
    return [d.code for d in caught.value.diagnostics]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "192.168.1.1", "example.com", "127.0.0.1.example"])
def test_public_address_without_token_is_refused(address):
    with pytest.raises(CallsheetError) as caught:
        ServeOptions(address=address).check()
    assert codes(caught) == ["API012"]
    ServeOptions(address=address, token="t" * 32).check()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_addresses_are_private(address):
    assert is_private(address)
    ServeOptions(address=address).check()


def test_hosts_of_public_address_are_set_by_operator():
    assert served_hosts(ServeOptions(address="192.0.2.7", allow_hosts=("Plans.example",)), 8420) == {
        "192.0.2.7:8420",
        "plans.example",
    }


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_printed_address_is_served_when_listening_everywhere(address):
    options = ServeOptions(address=address, allow_hosts=("plans.example",))
    assert served_hosts(options, 8420) == {
        "localhost:8420",
        "127.0.0.1:8420",
        "[::1]:8420",
        "plans.example",
    }


def test_hosts_of_this_machine_are_served():
    assert "127.0.0.1:8420" in served_hosts(ServeOptions(), 8420)
    assert "127.0.0.1" in served_hosts(ServeOptions(), 80)


def test_token_is_read_from_private_file_or_environment(tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("f" * 32 + "\n")
    path.chmod(0o600)
    assert chosen_token(path) == ("f" * 32, False)
    path.chmod(0o644)
    for make in (lambda: None, lambda: path.chmod(0o600) or path.write_text("short"), path.unlink):
        make()
        with pytest.raises(CallsheetError) as caught:
            chosen_token(path)
        assert codes(caught) == ["API019"]
    monkeypatch.setenv("CALLSHEET_TOKEN", "e" * 32)
    assert chosen_token(None) == ("e" * 32, False)
    monkeypatch.setenv("CALLSHEET_TOKEN", "e" * 31 + "ü")
    with pytest.raises(CallsheetError):
        chosen_token(None)
    monkeypatch.delenv("CALLSHEET_TOKEN")
    first, second = chosen_token(None), chosen_token(None)
    assert first[1]
    assert first[0] != second[0]


LOUD = """
import sys

import callsheet


@callsheet.tool(effect="read")
def say(text: str) -> str:
    print("out", text)
    print("err", text, file=sys.stderr)
    return "said"
"""


@contextmanager
def spawn(folder, *line):
    (folder / "tools.py").write_text(TOOLS)
    command = [sys.executable, "-c", "from callsheet.apps.cli.main import main; main()", "serve", *line]
    process = forked.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_command_prints_token_once_and_stops_on_signal(folder):
    with spawn(folder, "--port", "0", "--json", "--tools", "tools.py", "--drain", "0") as process:
        told = json.loads(process.stdout.readline())
        host, port = told["url"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            lines = [
                "GET /v1/runs HTTP/1.0",
                f"Host: {host}:{port}",
                f"Authorization: Bearer {told['token']}",
            ]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        api = Api(told["url"], folder, told["token"])
        api.start('S1: @HOLD (name="never") > $x', run_id="r")
        stream = api.stream("r")
        next(stream)
        process.send_signal(signal.SIGINT)
        assert [name for name, _, _ in stream if name == "end"] == []
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert told["token"] not in out + err
    assert "Traceback" not in err


def test_secrets_are_masked_in_output_of_tools(folder):
    (folder / "loud.py").write_text(LOUD)
    with spawn(folder, "--port", "0", "--json", "--tools", "loud.py") as process:
        told = json.loads(process.stdout.readline())
        api = Api(told["url"], folder, told["token"])
        api.start("S1: @SAY (text=$word) > $x", run_id="r", secrets={"word": "a-word-that-nobody-knows"})
        assert api.ended("r")["status"] == "done"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == ""
    assert err.splitlines() == ["out [secret]", "err [secret]"]


def test_killed_server_loses_no_accepted_run(folder):
    port_line = ("--port", "0", "--json", "--tools", "tools.py", "--running", "1")
    with spawn(folder, *port_line, "--journal", "journal.db") as process:
        told = json.loads(process.stdout.readline())
        api = Api(told["url"], folder, told["token"])
        for n in range(3):
            api.start('S1: @HOLD (name="go") > $x', "S2: @RESPOND ($x)", run_id=f"r{n}")
        api.until("r0", "running")
        process.kill()
    (folder / "go").touch()
    with running(folder) as api:
        for n in range(3):
            assert api.ended(f"r{n}")["response"] == "go"


def test_command_refuses_unsafe_settings(folder):
    for line, code in [
        (("--host", "0.0.0.0", "--no-auth"), "API012"),
        (("--host", "203.0.113.7", "--port", "0"), "API018"),
        (("--token-file", "nothing"), "API019"),
    ]:
        result = CliRunner().invoke(main, ["serve", *line])
        assert result.exit_code == 2, result.stderr
        assert code in result.stderr
