"""Each rule has a page: the rule refuses its bad plan, and nothing refuses its good one."""

from __future__ import annotations

import re

import pytest

from callsheet.api.policies import policy_source
from callsheet.api.proving import Assumptions, prove
from callsheet.diagnostics import Source, explain
from callsheet.frontends.ltp import parse
from callsheet.policy.calls import CODES
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy


def blocks(code: str, kind: str) -> list[str]:
    page = explain(code) or ""
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def policy_of(code: str) -> Policy:
    own = "".join(blocks(code, "toml policy"))
    return read_policy(Source("policy.toml", f'schema = 1\nextends = "workspace"\n{own}'), policy_source)


@pytest.mark.parametrize("code", sorted(CODES.values()))
def test_bad_plan_breaks_rule_and_good_plan_breaks_none(code: str) -> None:
    (bad,) = blocks(code, "ltp bad")
    (good,) = blocks(code, "ltp good")
    policy = policy_of(code)
    refused = prove(parse(bad).require(), policy, assumed=Assumptions(can_ask=False))
    assert code in {d.code for d in refused.diagnostics}
    accepted = prove(parse(good).require(), policy, assumed=Assumptions(can_ask=False))
    assert accepted.ok, [d.message for d in accepted.diagnostics]
