"""What the tools of the server work with: an operator's setup, the policy, the plan library."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from callsheet.apps.operations.reading import PlanText
from callsheet.apps.session import Setup
from callsheet.apps.shelf import Shelf
from callsheet.policy.model import Policy
from callsheet.store.library import PlanLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An operator's decisions, which hold for every request; without a `policy` plans are held to none."""

    setup: Setup
    library: PlanLibrary
    policy: Policy | None = None

    async def shelf_for(self, text: PlanText) -> Shelf:
        """The tools that a plan is looked at against; servers are asked for those that are not here."""
        return await asyncio.to_thread(Shelf, self.setup)
