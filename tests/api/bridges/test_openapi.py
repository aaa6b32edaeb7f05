"""Tools of an OpenAPI document, on a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from callsheet import CallsheetError, Runtime, from_openapi

DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://pets.invalid/v1"}],
    "components": {
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "token": {"type": "http", "scheme": "bearer"},
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "owner": {"type": "string", "nullable": True},
                    "friend": {"$ref": "#/components/schemas/Pet"},
                },
            }
        },
        "parameters": {"limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}}},
    },
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "Lists pets.",
                "parameters": [
                    {"$ref": "#/components/parameters/limit"},
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                ],
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "array"}}}}},
            },
            "post": {
                "operationId": "addPet",
                "security": [{"key": []}, {"token": []}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
                "responses": {"201": {"description": "made"}},
            },
        },
        "/pets/{pet-id}": {
            "parameters": [{"name": "pet-id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getPet", "responses": {}},
            "delete": {"responses": {}},
        },
    },
}


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            seen.append(
                {"method": self.command, "path": self.path, "body": body, "headers": dict(self.headers)}
            )
            status, text, more = 200, json.dumps({"path": self.path, "body": body}), {}
            if "gone" in self.path:
                status, text = 404, "there is no such pet"
            if "moved" in self.path:
                status, more = 302, {"Location": "http://evil.invalid/"}
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if status == 200 else "text/plain")
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}/v1", seen
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_each_operation_is_a_tool_with_its_effect_and_arguments() -> None:
    tools = {tool.spec.name: tool.spec for tool in from_openapi(DOCUMENT, prefix="pets_")}
    assert {name: str(spec.effect) for name, spec in tools.items()} == {
        "PETS_LISTPETS": "read",
        "PETS_ADDPET": "unsafe",
        "PETS_GETPET": "read",
        "PETS_DELETE_PETS_PET_ID": "idempotent",
    }
    assert tools["PETS_LISTPETS"].parameter_names == ("limit", "tag")
    assert tools["PETS_LISTPETS"].description == "Lists pets."
    assert tools["PETS_LISTPETS"].result == {"type": "array"}
    add = tools["PETS_ADDPET"].parameters
    assert (add["required"], add["additionalProperties"]) == (["name"], False)
    assert add["properties"]["owner"]["type"] == ["string", "null"]
    assert tools["PETS_GETPET"].parameters["required"] == ["pet_id"]


def test_paths_behind_references_and_arguments_of_one_name_are_all_there() -> None:
    places = [{"name": "at", "in": place} for place in ("query", "header", "cookie")]
    shared = {"x": {"get": {"operationId": "look", "parameters": places}}}
    paths = {"/a": {"$ref": "#/components/paths/x"}}
    (made,) = from_openapi(DOCUMENT | {"paths": paths, "components": {"paths": shared}})
    assert made.spec.parameter_names == ("at", "at_2", "at_3")


async def test_requests_go_where_the_document_says(server: tuple[str, list[dict[str, Any]]]) -> None:
    url, seen = server
    runtime = Runtime(from_openapi(DOCUMENT, base_url=url, auth={"token": lambda: "s3cret"}))
    plan = (
        'S1: @LISTPETS (limit=2, tag=["a", "b&c"]) > $all\n'
        'S2: @ADDPET (name="Rex", owner=null) > $made\n'
        'S3: @GETPET (pet_id="a/../b?x") > $one\nS4: @RESPOND ($all.path)'
    )
    result = await runtime.run(plan)
    assert result.ok, result.error
    assert seen[0]["path"] == "/v1/pets?limit=2&tag=a&tag=b%26c"
    assert json.loads(seen[1]["body"]) == {"name": "Rex", "owner": None}
    assert seen[1]["headers"]["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in seen[0]["headers"]
    assert seen[1]["headers"]["Idempotency-Key"]
    assert seen[2]["path"] == "/v1/pets/a%2F..%2Fb%3Fx"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('@GETPET ("gone")', "answered 404: there is no such pet"),
        ('@GETPET ("moved")', "redirects to http://evil.invalid/, which is not followed"),
        ('@GETPET ("..")', "cannot be a part of a path"),
        ('@ADDPET (name="Rex")', "needs a key for key or token"),
    ],
)
async def test_failures_are_failures(server: tuple[str, list[dict[str, Any]]], call: str, said: str) -> None:
    runtime = Runtime(from_openapi(DOCUMENT, base_url=server[0]))
    result = await runtime.run(f'S1: {call} > $a ON_FAIL TERMINATE ("$a")')
    assert said in result.response


async def test_a_host_that_cannot_be_reached_is_a_failure_without_doubt() -> None:
    tools = from_openapi(DOCUMENT, base_url="http://127.0.0.1:1/v1", auth={"key": "k"}, only=["addPet"])
    result = await Runtime(tools).run('S1: @ADDPET (name="x") > $a ON_FAIL TERMINATE ("$a")')
    assert "cannot be reached" in result.response


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"openapi": "2.0"}, {}, "no known version"),
        ({"servers": []}, {}, "does not say where it is served"),
        ({}, {"only": ["listPet"]}, "no operation 'listPet'"),
        ({}, {"auth": {"tokn": "x"}}, "no security scheme 'tokn'"),
        ({}, {"effects": {"x": "read"}}, "no operation 'x'"),
        ({"paths": {"/x": {"get": {"parameters": [{"$ref": "other.yaml#/x"}]}}}}, {}, "another document"),
        ({"paths": None}, {}, "paths is no object"),
        ({"paths": {"/x": None}}, {}, "/x is no object"),
        ({"paths": {"/x": {"get": None}}}, {}, "GET /x is no object"),
        ({"paths": {"/x": {"get": {"parameters": 3}}}}, {}, "the parameters of GET /x is no list"),
        (
            {"paths": {"/x": {"get": {"parameters": [{"in": "query"}]}}}},
            {},
            "a parameter of GET /x has no name",
        ),
        (
            {"paths": {"/x": {"post": {"requestBody": {"content": 3}}}}},
            {},
            "the content of a body is no object",
        ),
        ({"paths": {"/x": {"get": {"responses": [3]}}}}, {}, "responses is no object"),
        ({"paths": {"/x": {"get": {"security": "key"}}}}, {}, "the security of GET /x is no list"),
        ({"components": 3}, {}, "components is no object"),
        ({"servers": "http://x"}, {}, "servers is no list"),
    ],
)
def test_a_document_that_cannot_be_used_is_an_error(
    change: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(CallsheetError, match=said) as caught:
        from_openapi(DOCUMENT | change, **options)
    assert caught.value.diagnostics[0].code == "CFG234"
