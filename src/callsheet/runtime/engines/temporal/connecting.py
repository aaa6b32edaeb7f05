"""Connects to a Temporal server and its blob store.

In: settings, and the files and variables that Temporal's own tools read (`TEMPORAL_ADDRESS`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_…`, `temporal.toml`). Out: a client, or a diagnostic.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.engines.temporal.claims import ClaimCheck
from callsheet.runtime.engines.temporal.payloads import conversion
from callsheet.runtime.engines.temporal.sealing import Boxes
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.store.seal_keys import KeyStore
from callsheet.store.shared.opening import open_blobs

_DEFAULT = "localhost:7233"
_MESSAGE = re.compile(r'message: "([^"]*)"')


class TemporalConnection(NamedTuple):
    """A connection to a server."""

    client: Client
    claims: ClaimCheck
    settings: TemporalSettings


async def reach(settings: TemporalSettings) -> TemporalConnection:
    """Connect to the server.

    Raises CallsheetError: TMP002 if no server answers, TMP003 for an invalid configuration, CFG230 and CFG231
    for the blob store.
    """
    try:
        config = ClientConfig.load_client_connect_config(
            settings.profile or None, override_env_vars=_set_variables()
        )
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise CallsheetError.single(
            "TMP003",
            f"the configuration of Temporal cannot be read: {error}",
            help="see TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE and the other TEMPORAL_ variables",
        ) from error
    address = settings.address or config.get("target_host") or _DEFAULT
    config["target_host"] = address
    if settings.namespace:
        config["namespace"] = settings.namespace
    claims = ClaimCheck(open_blobs(settings.place), boxes=Boxes(KeyStore().sealing, seals=settings.encrypt))
    try:
        client = await Client.connect(**config, data_converter=conversion(claims))
    except (RuntimeError, RPCError, ValueError) as error:
        raise CallsheetError.single(
            "TMP002",
            f"no Temporal server answers at {address}: {_reason(error)}",
            help="start one (`temporal server start-dev`), or name it: --address or TEMPORAL_ADDRESS",
        ) from error
    return TemporalConnection(client, claims, settings)


def _set_variables() -> dict[str, str]:
    """The environment without empty TEMPORAL_ variables: an empty key would turn TLS on."""
    return {name: value for name, value in os.environ.items() if value or not name.startswith("TEMPORAL_")}


def _reason(error: Exception) -> str:
    """A short text of a failure: the innermost message of those that the SDK nests."""
    text = " ".join(str(error).split())
    messages = _MESSAGE.findall(text)
    return messages[-1] if messages else text[:200] or type(error).__name__
