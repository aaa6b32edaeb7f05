# ruff: noqa: E501 - a fault is a line
"""Plants faults in the proof of plan trees, and counts how many the search by random chains finds.

    python -m benchmarks.proof_mutations            # all faults, some minutes
    python -m benchmarks.proof_mutations yields     # those whose names contain a word

Each fault is one change of a copy of the sources. The search proves chains (`tests.passes.verify_tree.chains`)
with the changed proof and runs what it accepts in several worlds; a fault is found by a plan that shows
something else in each. The unchanged sources come first: there nothing may be found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[1]
_MOST = 1500
"""How many chains the search proves before it gives up."""


class Fault(NamedTuple):
    """What is changed in which file."""

    name: str
    file: str
    old: str
    new: str


_WALK, _BLOCKS, _MAIN = (f"passes/verify_tree/{name}.py" for name in ("walk", "blocks", "interpreter"))
_PROGRAMS, _LABELS, _FLOW = "passes/verify_tree/programs.py", "policy/expression_labels.py", "ir/tree_flow.py"
FAULTS = (
    Fault("no fault", _WALK, "class Walk:", "class Walk:"),
    Fault("decisions govern nothing", _WALK, "self._risen += frame.counters.note(frame.flow", "frame.counters.note((), label, number); (frame.flow"),
    Fault("values do not tell of the branch", "passes/verify_tree/state.py", "if not pc.flows_to(around):", "if False:"),
    Fault("yields in rounds are lost", _MAIN, "for loop in reversed(self._loops) if loop.is_items", "for loop in reversed(self._loops)"),
    Fault("yields tell nothing of their branch", _MAIN, "item.yields.append(raised(value, pc))", "item.yields.append(value)"),
    Fault("early ends leave no values", _BLOCKS, "ways += [(one.variables, one.places) for one in walked.exits]", "pass"),
    Fault("FINALLY leaves no values", _BLOCKS, "self._end_again(ended)", "pass"),
    Fault("BREAK decides nothing", _MAIN, "                    self._ended(loop=self._loops[-1])\n                self._decide(statement, LITERAL, (), pc=True)", "                    self._ended(loop=self._loops[-1])"),
    Fault("RETURN decides nothing", _MAIN, "self._decide(statement, LITERAL, value.origins, pc=True)", "pass"),
    Fault("handlers see no failure", _WALK, "            if governed.is_caught or self._strict:\n                label = handled", "            if self._strict:\n                label = handled"),
    Fault("REQUIRE tests nothing", _MAIN, "self._may_fail(statement, evaluator, decision.origins, content=decision.label)", "self._may_fail(statement, evaluator, decision.origins)"),
    Fault("FAIL tests nothing", _MAIN, "self._may_fail(statement, evaluator, (), content=pc)", "self._may_fail(statement, evaluator, ())"),
    Fault("words of failures are open", _BLOCKS, "label = protected.words.join(self._pc(handler.body[0]))", "label = self._pc(handler.body[0])"),
    Fault("words of sub-plans are open", _MAIN, "words=frame.words)", "words=LITERAL)"),
    Fault("failures of sub-plans are open", _MAIN, "frame.content,\n            protected,", "LITERAL,\n            protected,"),
    Fault("casts test nothing", _MAIN, "evaluator.casts(value)", "return"),
    Fault("waits test nothing", _MAIN, "evaluator.fails(known)", "pass"),
    Fault("the clock is open", _WALK, "lambda: self._clock.join(self._pc(statement))", "lambda: LITERAL"),
    Fault("waits do not move the clock", _MAIN, "self._clock = self._clock.join(known.label)", "pass"),
    Fault("loops are walked once", _BLOCKS, "if not any(changed) and self._version == version:", "if True:"),
    Fault("rounds decide nothing", _BLOCKS, "self._decide(loop, decision.label.join(tests.content), decision.origins)", "pass"),
    Fault("items decide nothing", _BLOCKS, "self._decide(loop, label.join(self._pc(loop)), source.origins)", "pass"),
    Fault("lists do not tell which items there are", _BLOCKS, "listed = label.join(walked.ends).join(first)", "listed = LITERAL"),
    Fault("arguments of sub-plans are open", _MAIN, "return value._replace(origins=(origin,))", "return Labelled(LITERAL)"),
    Fault("programs are not followed", _PROGRAMS, "return frozenset(given) & self._all_before({name}) if self.is_read else frozenset(given)", "return frozenset()"),
    Fault("programs change by one name only", _PROGRAMS, "for one in _closure({name}, self._shares):", "for one in ():"),
    Fault("unknown calls change nothing", _PROGRAMS, "if self._is_unknown(statement) or names_changed_by(statement) is None:", "if False:"),
    Fault("programs branch openly", _PROGRAMS, "control | names_read(test))\n            case ast.While", "control)\n            case ast.While"),
    Fault("failures of programs are open", _MAIN, "evaluator.fails_by_content = flow.tests_content\n        content = join(given[name].label for name in flow.tested(program.names))", "content = LITERAL"),
    Fault("choices are open", _LABELS, "return raised(self.joined(*either), decided)", "return self.joined(*either)"),
    Fault("filters are open", _LABELS, "label = join(self.forgotten(value).label for value in values)\n        presence = join((join(", "label = join(self.forgotten(value).label for value in sources)\n        presence = join((join("),
    Fault("keys for sorting are open", _LABELS, "values.append(self._of(one.body))", "self._of(one.body)"),
    Fault("a computed index is open", _LABELS, "values = (self._of(target), self._of(index))", "values = (self._of(target),)"),
    Fault("conversions do not fail", _LABELS, "self.can_fail = self.fails_by_content = True\n        self.content =", "return\n        self.content ="),
)  # fmt: skip

_SEARCH = """
import sys
from tests.passes.verify_tree.chains import WORLDS, chain, seen
from tests.passes.verify_tree.corpus import plan_of
from tests.passes.verify_tree.test_chains import _SECRET
from callsheet.passes.verify import verify
for seed in range(int(sys.argv[1])):
    text = chain(seed)
    if verify(plan_of(text), _SECRET).ok and len({tuple(seen(text, value)) for value in WORLDS}) > 1:
        print(seed)
        break
"""


def found(fault: Fault, most: int = _MOST) -> int | None:
    """The first chain that leaks and is accepted where this fault is planted; None if none is."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "callsheet"
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(_ROOT / "src" / "callsheet", sources, ignore=ignored)
        file = sources / fault.file
        text = file.read_text()
        if text.count(fault.old) != 1:
            raise ValueError(f"{fault.name}: the text to change is there {text.count(fault.old)} times")
        file.write_text(text.replace(fault.old, fault.new))
        path = os.pathsep.join([folder, str(_ROOT)])
        done = subprocess.run(
            [sys.executable, "-c", _SEARCH, str(most)],
            env={**os.environ, "PYTHONPATH": path}, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{fault.name}: {done.stderr[-2000:]}")
    return int(done.stdout) if done.stdout.strip() else None


def main(words: list[str]) -> int:
    """Plant each fault; 1 if one is not found, or something is without a fault."""
    missed = 0
    for fault in FAULTS:
        if words and not any(word in fault.name for word in words):
            continue
        seed = found(fault)
        is_right = (seed is None) == (fault.name == "no fault")
        missed += not is_right
        print(
            f"{fault.name:45} {'nothing' if seed is None else f'chain {seed}'}{'' if is_right else '  WRONG'}",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
