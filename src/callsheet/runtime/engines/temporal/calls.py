"""The activity that makes one call through the gateway, with heartbeats, and stores large results.

In: a command as data. Out: its outcome as data, or a ticket for it. A tool runs once: a result that is too
large, not JSON, or temporarily impossible to store never causes another call.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from callsheet.diagnostics import CallsheetError
from callsheet.machine import CallTool, Doubted, Failed, Probe, ToolFacts
from callsheet.runtime.engines.temporal.call_rules import CallRules, NamedSecrets, NotGiven, OpenLabels, Rules
from callsheet.runtime.engines.temporal.heartbeats import Heartbeats, unsent
from callsheet.runtime.engines.temporal.payloads import ClaimCheck, OrderedJson
from callsheet.runtime.engines.temporal.wire import (
    CARRY_OUT,
    CARRY_OUT_ONCE,
    KEEP,
    command_from_json,
    outcome_to_json,
)
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.launch import Offer, origin_change
from callsheet.sealing.masking import Finder, mask_value
from callsheet.store.start import facts_from_json

_PAUSE = 1.0
_OF_TOOLS = (CallTool.__name__, Probe.__name__)
_ACCEPTS = "review the changes, then start the workers with --accept-changed-tools"
_CHANGED = "@{tool} is not declared as it was when the run began, and was not called; " + _ACCEPTS
_MOVED = "{change}, and was not called; " + _ACCEPTS
_OTHER_PIN = (
    "@{tool} has changed since the policy was written, and was not called; review the changes, then start a"
    " run under a policy with the new pin {pin}"
)
_log = logging.getLogger("callsheet")


class Calls:
    """Carries out the calls that reach one worker, of all runs.

    `offered` are the variables of the environment `environ` that runs may name as secrets. `offer_of` gives
    what is offered here under a tool's name, None for an unknown name. With `accepts_changed` a call may
    reach another declaration and another server than at the start of its run; the pins of its policy hold all
    the same. At most `most` calls are under way at a time, calls of models not counted, and as many of those.
    """

    def __init__(
        self,
        ports: Ports,
        claims: ClaimCheck,
        labels: OpenLabels,
        offered: Collection[str] = (),
        offer_of: Callable[[str], Offer | None] = lambda tool: None,
        environ: Mapping[str, str] = os.environ,
        *,
        accepts_changed: bool = False,
        most: int = 100,
    ) -> None:
        self._ports = ports
        self._claims = claims
        self._rules = Rules(claims, labels)
        self._offered = frozenset(offered)
        self._offer_of = offer_of
        self._accepts_changed = accepts_changed
        self._environ = environ
        self._heartbeats = Heartbeats()
        self._turns = {is_tool: asyncio.Semaphore(most) for is_tool in (True, False)}

    def close(self) -> None:
        """Close what the calls have opened; no call may be under way."""
        self._rules.close()
        self._heartbeats.close()

    @activity.defn(name=CARRY_OUT)
    async def carry_out(
        self,
        run_id: str,
        command: dict[str, Any],
        facts: Mapping[str, Any],
        rules_data: Mapping[str, Any] | None = None,
    ) -> RawValue:
        """Make one call of a run and return its outcome; errors of the tool are never raised."""
        self._heartbeats.begin()
        try:
            return await self._carried_out(run_id, command, facts, rules_data, _at_once)
        finally:
            self._heartbeats.end()

    @activity.defn(name=CARRY_OUT_ONCE)
    async def carry_out_once(
        self,
        run_id: str,
        command: dict[str, Any],
        facts: Mapping[str, Any],
        rules_data: Mapping[str, Any] | None = None,
    ) -> RawValue:
        """As `carry_out`, but the server knows of the call before it is sent.

        So a worker that is lost before has not made the call, which can be made again; and a worker that the
        server gave up does not make a call that another one makes meanwhile. Raises ApplicationError (UNSENT)
        if the call was not sent.
        """
        signs = self._heartbeats.begin()
        try:
            return await self._carried_out(run_id, command, facts, rules_data, signs.send)
        except asyncio.CancelledError as error:
            if signs.is_sent:
                raise
            raise unsent("the worker was stopped") from error
        finally:
            self._heartbeats.end()

    async def _carried_out(
        self,
        run_id: str,
        command: dict[str, Any],
        facts: Mapping[str, Any],
        rules_data: Mapping[str, Any] | None,
        before: Callable[[], Awaitable[None]],
    ) -> RawValue:
        rules = None if rules_data is None else CallRules.from_json(rules_data)
        async with self._turns[command["kind"] in _OF_TOOLS]:  # the same calls come by two task queues
            outcome = await self._outcome(run_id, command, facts_from_json(facts), rules, before)
        return RawValue(await self._checked_in(outcome))

    async def _outcome(
        self,
        run_id: str,
        command: dict[str, Any],
        facts: dict[str, ToolFacts],
        rules: CallRules | None,
        before: Callable[[], Awaitable[None]],
    ) -> dict[str, Any]:
        """The outcome of a call as data without secrets; `before` is awaited when all is ready for it."""
        if rules is None:
            ready = command_from_json(command)
            await before()
            return outcome_to_json(await Gateway(self._ports, run_id, facts).carry_out(ready))
        why = await self._other_tool(command, rules)
        if why is not None:
            key = str(command["key"])
            return outcome_to_json(Doubted(key, why) if "call" in command else Failed(key, why))
        named = NamedSecrets(rules.secrets, self._offered, self._environ)
        try:
            resolved = command_from_json(named.put_in(command))
            gateway = await self._rules.gateway(self._ports, run_id, facts, rules)
        except (NotGiven, CallsheetError) as error:
            return outcome_to_json(Failed(str(command["key"]), str(error)))
        await before()
        return named.take_out(outcome_to_json(await gateway.carry_out(resolved)))

    async def _other_tool(self, command: Mapping[str, Any], rules: CallRules) -> str | None:
        """Why a tool call or a probe may not reach what is offered here under its name; None if it may."""
        tool = command.get("call", command).get("tool", "")
        offer = self._offer_of(tool)
        if offer is None:
            return None
        if not self._accepts_changed:
            if rules.pin and rules.pin not in (offer.pin, offer.orderless_pin):
                return _CHANGED.format(tool=tool)
            change = origin_change(tool, rules.server, offer.origin)
            if change is not None:
                return _MOVED.format(change=change)
        wanted = await self._rules.pin_of(rules, tool)
        if wanted is not None and offer.pin and wanted not in (offer.pin, offer.orderless_pin):
            return _OTHER_PIN.format(tool=tool, pin=offer.pin)
        return None

    @activity.defn(name=KEEP)
    async def keep_past(self, rows: Sequence[Any]) -> str:
        """Store the past events of a run as a blob; returns its digest."""
        payload = OrderedJson().to_payload(rows)
        return await self._of_run().store_bytes(payload.data)

    def _of_run(self) -> ClaimCheck:
        """The claim check for the workflow of the current call."""
        return self._claims.of(activity.info().workflow_id or "")

    async def _checked_in(self, outcome: Mapping[str, Any]) -> Payload:
        """The outcome as a payload; storing it is retried, never the call."""
        payload, claims = self._without_configured(outcome), self._of_run()
        while True:
            try:
                (encoded,) = await claims.encode([payload])
            except OSError as error:
                _log.warning("a result cannot be stored: %s; retrying", error)
                await asyncio.sleep(_PAUSE)
            else:
                return encoded

    def _without_configured(self, outcome: Mapping[str, Any]) -> Payload:
        """The outcome as a payload, with the workers' configured secrets masked.

        A sealed journal alone is not enough here, since the server reads the history.
        """
        payload = OrderedJson().to_payload(outcome)
        known = self._ports.known
        if not known or not known.may_be_in(payload.data):
            return payload
        return OrderedJson().to_payload({**outcome, "body": mask_value(outcome["body"], Finder(known))})


async def _at_once() -> None:
    """Nothing has to be done before the call."""
