"""Values as bytes for a history: JSON whose keys keep their order, and the converter that writes it."""

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
    """JSON as the journal writes it: keys stay where they are, so that a plan reads the same text."""

    @property
    def encoding(self) -> str:
        """What the payload says of itself; tools of others read it as JSON."""
        return "json/plain"

    def to_payload(self, value: Any) -> Payload:
        """The payload of JSON data; raises ValueError or TypeError for what is none."""
        data = _encode(value).encode("utf-8", "surrogatepass")
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The data of a payload."""
        del type_hint
        return json.loads(payload.data.decode("utf-8", "surrogatepass"))


class Conversion(CompositePayloadConverter):
    """All that goes into a history is JSON data."""

    def __init__(self) -> None:
        super().__init__(OrderedJson())


def conversion(codec: PayloadCodec | None = None) -> DataConverter:
    """How values become payloads; `codec` is what is done to their bytes on the way."""
    return DataConverter(payload_converter_class=Conversion, payload_codec=codec)
