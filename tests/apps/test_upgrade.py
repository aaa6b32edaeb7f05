"""`upgrade`: version 1 to version 2 in place, and what blocks cannot say stays."""

from __future__ import annotations

LENIENT = """# ltp: 1
PLAN_START
# who wrote it
S1: @FETCH_PAGE (url="$site/a") > $page:json  # try it
S2: ?IF ($page.size > 3) THEN GOTO S4
S3: @RESPOND ("small", $page.size)
S4: @RESPOND ($page)
PLAN_END
"""
STRICT = """# ltp: 2
INPUT $site: json? = None  # null where none is given, as in version 1
# who wrote it
S1: @FETCH_PAGE (url="${v1.text($site)}/a") > $page ON_FAIL CONTINUE  # try it
LET $page = v1.json($page)  # as in version 1: json, if it can be read as one
?IF (not v1.greater(v1.path($page, "size"), 3)) THEN S3: @RESPOND (v1.joined("small", v1.path($page, "size")))
S4: @RESPOND (v1.joined($page))
"""


def test_file_is_rewritten_in_place(machine):
    machine.write("p.ltp", LENIENT)
    result = machine("upgrade", "p.ltp")
    assert result.exit_code == 0
    assert result.stderr == "p.ltp: is in version 2\n"
    assert (machine.folder / "p.ltp").read_text() == STRICT
    again = machine("upgrade", "p.ltp")
    assert (again.exit_code, again.stderr) == (0, "")
    assert machine("fmt", "--check", "p.ltp").exit_code == 0


def test_plan_without_blocks_stays_with_its_place_and_exit_status_1(machine):
    text = "S1: GOTO S3\nS2: @RESPOND ($a)\nS3: @X > $a\nS4: ?IF ($a == 1) THEN GOTO S2\n"
    machine.write("p.ltp", text)
    result = machine("upgrade", "p.ltp")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "p.ltp:1:1: error LTP072: step S1 cannot be written in version 2: it jumps into"
    )
    assert (machine.folder / "p.ltp").read_text() == text


def test_diff_and_standard_input_write_nothing(machine):
    machine.write("p.ltp", LENIENT)
    assert "+# ltp: 2\n" in machine("upgrade", "--diff", "p.ltp").stdout
    assert machine("upgrade", "-", stdin=LENIENT).stdout == STRICT
    assert (machine.folder / "p.ltp").read_text() == LENIENT


def test_prose_around_a_plan_is_not_lost(machine):
    machine.write("p.ltp", f"My plan:\n{LENIENT}")
    result = machine("upgrade", "p.ltp")
    assert result.exit_code == 2
    assert "LTP103" in result.stderr
    assert (machine.folder / "p.ltp").read_text().startswith("My plan:")
