"""Answers of servers as values: nothing is lost; binary data is named by hash and reference."""

import base64
import hashlib

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from callsheet.ports.answers import value_of
from callsheet.ports.calls import ToolFailed
from callsheet.ports.mcp import folder_sink
from callsheet.ports.mcp.content import unrepeated_texts
from callsheet.ports.mcp.failures import because

DATA = b"\x89PNG bytes"
TEXT = base64.b64encode(DATA).decode()
HASH = hashlib.sha256(DATA).hexdigest()


def text(words):
    return TextContent(type="text", text=words)


def value(*blocks, schema=None, sink=None, **more):
    return value_of(CallToolResult(content=list(blocks), **more), schema, sink)


def test_single_text_is_returned_as_text_even_if_json():
    assert value(text('{"a": 1}')) == '{"a": 1}'


def test_several_blocks_are_list_and_none_is_null():
    assert value(text("a"), text("b")) == ["a", "b"]
    assert value() is None


def test_structured_content_is_value():
    assert value(text("words"), structured_content={"a": 1}) == {"a": 1}
    assert value(text("null"), structured_content=None) is None


@pytest.mark.parametrize(
    "schema",
    [{"properties": {"result": {}}, "required": ["result"]}, {"x-fastmcp-wrap-result": True}],
)
def test_result_wrapper_of_server_is_removed(schema):
    assert value(text("x"), structured_content={"result": [1]}, schema=schema) == [1]


def test_own_result_field_is_kept():
    own = {"properties": {"result": {}, "took": {}}}
    assert value(text("x"), structured_content={"result": [1]}, schema=own) == {"result": [1]}
    assert value(text("x"), structured_content={"result": [1]}) == {"result": [1]}


def test_bytes_are_stored_in_sink_with_reference(tmp_path):
    image = ImageContent(type="image", data=TEXT, mime_type="image/png")
    got = value(image, sink=folder_sink(tmp_path / "blobs"))
    path = tmp_path / "blobs" / HASH
    assert got == {
        "type": "image",
        "mimeType": "image/png",
        "sha256": HASH,
        "size": len(DATA),
        "ref": str(path),
    }
    assert path.read_bytes() == DATA
    assert value(image, sink=folder_sink(tmp_path / "blobs")) == got
    assert [p.name for p in (tmp_path / "blobs").iterdir()] == [HASH]


def test_bytes_without_sink_stay_in_value():
    audio = AudioContent(type="audio", data=TEXT, mime_type="audio/wav")
    assert value(audio) == {
        "type": "audio",
        "mimeType": "audio/wav",
        "sha256": HASH,
        "size": len(DATA),
        "data": TEXT,
    }


def test_images_beside_structured_content_are_kept():
    image = ImageContent(type="image", data=TEXT, mime_type="image/png")
    got = value(text("a"), image, structured_content={"a": 1})
    assert got["a"] == 1
    assert [block["type"] for block in got["_content"]] == ["image"]


def test_resources_are_objects():
    words = EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="x://a", mime_type="text/plain", text="t")
    )
    blob = EmbeddedResource(type="resource", resource=BlobResourceContents(uri="x://b", blob=TEXT))
    link = ResourceLink(type="resource_link", name="n", uri="x://c")
    assert value(words, blob, link) == [
        {"type": "resource", "uri": "x://a", "mimeType": "text/plain", "text": "t"},
        {"type": "resource", "uri": "x://b", "sha256": HASH, "size": len(DATA), "data": TEXT},
        {"type": "resource_link", "name": "n", "uri": "x://c"},
    ]


def test_error_is_failure_with_server_text():
    with pytest.raises(ToolFailed, match=r"^no such page\nreally$"):
        value(text("no such page"), text("really"), is_error=True)
    with pytest.raises(ToolFailed, match="without a reason"):
        value(is_error=True)
    with pytest.raises(ToolFailed, match="not base64"):
        value(ImageContent(type="image", data="§", mime_type="image/png"))


@pytest.mark.parametrize(
    ("texts", "structured", "untold"),
    [
        (['{"a": 1}'], {"a": 1}, 0),
        (['{\n  "a": 1\n}', " "], {"a": 1}, 0),
        (["[1, 2]"], {"result": [1, 2]}, 0),
        (["1", "2"], {"result": [1, 2]}, 0),
        (["warm"], {"result": "warm"}, 0),
        (["It is warm."], {"a": 1}, 1),
        (["It is warm.", '{"a": 1}', "Bring water."], {"a": 1}, 2),
        (["It is warm."], None, 0),
    ],
)
def test_additional_texts_beside_structured_content_are_remarked(texts, structured, untold):
    schema = {"properties": {"result": {}}, "required": ["result"]}
    result = CallToolResult(content=[text(t) for t in texts], structured_content=structured)
    assert unrepeated_texts(result, schema) == untold


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "its body is not JSON"),
        (b'{"id": 1}', "its body is not a message of the protocol"),
        (b"", "its body is not JSON"),
    ],
)
def test_non_mcp_http_response_is_explained(body, said):
    with pytest.raises(ValidationError) as caught:
        jsonrpc_message_adapter.validate_json(body, by_name=False)
    assert because(RuntimeError(f"Failed to parse JSON response: {caught.value}")) == said
