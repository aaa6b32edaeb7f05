"""`callsheet lctl emit`: a run of the journal as a document, for people and for programs."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from callsheet.lctl import DebugDocument, Handoff, check, read


def done(machine):
    machine.run("S1: @ADD (a=1) > $a", "S2: @ADD (a=$a) > $b", 'S3: @RESPOND ("b=$b")')


def test_run_is_emitted_as_valid_hand_off(machine):
    done(machine)
    said = machine("lctl", "emit", "last")
    assert said.exit_code == 0
    document = read(said.stdout).document
    assert isinstance(document, Handoff)
    assert check([document]).is_ok
    assert document.critical == ("F2",)
    assert machine.json("lctl", "emit", "r1")["chain"]["id"] == "r1"
    assert machine("lctl", "emit", "r1").stdout == said.stdout


def test_named_step_is_emitted_and_unknown_one_refused(machine):
    done(machine)
    document = read(machine("lctl", "emit", "r1", "--at", "S1").stdout).document
    assert isinstance(document, Handoff)
    assert (document.chain.source, document.chain.target) == ("S1:@ADD", "S2:@ADD")
    refused = machine("lctl", "emit", "r1", "--at", "S9")
    assert refused.exit_code == 2
    assert "RUN060" in refused.stderr
    assert "it has done S1, S2, S3" in refused.stderr
    assert machine("lctl", "emit", "r1", "--at", "S1", "--debug").exit_code == 2
    assert machine("lctl", "emit", "r9").exit_code == 2


def test_failed_run_is_emitted_as_post_mortem(machine):
    machine.run('S1: @FAIL (text="no luck") > $a ON_FAIL TERMINATE ("ended")', code=1)
    machine.write("x.yaml", machine("lctl", "emit", "r1").stdout)
    assert machine("lctl", "check", "x.yaml").stdout == "x.yaml: ok\n"
    document = read(machine("lctl", "emit", "r1").stdout).document
    assert isinstance(document, DebugDocument)
    assert document.chain.failed_at_step == 2
    assert isinstance(read(machine("lctl", "emit", "r1", "--handoff").stdout).document, Handoff)
    shown = machine("lctl", "show", "x.yaml").stdout
    assert "root cause: step 2, by analysis" in shown


def test_document_is_written_to_file_or_error_given(machine):
    done(machine)
    assert machine("lctl", "emit", "r1", "--debug", "-o", "out.yaml").stdout == ""
    assert machine("lctl", "check", "out.yaml").exit_code == 0
    refused = machine("lctl", "emit", "r1", "-o", "nowhere/out.yaml")
    assert refused.exit_code == 2
    assert "CFG014" in refused.stderr


def test_broken_event_chain_is_refused(machine):
    done(machine)
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        connection.execute("UPDATE events SET ts = ts + 1 WHERE type = 'end'")
    said = machine("lctl", "emit", "r1")
    assert (said.exit_code, said.stdout) == (1, "")
    assert "CHAIN BROKEN" in said.stderr
