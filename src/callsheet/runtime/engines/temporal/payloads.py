"""Converts values to payloads of a history: JSON that preserves the order of keys."""

from __future__ import annotations

import json
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    EncodingPayloadConverter,
    PayloadCodec,
)

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class OrderedJson(EncodingPayloadConverter):
    """JSON as the journal writes it, without sorting keys, so that a plan sees the same text."""

    @property
    def encoding(self) -> str:
        """The encoding's name, which other tools read as JSON."""
        return "json/plain"

    def to_payload(self, value: Any) -> Payload:
        """The payload of JSON data; raises ValueError or TypeError for anything else."""
        data = _encode(value).encode("utf-8", "surrogatepass")
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The data of a payload."""
        del type_hint
        return json.loads(payload.data.decode("utf-8", "surrogatepass"))


class Conversion(CompositePayloadConverter):
    """The payload converter: all data in a history is JSON."""

    def __init__(self) -> None:
        super().__init__(OrderedJson())


def conversion(codec: PayloadCodec | None = None) -> DataConverter:
    """The data converter; `codec` transforms the payloads' bytes."""
    return DataConverter(payload_converter_class=Conversion, payload_codec=codec)
