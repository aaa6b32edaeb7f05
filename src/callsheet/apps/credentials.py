"""Collects the configured credentials of a recorded run, so that edits can be checked for them.

In: a journal and a run. Out: the credentials. No server is opened.
"""

from __future__ import annotations

import os
from contextlib import suppress

from callsheet.apps.server_selection import select_servers
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.known import Known
from callsheet.store.journal import Journal
from callsheet.store.start import Start


def credentials_for(journal: Journal, run: str) -> Known:
    """The credentials of the environment and of the servers that a run is executed with.

    Raises JournalError for an unknown run, CallsheetError (CFG017) for a run that records no setup.
    """
    run_id = journal.find_run(run).run_id
    first = next(journal.events(run_id), None)
    start = Start.from_json({} if first is None or first.body is None else first.body)
    setup = Setup.from_note(start.at_places(journal.places(run_id)).launch)
    credentials = [*in_environment(os.environ)]
    with suppress(CallsheetError):  # a missing configuration is reported where it is needed
        servers = select_servers(setup, None).configs
        if servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            credentials += credentials_of(servers)
    return configured(credentials)
