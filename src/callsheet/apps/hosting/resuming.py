"""Resumes a recorded run in a host, with shared tools if they are those it was started with.

In: a run's id and terms. Out: its outcome. Does what `callsheet resume` does, without a terminal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from callsheet.api.same_tools import check_present, check_tools
from callsheet.apps.hosting.collector import CollectorHold
from callsheet.apps.hosting.preparing import HostConfig
from callsheet.apps.hosting.requests import ResumeOptions
from callsheet.apps.masking import Masker
from callsheet.apps.models import RunModels, models_for_plan, setup_for_resume, with_local_model
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox
from callsheet.ir import Plan
from callsheet.machine import Limits
from callsheet.machine.machine import Observer
from callsheet.machine.notes import Note
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Watch
from callsheet.runtime.runs import Amendments, resume_run
from callsheet.store import Journal
from callsheet.store.start import Start

_T = TypeVar("_T")


async def resume_in_host(
    journal: Journal,
    run_id: str,
    terms: ResumeOptions,
    masker: Masker,
    watch: Watch,
    config: HostConfig,
    hold: CollectorHold,
) -> RunOutcome:
    """Resume a run where its journal ends, until it ends or stops; raises as `resume_run` does.

    `hold` keeps the garbage collector off the run's data while it is loaded.
    """
    tools, say, beside = config.tools, config.say, config.beside

    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        limits: Limits = start.limits if terms.limits is None else terms.limits(start.limits)

        def looked_at() -> tuple[Setup, RunModels, Plan | None]:
            setup = with_local_model(setup_for_resume(Setup.from_note(start.launch), ""), say, plan)
            asked = models_for_plan(setup, plan, limits, must_plan=False)
            return setup, asked, None if asked.may_call_any_tool(plan) else plan

        setup, asked, needed = await beside(looked_at)
        async with tools.for_run(setup, needed, asked.agents) as toolbox:
            registry = toolbox.registry
            masker.add_secrets(toolbox.known)
            await beside(lambda: _check(start, plan, toolbox, asked, terms))
            compiler = asked.compiler(registry, setup.settings.on_in_doubt)
            hold.built(len(plan.steps))
            yield toolbox.ports(asked.model, compiler, asked.turns(registry))

    async def held(look: Callable[[], _T], /) -> _T:
        return await hold.beside(beside, look)

    hold.begin()
    observer = terms.listeners.observer
    watch = replace(
        watch,
        observer=None if observer is None else _on_loop(masker.masked_observer(observer)),
        hears_all=observer is not None,
        on_declared=masker.add_secrets,
    )
    return await resume_run(
        journal,
        run_id,
        ports_for,
        Amendments(in_doubt=terms.in_doubt, limits=terms.limits),
        watch=watch,
        present=terms.listeners.present,
        offload=held,
    )


def _check(start: Start, plan: Plan, toolbox: Toolbox, asked: RunModels, terms: ResumeOptions) -> None:
    """Raise CallsheetError if the tools differ from those that the run was started with."""
    check_present(plan, toolbox.registry, asked.agents, toolbox.diagnostics)
    check_tools(
        start,
        plan,
        toolbox.registry,
        asked.agents,
        accepts_changed=terms.accepts_changed_tools,
        is_bound_anew=False,
    )


def _on_loop(observer: Observer) -> Observer:
    """An observer that passes notes on to this event loop from any thread, in order."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def tell(note: Note) -> None:
        if threading.get_ident() == home:
            observer(note)
        else:
            loop.call_soon_threadsafe(observer, note)

    return tell
