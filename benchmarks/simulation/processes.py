"""Many seeds of the simulation in processes of their own, which are replaced now and then."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.simulation.case import Case, Report
from benchmarks.simulation.simulation import prepare, simulate

_SEEDS_OF_CHUNK, _CHUNKS_OF_PROCESS = 10, 50
"""A process is replaced after 500 seeds: what the dead of a simulation had open stays in it."""


def reports(seeds: range, jobs: int, *, stops: bool) -> Iterator[Report]:
    """What became of each seed, in order; the trace only of one alone."""
    if len(seeds) == 1:
        yield _report(seeds[0], stops=stops)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, seldom_garbage, maxtasksperchild=_CHUNKS_OF_PROCESS) as processes:
        yield from processes.imap(partial(_without_trace, stops=stops), seeds, chunksize=_SEEDS_OF_CHUNK)


def seldom_garbage() -> None:
    """Let this process look for garbage seldom, of which a seed leaves little in cycles, and say nothing."""
    logging.getLogger("opentelemetry.context").disabled = True  # it reports sessions of dead processes
    warnings.simplefilter("ignore", RuntimeWarning)  # the dead never await what they had begun
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _report(seed: int, *, stops: bool) -> Report:
    return simulate(prepare(Case.of(seed, stops=stops)))


def _without_trace(seed: int, *, stops: bool) -> Report:
    return replace(_report(seed, stops=stops), trace=[])
