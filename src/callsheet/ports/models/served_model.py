"""What tells of a model behind an address how large it is: its server's list of models, or its own name.

Pure. In: the answer to `GET …/models` (llama.cpp, vLLM, Ollama and others have it), a name. Out: the kind of
server, the parameters and the context of the model, as far as they are told.
"""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple, cast

from callsheet import lazy
from callsheet.ports.models.model import Strength, count_in
from callsheet.ports.models.settings import Kind

SMALL = 5_000_000_000
"""Parameters below which a model is small; in four bits each, its file has less than about 3 GB."""

_OWNERS: dict[str, Kind] = {"llamacpp": "llama.cpp", "vllm": "vllm", "library": "ollama"}
"""What these servers say in `owned_by`."""
_SIZE = lazy.pattern(
    r"(?i)(?<![a-z0-9.])(?P<count>\d{1,4}(?:\.\d{1,3})?(?=b)|\d{2,4})(?P<unit>[bm])(?![a-z0-9])"
)
"""The size in a name: *qwen2.5-coder:1.5b*, *Llama-3.2-3B-Instruct*, *gemma-3-270m*; not *A3B*, the active
part of a mixture, nor *1m*, a context."""
_UNITS = {"b": 1e9, "m": 1e6}


class ServedModel(NamedTuple):
    """A model as its server tells of it; `parameters` and `context` (in tokens) are 0 where it does not."""

    kind: Kind | None = None
    parameters: int = 0
    context: int = 0


def served_model(listed: object, name: str) -> ServedModel:
    """What a list of models tells of the one with this name, or of the only one.

    >>> row = {"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_params": 1777088000, "n_ctx": 4096}}
    >>> served_model({"data": [row]}, "")
    ServedModel(kind='llama.cpp', parameters=1777088000, context=4096)
    >>> served_model({"data": [{"id": "qwen3:4b"}, {"id": "other"}]}, "other")
    ServedModel(kind=None, parameters=0, context=0)
    """
    rows = [row for each in _list(_table(listed).get("data")) if (row := _table(each))]
    named = [row for row in rows if name in (row.get("id"), *_list(row.get("aliases")))]
    found = named[0] if named else rows[0] if len(rows) == 1 else {}
    meta, owner = _table(found.get("meta")), found.get("owned_by")
    return ServedModel(
        _OWNERS.get(owner) if isinstance(owner, str) else None,
        count_in(meta.get("n_params")) or parameters_named(str(found.get("id", ""))),
        count_in(meta.get("n_ctx")) or count_in(found.get("max_model_len")),
    )


def parameters_named(name: str) -> int:
    """The parameters that a model's name tells, the largest number if there are several; 0 if none.

    >>> [*map(parameters_named, ("qwen2.5-coder:1.5b", "Qwen3-30B-A3B", "gemma-3-270m", "qwen-long-1m"))]
    [1500000000, 30000000000, 270000000, 0]
    """
    found = _SIZE.finditer(name)
    return max((int(float(one["count"]) * _UNITS[one["unit"].lower()]) for one in found), default=0)


def strength_by(parameters: int) -> Strength | None:
    """The strength of a model with so many parameters; None for 0, an unknown number."""
    if not parameters:
        return None
    return Strength.SMALL if parameters < SMALL else Strength.STRONG


def is_own_server(host: str) -> bool:
    """Whether a host is this machine or in the user's own network, by its address or name alone.

    >>> is_own_server("127.0.0.1"), is_own_server("gpu.local"), is_own_server("api.example.com")
    (True, True, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".localhost"))
    return address.is_private or address.is_loopback


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
