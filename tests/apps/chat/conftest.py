"""Fixtures for conversations: a user's machine, and a model with a few rules."""

from __future__ import annotations

import subprocess

import pytest

MODEL = '''
import json

PLAN = """PLAN_START
S1: @READ_FILE (path="notes.txt") > $v1
S2: @WRITE_FILE (path="report.md", content=$v1)
S3: @RESPOND ("written:", $v1)
PLAN_END"""


def act(**action):
    return json.dumps(action)


def model(messages):
    """Plans, where it is asked for one; else does what the message says, and tells what came of it."""
    rules, last = messages[0]["content"], messages[-1]["content"]
    asked = [each["content"] for each in messages if each["role"] == "user"]
    if "You write texts" in rules:
        return "you said " + last
    if "finish" not in rules:
        return PLAN
    if len(asked) > 1:
        return act(finish="came: " + " ".join(last.split()))
    if "Goal: read" in last:
        return act(tool="read_file", args={"path": "notes.txt"})
    if "Goal: note" in last:
        return act(tool="note", args={"line": "hello", "path": "seen.txt", "wait": 0.0})
    if "Goal: sleep" in last:
        return act(tool="note", args={"line": "zzz", "path": "asleep.txt", "wait": 60.0})
    if "Goal: report" in last:
        return act(tool="plan_create_and_execute", args={"goal": "report the notes"})
    return act(finish="you said " + " ".join(last.split())[-200:])
'''


@pytest.fixture
def talk(machine):
    """A conversation of these lines: the answers and all other output."""
    (machine.folder / "model.py").write_text(MODEL)
    (machine.folder / "notes.txt").write_text("noon")

    def talk(*lines, options=()):
        line = ("chat", "--model", "model.py:model", "--tools", "tools.py", *options)
        with machine.spawn(*line, stdin=subprocess.PIPE) as process:
            answers, rest = process.communicate("\n".join(lines), timeout=60)
        assert process.returncode == 0, rest
        return answers, rest

    return talk
