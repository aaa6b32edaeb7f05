"""Makes the table of what pure code may call.

python -m benchmarks.pure_code --python python3.12      run the corpus on both, write table and reference
                                                        (then: python -m scripts.reference)
python -m benchmarks.pure_code --show                   the cases that differ, from the stored reference
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.pure_code.corpus import FOLDER, agrees, cases, executed, programs, reference, table

from callsheet.ports.python_code import CodeLimits, PythonCode, interpreter_version

REFERENCE = FOLDER / "reference.json"
PROGRAMS = FOLDER / "programs.json"
TABLE = Path(__file__).parents[2] / "src/callsheet/frontends/pure_code/understood.json"


def main() -> None:
    """Run the corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="python3.12", help="a CPython 3.12, the reference")
    parser.add_argument("--show", action="store_true", help="only show what differs")
    options = parser.parse_args()
    corpus = cases()
    if not options.show:
        found = reference([case.source for case in corpus], options.python)
        stored = {f"{case.name} | {case.expression}": one for case, one in zip(corpus, found, strict=True)}
        lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in stored.items())
        REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        found = reference(programs(), options.python, ["r", "s"])
        lines = (json.dumps(one) for one in found)
        PROGRAMS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    stored = json.loads(REFERENCE.read_text(encoding="utf-8"))
    expected = {case: stored[f"{case.name} | {case.expression}"] for case in corpus}
    with PythonCode(CodeLimits(seconds=2, memory=128 << 20)) as code:
        got = {case: executed(code, case.source) for case in corpus}
    for case, wanted in expected.items():
        if not agrees(wanted, got[case]):
            print(f"{case.name}: {case.expression}\n    CPython  {wanted}\n    executor {got[case]}")
    understood = {"interpreter": interpreter_version(), **table(expected, got)}
    if not options.show:
        TABLE.write_text(json.dumps(understood, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    same = sum(agrees(wanted, got[case]) for case, wanted in expected.items())
    print(f"{same} of {len(corpus)} alike")


if __name__ == "__main__":
    main()
