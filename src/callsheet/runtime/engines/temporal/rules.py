"""Provides guarded gateways on a worker: caches policies by their digest and opens the label store.

In: the rules of a call. Out: a gateway that enforces them. If a policy cannot be fetched, fetching is
retried; the call waits and is never made without it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from callsheet.machine import ToolFacts
from callsheet.policy.canon import policy_from_json
from callsheet.policy.model import Policy
from callsheet.runtime.capabilities import NO_TASKS, Tasks
from callsheet.runtime.engines.temporal.call_rules import CallRules
from callsheet.runtime.engines.temporal.claims import ClaimCheck
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.guard import Guard, GuardedGateway
from callsheet.store.blobs import BlobMissing
from callsheet.store.labels import LabelStore

OpenLabels: TypeAlias = "Callable[[], LabelStore]"
"""Opens the labels of files and facts; raises CallsheetError."""
_PAUSE = 1.0
_log = logging.getLogger("callsheet")


class Rules:
    """The policies and labels of one worker; to be used from its loop's thread."""

    def __init__(self, claims: ClaimCheck, labels: OpenLabels) -> None:
        self._claims = claims
        self._open = labels
        self._labels: LabelStore | None = None
        self._policies: dict[str, Policy] = {}

    async def gateway(
        self, ports: Ports, run_id: str, facts: Mapping[str, ToolFacts], call_rules: CallRules
    ) -> Gateway:
        """The gateway for a call with these rules; raises CallsheetError if labels cannot be kept."""
        if not call_rules.rules:
            return Gateway(ports, run_id, facts)
        policy = await self._policy(call_rules.rules)
        if self._labels is None:
            self._labels = self._open()
        began, task = call_rules.began, call_rules.task
        tasks = NO_TASKS if task is None else Tasks({call_rules.talk: task}, lambda _: began)
        return GuardedGateway(ports, run_id, Guard(policy, call_rules.plan, self._labels, tasks=tasks), facts)

    async def pin_of(self, call_rules: CallRules, tool: str) -> str | None:
        """The pin that the policy's entry of a tool requires; None if there is none."""
        policy = await self._policy(call_rules.rules) if call_rules.rules else None
        rule = None if policy is None else policy.tools.get(tool)
        return None if rule is None else rule.pin

    def close(self) -> None:
        """Close the label store if it was opened."""
        if self._labels is not None:
            self._labels.close()
            self._labels = None

    async def _policy(self, name: str) -> Policy:
        while name not in self._policies:
            try:
                self._policies[name] = policy_from_json(json.loads(await self._claims.fetch(name)))
            except (BlobMissing, OSError) as error:
                _log.warning("a policy cannot be fetched: %s; retrying", error)
                await asyncio.sleep(_PAUSE)
        return self._policies[name]
