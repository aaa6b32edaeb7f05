"""The token of an agent covers what it names, until it ends, and nobody else can make one."""

from __future__ import annotations

import pytest

from callsheet.runtime.capabilities import Capability, Ledger, Signer, TokenRefused

GIVEN = Capability("run", "h", "S1", "S1.0.1", ("NOTE",), 2, 1, 100.0, "T/pub", "pub")


def test_a_token_is_read_back_by_the_process_that_signed_it_alone() -> None:
    signer = Signer()
    token = signer.sign(GIVEN)
    assert signer.read(token) == GIVEN
    with pytest.raises(TokenRefused):
        Signer().read(token)


def test_a_token_that_was_changed_is_none() -> None:
    signer = Signer()
    body, _, seal = signer.sign(GIVEN).partition(".")
    other = signer.sign(GIVEN._replace(tools=("PAY",))).partition(".")[0]
    for forged in (f"{other}.{seal}", body, f"{body}.", f"{body}.{seal[:-1]}0x", ""):
        with pytest.raises(TokenRefused):
            signer.read(forged)


def test_a_call_is_covered_by_its_tool_its_agent_its_time_and_its_number() -> None:
    used = Ledger()
    for talk, tool, now in (("S2.0.1", "NOTE", 1.0), ("S1.0.1", "PAY", 1.0), ("S1.0.1", "NOTE", 100.0)):
        with pytest.raises(TokenRefused):
            used.call(GIVEN, talk, tool, "S1.0.1/t1c1", now)
    used.call(GIVEN, "S1.0.1", "NOTE", "S1.0.1/t1c1", 1.0)
    used.call(GIVEN, "S1.0.1", "NOTE", "S1.0.1/t1c1", 2.0)  # the same call, delivered again
    with pytest.raises(TokenRefused):
        used.call(GIVEN, "S1.0.1", "NOTE", "S1.0.1/t1c2", 3.0)


def test_turns_are_counted() -> None:
    used = Ledger()
    used.turn(GIVEN, "S1.0.1/t1", 1.0)
    used.turn(GIVEN, "S1.0.1/t2", 1.0)
    with pytest.raises(TokenRefused):
        used.turn(GIVEN, "S1.0.1/t3", 1.0)
