"""The 99 rules of LCTL v3: id, level, error, origin in the specification, repair.

The specification (LCTL v3.0) has one MUST; the other rules are derived from its templates, examples and best
practices. `docs/lctl.md` describes how its contradictions are resolved.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """The severity of a finding: only documents with errors are not received."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


class Rule(NamedTuple):
    """A rule: its id, level, error, origin and repair."""

    id: str
    level: Level
    title: str
    origin: str
    repair: str


_PARSE, _CORE, _ACK = "Receiving 1", "Core Structure", "Receiving 4"
_CHAIN, _FACT, _PARALLEL, _DEBUG = "Chain Tracking", "Fact Management", "Parallel Workflows", "Debugging"
_MINIMAL, _CONF, _BANDS, _SPREAD = (
    "Minimal Format",
    "Confidence",
    "Confidence table",
    "Propagation rule",
)
_EX1, _EX2, _EX3, _HANDOFF = "Ex.1", "Ex.2", "Ex.3", "Handoff"
_OTHER_VERSION = (
    "write the document in the form of LCTL 3: other versions have other fields, so another number in the"
    " same text is no repair (docs/coming-from.md has what corresponds to LCTL 4)"
)

_TABLE = (
    # the text
    ("P01", "error", "the block is not well-formed YAML", _PARSE,
     "quote texts with a colon, a quote or a bracket in them; close every bracket and code fence"),
    ("P02", "error", "the top level is not a mapping, or the block is empty", _PARSE,
     "begin with lctl: \"3.0\""),
    ("P03", "error", "a key occurs twice in one mapping", _PARSE, "keep one of the two"),
    ("P04", "error", "more than one YAML document in one block", _PARSE, "a block contains one document"),
    ("P05", "error", "a tag outside the YAML core schema", _PARSE, "remove the tag"),
    ("P06", "error", "a recursive alias, or more than 200,000 nodes once aliases are written out", _PARSE,
     "write the values out, and send less"),
    ("P07", "error", "more than 8 MiB, or nested deeper than 64", _PARSE, "send less, and flatter"),
    ("P08", "error", "not UTF-8, or a forbidden control character", _PARSE,
     "write UTF-8; control characters are written as escapes in double quotes"),
    ("P09", "error", "neither an LCTL document nor an lctl_ack", _CORE,
     "a document has the keys lctl, chain and instruction; keys are case-sensitive"),
    # the document
    ("S01", "error", "the version key lctl is missing", _CORE, "add lctl: \"3.0\""),
    ("S02", "error", "an unsupported version", _CORE, _OTHER_VERSION),
    ("S03", "warn", "the version is a number, not the text \"3.0\"", _CORE, "quote it: lctl: \"3.0\""),
    ("S04", "warn", "an unknown minor version of 3", _CORE, "write lctl: \"3.0\""),
    ("S05", "warn", "an unknown purpose", "Core Structure / Ex.3", "write observability or debugging"),
    ("S06", "info", "an unknown key; it is kept", _CORE, "check whether it is misspelled"),
    ("S07", "error", "a known field has the wrong type", _CORE, "give it the type of the core structure"),
    ("S08", "error", "a hand-off has no instruction", _CORE, "say what the receiver is to do"),
    ("S09", "error", "a field and its short name disagree", _MINIMAL, "keep one of the two"),
    ("S10", "info", "a field and its short name are both there, and equal", _MINIMAL, "one is enough"),
    # the chain
    ("C01", "error", "the chain is missing", _CORE, "add chain: {id, step, source, target}"),
    ("C02", "error", "the chain has no id", _CHAIN, "give all documents of a chain one unique id"),
    ("C03", "error", "a hand-off has no chain.step", _CHAIN, "write the step that the sender has finished"),
    ("C04", "error", "the step is not a whole number from 1", _CHAIN, "write it without quotes, from 1"),
    ("C05", "error", "source or target is missing", _CORE, "name the sender and the receiver"),
    ("C06", "error", "chain.step is lower than the highest step of the trace", _CHAIN,
     "write the step that the sender has finished"),
    ("C07", "warn", "chain.step is more than 1 above the highest step of the trace", _CHAIN,
     "add the entries of the steps between"),
    ("C08", "info", "chain.step is 1 above the highest step of the trace", _EX2,
     "it counts the coming step, as example 2 does; the sender's own is clearer"),
    # the trace
    ("T01", "error", "an entry's step is missing or not a whole number from 1", _CORE,
     "number the steps from 1"),
    ("T02", "error", "an entry has no agent", _CORE, "name the agent that took the step"),
    ("T03", "warn", "an entry has no action", _CORE, "say in a few words what was done"),
    ("T04", "warn", "an entry has no confidence", _CORE, "add a number from 0 to 1"),
    ("T05", "error", "steps go down in the order of the trace", _CHAIN,
     "list entries in the order of execution"),
    ("T06", "warn", "a gap in the steps, or the trace does not begin at 1", _CHAIN,
     "keep every entry, and number them one after the other"),
    ("T07", "error", "a step occurs twice without parallel: true on each", _PARALLEL,
     "mark entries that ran concurrently, or give them different numbers"),
    ("T08", "error", "two entries add a fact of one id", _FACT, "give each fact an id of its own"),
    ("T09", "warn", "a fact is modified before an entry adds it", _FACT,
     "list it in facts_added where it came up"),
    ("T10", "info", "the trace names a fact that is not in the registry", "Ex.1-3",
     "it was dropped; carry it where it still matters"),
    ("T11", "warn", "a fact that no entry of the trace added", _FACT, "say which step established it"),
    ("T12", "warn", "a fact's source or step is not that of its last writer in the trace", _FACT,
     "source and step are those of the entry that wrote it last"),
    ("T13", "warn", "duration_ms is negative or not finite", _DEBUG, "write milliseconds, at least 0"),
    ("T14", "warn", "an entry has an error and a confidence above 0", _EX3, "a step that failed has 0.0"),
    # facts
    ("F01", "error", "a fact has no text", _CORE, "say the fact in a sentence"),
    ("F02", "error", "a fact has no confidence", _CORE, "add a number from 0 to 1; unknown is never 1.0"),
    (
        "F03", "warn", "a fact's id is not a short identifier, or reads like another id", _FACT,
        "use ids such as F1, F2",
    ),
    ("F04", "info", "a fact has no source or no step", _FACT, "say who established it, and when"),
    ("F05", "error", "a fact of a later step than the document", _CORE, "write the step in which it came up"),
    # confidence
    ("V01", "error", "a confidence is not a number", _CONF,
     "write it as 0.95, without quotes and with a point"),
    ("V02", "error", "a confidence is not between 0.0 and 1.0", _CONF, "write a number from 0 to 1"),
    ("V03", "warn", "a critical fact is below 0.70", "Receiving 3",
     "list it among confidence_concerns, and verify it"),
    ("V04", "warn", "a fact that is handed on is in 0.40-0.59", _BANDS, "have a person look at it"),
    ("V05", "error", "a fact that is handed on is below 0.40", _BANDS,
     "leave it in the registry and out of the lists; a person decides how to go on"),
    ("V06", "info", "a fact in 0.80-0.94 is handed on without its source", _BANDS, "note its source"),
    ("V07", "info", "a fact in 0.60-0.79 is handed on", _BANDS, "verify it before acting on it"),
    ("V08", "info", "a fact is above the confidence of the step that wrote it", "Propagation rule / Ex.1",
     "nothing to do: a step's confidence does not bound its facts"),
    ("V09", "error", "a derived fact is above the lowest fact it derives from", _SPREAD,
     "state at most the minimum of its parents"),
    ("V10", "info", "a fact below 0.40 is kept and not handed on", _BANDS,
     "nothing to do: it stays for the audit"),
    # the lists of the hand-off
    ("H01", "error", "a critical fact is not in the registry", _HANDOFF,
     "carry the fact, or remove its id from the list"),
    ("H02", "warn", "a context fact is not in the registry", _HANDOFF,
     "carry the fact, or remove its id from the list"),
    ("H03", "warn", "a fact is both critical and context", _HANDOFF, "list it once"),
    ("H04", "info", "an id occurs twice in a list", _HANDOFF, "list it once"),
    # merges
    ("M01", "error", "branches give one id to different facts", _PARALLEL,
     "rename one of them in its branch before they are joined"),
    ("M02", "warn", "branches give one fact different confidences; the lowest holds", _PARALLEL,
     "say so in the warnings, or check which is right"),
    ("M03", "error", "a critical fact of a branch is lost in the merge", _PARALLEL,
     "carry it in the registry"),
    ("M04", "warn", "parallel_merge, but nothing ran in parallel", _EX2,
     "mark the entries with parallel: true"),
    ("M05", "warn", "parallel entries are joined without parallel_merge", _EX2, "add parallel_merge: true"),
    ("M06", "warn", "a conflict between branches is neither recorded nor warned about", _PARALLEL,
     "add a fact that describes the conflict, or a warning"),
    ("M07", "error", "an entry of a branch is missing in the merge", _PARALLEL,
     "keep the traces of all branches"),
    # from hop to hop
    ("X01", "error", "the chain's id changes inside the chain", _CHAIN,
     "keep the id from document to document"),
    ("X02", "error", "chain.step does not increase", _CHAIN,
     "give the documents in order; each has a higher step"),
    ("X03", "warn", "chain.step skips a number", _CHAIN, "a document may be missing"),
    ("X04", "error", "an earlier entry of the trace is gone", _CHAIN, "keep the whole trace"),
    ("X05", "info", "an earlier entry's action is reworded", _EX1, "keep the original action"),
    ("X06", "error", "an earlier entry was rewritten (confidence or lists of facts)", _CHAIN,
     "add an entry of your own instead"),
    ("X07", "error", "a critical fact is lost", _FACT, "carry critical facts through the whole chain"),
    ("X08", "warn", "a critical fact is no longer critical", _EX1, "keep it critical, or say why not"),
    ("X09", "info", "a fact that is not critical was dropped", _EX1, "nothing to do if nobody needs it"),
    ("X10", "warn", "the source is not the target of the document before", _CORE,
     "the receiver is the next sender"),
    ("X11", "warn", "a fact's text changed without facts_modified", _FACT,
     "list it in facts_modified of your entry"),
    ("X12", "warn", "a fact's source or step changed without facts_modified", _FACT,
     "list it in facts_modified of your entry"),
    ("X13", "error", "a confidence was raised without facts_modified", _SPREAD,
     "add a new fact with evidence of its own"),
    ("X14", "warn", "a confidence was raised; the effective one stays capped", "Propagation rule / Ex.1",
     "add a new fact with evidence of its own"),
    ("X15", "info", "a confidence was lowered", _CONF, "nothing to do: that is how doubt is passed on"),
    # acks
    ("A01", "error", "the ack names another chain", _ACK, "repeat the chain's id"),
    ("A02", "warn", "the ack's step is neither the document's nor the next", _ACK,
     "write the document's step, or yours"),
    ("A03", "error", "the ack is not of the agent that was addressed", _ACK, "only the target acknowledges"),
    ("A04", "error", "a critical fact was not loaded", _ACK, "load every critical fact before acting"),
    ("A05", "error", "facts_loaded names a fact that was not sent", _ACK, "list only facts of the document"),
    ("A06", "warn", "a flagged fact is missing from confidence_concerns", _ACK,
     "list every critical fact below 0.70, even if the value went down on an earlier hop"),
    ("A07", "warn", "an unknown status", _ACK, "write received"),
    ("A08", "error", "a field of the ack is missing", _ACK, "an ack has chain_id, step, agent and status"),
    # post-mortems
    ("D01", "error", "failed_at_step names no entry of the trace", _EX3,
     "name the step of the entry that failed"),
    ("D02", "warn", "FAILED without failed_at_step", _EX3, "say which step failed"),
    ("D03", "warn", "the failed entry has no error", _DEBUG, "log the error with its whole context"),
    ("D04", "error", "facts_at_failure has a fact that had not been added by then", _DEBUG,
     "list the facts that were known when the step failed"),
    ("D05", "warn", "facts_at_failure leaves out facts known by then", _DEBUG, "list all of them"),
    ("D06", "info", "facts_at_failure names facts that are not in the registry", _EX3,
     "carry them where the reader needs them"),
    ("D07", "warn", "FAILED without an analysis", _DEBUG, "add root_cause and recommendation"),
    ("D08", "warn", "an entry has an error, but the status is not FAILED", _EX3, "write status: FAILED"),
    ("D09", "info", "an entry without duration_ms in a post-mortem", _DEBUG, "say how long each step took"),
)  # fmt: skip

RULES: dict[str, Rule] = {row[0]: Rule(row[0], Level(row[1]), *row[2:]) for row in _TABLE}
"""Every rule by its id."""
