"""No plan that leaks or destroys is accepted, and no harmless one is refused."""

from __future__ import annotations

import pytest
from tests.passes.verify.held import Held, held

from callsheet.passes.verify import verify


@pytest.mark.parametrize("case", held(), ids=lambda case: case.name.replace("\\", ""))
def test_the_plan_is_refused_or_may_run_as_it_must(case: Held) -> None:
    verdict = verify(case.plan, case.policy)
    assert verdict.ok is case.must_run, [str(violation) for violation in verdict.violations]


def test_each_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in held()]
    assert len(names) == len(set(names))
