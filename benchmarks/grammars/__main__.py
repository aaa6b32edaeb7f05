"""Draws random sentences of the grammars and checks them: `python -m benchmarks.grammars`.

Each sentence is drawn from the rules, parsed, checked against the catalogue, and given to llguidance byte by
byte. The published figures are for `--sentences 100000`; the default is quick.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from benchmarks.grammars.catalogue import TOOLS, VARIANTS, signatures
from benchmarks.grammars.matching import Matcher
from benchmarks.grammars.sentences import Sentences

from callsheet.frontends.export import ExportOptions, ToolShape, plan_gbnf, plan_grammar, plan_lark
from callsheet.frontends.ltp import parse
from callsheet.passes import check

_KINDS: tuple[dict[str, object], ...] = (
    {"type": "string"},
    {"type": "integer", "minimum": 1, "maximum": 100},
    {"type": "boolean"},
    {"enum": ["open", "closed", "all"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "number"},
)


def examined(variant: str, count: int, seed: int) -> Counter[str]:
    """Counts of the results of this many sentences of one variant."""
    options = VARIANTS[variant]
    matcher = Matcher(plan_lark(TOOLS, options))
    sentences = Sentences(plan_grammar(TOOLS, options), Random(f"{variant} {seed}"))
    tools = signatures()
    found: Counter[str] = Counter()
    for _ in range(count):
        text = sentences.draw()
        found["drawn"] += 1
        plan = parse(text).plan
        if plan is None:
            print(f"does not parse: {text!r}", file=sys.stderr)
            continue
        found["parsed"] += 1
        found["steps"] += len(plan.steps)
        wrong = [
            d for d in check(plan, tools=tools, inputs=options.given) if d.is_error or d.code == "CHK001"
        ]
        found["without errors"] += not wrong
        if wrong:
            print(f"{wrong[0].code} {wrong[0].message}: {text!r}", file=sys.stderr)
        found["accepted"] += matcher.takes(text)
    return found


def many_tools(count: int, *, are_alike: bool = True) -> list[ToolShape]:
    """Tools with one to four arguments of six kinds, half of them required.

    Every twelfth has the same arguments; where they are not alike, no two tools share the name of one.
    """
    tools: list[ToolShape] = []
    for number in range(count):
        whose = "argument" if are_alike else f"argument_of_{number}"
        names = [f"{whose}_{place}" for place in range(1 + number % 4)]
        fields = {name: _KINDS[(number + place) % len(_KINDS)] for place, name in enumerate(names)}
        required = names[: (len(names) + 1) // 2]
        tools.append(
            ToolShape(f"tool_{number}", {"type": "object", "properties": fields, "required": required})
        )
    return tools


def _least(work: Callable[[], object], rounds: int = 9) -> float:
    """The least CPU time of some rounds, in milliseconds."""
    took: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return 1_000 * min(took)


def times() -> Iterable[str]:
    """How long grammars of 40 tools by 12 variables take to make and to compile, in lines."""
    calls = ExportOptions(max_steps=13, conditions=False, loops=False, failures=False, casts=False)
    alike, apart = many_tools(40), many_tools(40, are_alike=False)
    for name, tools, options in (
        ("calls and references alone", alike, calls),
        ("calls and references alone, no two tools alike", apart, calls),
        ("all of the default", alike, ExportOptions(max_steps=13)),
        ("all of the default, no two tools alike", apart, ExportOptions(max_steps=13)),
    ):
        lark = plan_lark(tools, options)
        made = _least(lambda tools=tools, options=options: plan_lark(tools, options))
        compiled = _least(lambda lark=lark: Matcher(lark, is_checked=False))
        yield (
            f"40 tools, 12 variables, {name}: made in {made:.0f} ms, compiled in {compiled:.0f} ms; "
            f"Lark {len(lark) / 1024:.0f} KB, GBNF {len(plan_gbnf(tools, options)) / 1024:.0f} KB"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; returns 1 if anything disagrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--sentences",
        type=int,
        default=2_000,
        help="the total number, the same for each grammar (default 2,000)",
    )
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    start = time.perf_counter()
    for variant in VARIANTS:
        found = examined(variant, -(-said.sentences // len(VARIANTS)), said.seed)
        print(f"{variant}: {dict(found)}", flush=True)
        total += found
    print(
        f"{total['drawn']:,} sentences with {total['steps']:,} steps: {total['parsed']:,} parse, "
        f"{total['without errors']:,} have no errors, llguidance accepts {total['accepted']:,} "
        f"({time.perf_counter() - start:.0f} s)"
    )
    for line in times():
        print(line)
    return 0 if total["drawn"] == total["parsed"] == total["without errors"] == total["accepted"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
