"""Runs command lines one by one in a process whose output is a terminal: `typed.py < LINES`.

LINES is JSON: a list of lists of words. Between two of them stands a line of its own, `=== NUMBER STATUS`.
"""

import json
import sys
from contextlib import suppress

from callsheet.apps.cli.main import main

for number, line in enumerate(json.loads(sys.stdin.read())):
    status = 0
    try:
        main(line, prog_name="callsheet")
    except SystemExit as ended:
        status = ended.code
    with suppress(OSError):
        sys.stderr.flush()
    print(f"\n=== {number} {status}", flush=True)
