"""Measures the proof of plans of up to 100,000 steps, and the judgement of one call during a run.

python -m benchmarks.verifying [--quick]
"""

from __future__ import annotations

import argparse
import gc
import time

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.labels import TRUSTED, Label, read_label
from callsheet.passes.verify import verify
from callsheet.policy.calls import Argument, CallView, Hole
from callsheet.policy.judge import Judge
from callsheet.policy.model import Audience, Policy, SourceRule, ToolRule

POLICY = Policy(
    audiences=(Audience(name=TRUSTED, hosts=("api.internal",)),),
    sources=(
        SourceRule(kind="file", pattern="**/.env", label=Label(True, frozenset())),
        SourceRule(kind="file", pattern="docs/**", label=Label(True)),
    ),
    tools={"@ADD": ToolRule(egress=False, destructive=False, idempotent=True, returns=Label())},
    forbidden=("AKIA[0-9A-Z]{16}",),
)
_WEB, _OWN = read_label("U/pub"), read_label("U/priv")


def plan(count: int) -> Plan:
    """A plan of about this many steps with guards, jumps, files, failures and sinks."""
    lines: list[str] = []
    for n in range(1, count, 5):
        read = f'@READ_FILE (path="docs/a{n}.md") > $c'
        fourth = f"?IF (IS_EMPTY($b)) THEN GOTO S{max(1, n - 5)}" if n % 25 == 1 else read
        lines += (
            f'S{n}: @WEB_SEARCH (query="weather {n}") > $a{n}',
            f'S{n + 1}: ?IF ($a{n} contains "x") THEN @LLM_SUMMARIZE ($a{n}, format="brief") > $b',
            f'S{n + 2}: @WRITE_FILE (path="out/{n}.md", content="$b, $a{n}") > $w ON_FAIL TERMINATE ("no")',
            f"S{n + 3}: {fourth}",
            f'S{n + 4}: @FETCH_PAGE (url="https://x.example/?q=$a{n}") > $d',
        )
    return parse("\n".join([*lines, "LAST: @RESPOND ($d)"])).require()


CALLS = {
    "a declared tool": CallView("S1", "ADD", (Argument("x", ("1",)),)),
    "a transform": CallView("S1", "CALC", (Argument("expression", ("1 + 2",)),)),
    "a model operation": CallView("S1", "LLM_SUMMARIZE", (Argument("0", (Hole("a", _WEB, "text"),), _WEB),)),
    "a fetch": CallView(
        "S1", "FETCH_PAGE", (Argument("url", ("https://x.example/?q=", Hole("a", _WEB, "text")), _WEB),)
    ),
    "a file read": CallView("S1", "READ_FILE", (Argument("path", ("docs/a.md",)),)),
    "a file written": CallView(
        "S1",
        "WRITE_FILE",
        (Argument("path", ("out/a.md",)), Argument("content", (Hole("a", _OWN, "text"),), _OWN)),
    ),
    "an answer": CallView("S1", "RESPOND", (Argument("0", ("Here: ", Hole("a", _OWN, "text")), _OWN),)),
}


def seconds_of(count: int, rounds: int) -> float:
    """The least CPU time of a proof."""
    subject = plan(count)
    least = float("inf")
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        assert verify(subject, POLICY).ok
        least = min(least, time.process_time() - started)
    return least


def microseconds_of(call: CallView, judge: Judge, times: int) -> float:
    """The least CPU time of one judgement, over five rounds."""
    least = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            judge.judge(call)
        least = min(least, time.process_time() - started)
    return least / times * 1e6


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verifying")
    parser.add_argument("--quick", action="store_true", help="no plan of 100,000 steps")
    options = parser.parse_args()
    for count in (1_000, 10_000) if options.quick else (1_000, 10_000, 100_000):
        taken = seconds_of(count, 3 if count < 100_000 else 1)
        print(f"{count:>7,} steps  {taken:6.2f} s  {taken / count * 1e6:5.0f} µs per step", flush=True)
    judge = Judge(POLICY)
    for name, call in CALLS.items():
        print(f"{name:<20} {microseconds_of(call, judge, 5_000):6.2f} µs", flush=True)


if __name__ == "__main__":
    main()
