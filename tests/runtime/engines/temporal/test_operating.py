"""Operating runs on Temporal: versions of workers, encryption, TLS, stored histories."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.worker import _workflow
from tests.runtime.engines.temporal.conftest import World
from tests.runtime.engines.temporal.test_runs import FACTS, INPUTS, Tools
from tests.temporal.tls import in_front_of, papers

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import Answer
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.engines.temporal.connection import reach
from callsheet.runtime.engines.temporal.history import run_history
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, conversion
from callsheet.runtime.engines.temporal.worker import DEADLOCK, make_current
from callsheet.store.shared.blobs import FolderBlobs

HISTORIES = Path(__file__).with_name("histories")
"""Recorded by `python -m tests.temporal.record`."""
ASKS = "S1: @ADD ($n) > $x\nS2: @ASK_HUMAN ('go on?') > $y\nS3: @ADD ($x) > $z\nS4: @RESPOND (\"$y $z\")"


async def test_run_stays_with_worker_version_that_started_it(world: World, tmp_path: Path) -> None:
    name = tmp_path.name.replace(".", "-")
    there = world.reached.client
    async with world.worker(Tools().ports(), deployment=name, build="old"):
        await make_current(there, name, "old")
        asked = await world.run(ASKS, INPUTS, FACTS)
        other = World(await reach(world.reached.settings), world.journal)  # as another process has
        async with other.worker(Tools().ports(), deployment=name, build="new"):
            await make_current(there, name, "new")
            await client.answer(world.temporal_run(asked.run_id), Answer.of("yes"), None)
            ended = await world.wait(asked.run_id)
            later = await world.run("S1: @RESPOND ('new')")
    assert ended.result is not None
    assert ended.result.response == "yes 3"
    assert await _builds(world, asked.run_id) == {"old"}
    assert await _builds(world, later.run_id) == {"new"}


async def _builds(world: World, run_id: str) -> set[str]:
    """The versions of the workers that have executed a run."""
    history = await world.temporal_run(run_id).handle.fetch_history()
    told = [event.workflow_task_completed_event_attributes for event in history.events]
    return {each.deployment_version.build_id for each in told if each.deployment_version.build_id}


@pytest.mark.parametrize("is_set", [True, False], ids=["encrypted", "not encrypted"])
async def test_encrypted_run_is_unreadable_on_server_and_in_blobs(
    world: World, tmp_path: Path, is_set: bool
) -> None:
    closed = World(await reach(replace(world.reached.settings, encrypt=True)), world.journal)
    text = "S1: @ODD () > $x\nS2: @BULK ($size) > $y\nS3: @RESPOND ('the word is swordfish')"
    workers = World(await reach(replace(world.reached.settings, encrypt=is_set)), world.journal)
    async with workers.worker(Tools().ports()):
        ended = await closed.run(text, {"size": 40_000}, FACTS)
    assert ended.result is not None
    assert ended.result.response == "the word is swordfish"
    history = await closed.temporal_run(ended.run_id).handle.fetch_history()
    kept = [event.SerializeToString() for event in history.events]
    kept += [path.read_bytes() for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert len(kept) > len(history.events)
    assert all(b"swordfish" not in data and "ä".encode() * 9 not in data for data in kept)


async def test_tls_server_is_reached_with_certificates_from_environment(
    world: World, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = papers(tmp_path)
    async with in_front_of(server, held) as address:
        settings = replace(world.reached.settings, address=address)
        with pytest.raises(CallsheetError, match="TMP002"):
            await reach(settings)
        monkeypatch.setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", str(held.authority))
        with pytest.raises(CallsheetError, match="TMP002"):
            await reach(settings)  # it asks for a certificate of ours
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", str(held.client))
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", str(held.client_key))
        closed = World(await reach(settings), world.journal)
        async with closed.worker(Tools().ports()):
            ended = await closed.run('S1: @ADD ($n) > $x\nS2: @RESPOND ("$x")', INPUTS, FACTS)
    assert ended.result is not None
    assert ended.result.response == "2"


async def test_api_key_comes_from_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "key-of-ours")
    monkeypatch.setenv("TEMPORAL_TLS", "false")
    assert (await reach(world.reached.settings)).client.api_key == "key-of-ours"


async def test_empty_variables_of_temporal_are_not_set(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEMPORAL_API_KEY", "TEMPORAL_NAMESPACE", "TEMPORAL_ADDRESS", "TEMPORAL_PROFILE"):
        monkeypatch.setenv(name, "")
    reached = await reach(world.reached.settings)
    assert await reached.client.service_client.check_health()


def test_payload_over_64_kib_is_reference_in_history(tmp_path: Path) -> None:
    claims = ClaimCheck(FolderBlobs(tmp_path))
    sent = [
        Payload(metadata={"encoding": b"json/plain"}, data=b"x" * size) for size in (64 * 1024, 64 * 1024 + 1)
    ]
    kept = asyncio.run(claims.encode(sent))
    assert kept[0] == sent[0]
    assert len(kept[1].SerializeToString()) < 1_000
    assert asyncio.run(claims.decode(kept)) == sent


@pytest.mark.parametrize("place", sorted(HISTORIES.glob("*.json.gz")), ids=lambda place: place.name)
def test_history_of_earlier_version_replays(place: Path, tmp_path: Path) -> None:
    kept = json.loads(gzip.decompress(place.read_bytes()))
    claims = ClaimCheck(FolderBlobs(tmp_path))
    stored = WorkflowHistory.from_json(kept["id"], kept["history"])
    told = asyncio.run(run_history(stored, conversion(claims), claims))
    assert [[row["type"], row["key"]] for row in told.happened] == kept["happened"]
    end = told.happened[-1]["body"]
    assert (end["status"], end["response"]) == (kept["status"], kept["response"])


def test_sdk_has_the_time_after_which_it_takes_an_evaluation_for_a_deadlock() -> None:
    assert f"self.{DEADLOCK} = " in inspect.getsource(_workflow)


def test_histories_of_earlier_versions_are_present() -> None:
    assert len(list(HISTORIES.glob("*.json.gz"))) >= 6
