"""The entry point of `callsheet`: the table of commands. Imports nothing but click."""

from __future__ import annotations

import click

from callsheet import __version__
from callsheet.apps.cli.group import Entry, LazyGroup

_HERE = "callsheet.apps.cli"
_PLANS, _RUNS, _MORE = "Plans", "Runs", "More"

COMMANDS: dict[str, Entry] = {
    "compile": Entry(f"{_HERE}.compile:compile_goal", "Make a plan for a goal.", _PLANS),
    "chat": Entry(f"{_HERE}.chat:chat", "Talk with a model that calls tools and makes plans.", _PLANS),
    "check": Entry(f"{_HERE}.check:check", "Say what is wrong with plans.", _PLANS),
    "fmt": Entry(f"{_HERE}.fmt:fmt", "Write plans in their canonical form.", _PLANS),
    "graph": Entry(f"{_HERE}.graph:graph", "Draw a plan.", _PLANS),
    "explain-schedule": Entry(
        f"{_HERE}.explain_schedule:explain_schedule", "Say what each step of a plan waits for.", _PLANS
    ),
    "compare-react": Entry(
        f"{_HERE}.compare_react:compare_react", "Reach a goal as a plan and as a ReAct loop.", _PLANS
    ),
    "plan": Entry(f"{_HERE}.plan.group:plan", "Make, keep, run and compare plans: plan create.", _PLANS),
    "save": Entry(f"{_HERE}.plan.keep:save", "Put a plan into the plan library.", _PLANS),
    "verify": Entry(f"{_HERE}.verify:verify", "Prove plans against a policy.", _PLANS),
    "explain-policy": Entry(
        f"{_HERE}.verify:explain_policy", "Say whose data each step takes and gives.", _PLANS
    ),
    "policy": Entry(f"{_HERE}.policy.group:policy", "Say what plans may do: policy init.", _PLANS),
    "run": Entry(f"{_HERE}.run:run", "Check a plan and run it on real tools.", _RUNS),
    "dry-run": Entry(f"{_HERE}.dry_run:dry_run", "Say what a plan would do, and do nothing.", _RUNS),
    "resume": Entry(f"{_HERE}.resume:resume", "Carry on a run where its journal ends.", _RUNS),
    "decide": Entry(f"{_HERE}.decide:decide", "Decide about calls that gave no answer.", _RUNS),
    "cancel": Entry(f"{_HERE}.cancel:cancel", "End a run for good.", _RUNS),
    "inbox": Entry(f"{_HERE}.inbox:inbox", "List what runs wait for from people.", _RUNS),
    "approve": Entry(f"{_HERE}.approve:approve", "Answer what a run asks: yes, no, or a value.", _RUNS),
    "runs": Entry(f"{_HERE}.runs:runs", "List the runs, the newest first.", _RUNS),
    "show": Entry(f"{_HERE}.show:show", "Tell what happened in a run.", _RUNS),
    "tail": Entry(f"{_HERE}.tail:tail", "Print the events of a run as they come.", _RUNS),
    "top": Entry(f"{_HERE}.top:top", "Watch a run while it goes.", _RUNS),
    "search": Entry(f"{_HERE}.search:search", "Find a text in what runs have handled.", _RUNS),
    "why": Entry(f"{_HERE}.asking.why:why", "Say what a value of a run was made of.", _RUNS),
    "at": Entry(f"{_HERE}.asking.at:at", "Show a run as it was after one of its events.", _RUNS),
    "diff": Entry(f"{_HERE}.asking.diff:diff_of_runs", "Say where two runs first part, and why.", _RUNS),
    "blame": Entry(
        f"{_HERE}.asking.blame:blame", "Say where a run failed, and what likely led to it.", _RUNS
    ),
    "debug": Entry(f"{_HERE}.debugger.command:debug", "Look at a run step by step, with keys.", _RUNS),
    "trace": Entry(f"{_HERE}.trace.group:trace", "Give runs to tools that show traces: trace export.", _RUNS),
    "playback": Entry(f"{_HERE}.travel.playback:playback", "Show a run as it went; nothing is run.", _RUNS),
    "rerun": Entry(f"{_HERE}.travel.rerun:rerun", "Run a plan again from a step, as a new run.", _RUNS),
    "fork": Entry(
        f"{_HERE}.travel.fork:fork", "Go on from an event in a new run, with something edited.", _RUNS
    ),
    "report": Entry(f"{_HERE}.report:report", "Write a run as one HTML file.", _RUNS),
    "serve": Entry(f"{_HERE}.serve:serve", "Serve the HTTP API and the web viewer.", _RUNS),
    "lctl": Entry(f"{_HERE}.lctl.group:lctl", "Check and draw what agents hand to one another.", _RUNS),
    "worker": Entry(f"{_HERE}.engines.worker:worker", "Carry runs on for a Temporal server.", _RUNS),
    "blobs": Entry(
        f"{_HERE}.engines.blobs:blobs", "Let go of large values of runs on Temporal: blobs prune.", _RUNS
    ),
    "labels": Entry(
        f"{_HERE}.labels.group:labels", "Say whose data runs have left in files and facts.", _MORE
    ),
    "tools": Entry(f"{_HERE}.tools:tools", "List the tools that a plan can call.", _MORE),
    "trust": Entry(f"{_HERE}.trust.group:trust", "Say which tools of MCP servers are trusted.", _MORE),
    "login": Entry(f"{_HERE}.login:login", "Log in to an MCP server that asks for it.", _MORE),
    "logout": Entry(f"{_HERE}.login:logout", "Forget the login with an MCP server.", _MORE),
    "models": Entry(f"{_HERE}.models.group:models", "Fetch models that run on this machine.", _MORE),
    "mcp": Entry(f"{_HERE}.mcp:mcp", "Serve callsheet to MCP clients: stdio or HTTP.", _MORE),
    "doctor": Entry(f"{_HERE}.doctor:doctor", "Look whether everything needed is in order.", _MORE),
    "demo": Entry(f"{_HERE}.demo:demo", "See it work on real MCP servers.", _MORE),
    "lsp": Entry(f"{_HERE}.lsp:lsp", "Answer an editor: plans as you write them.", _MORE),
    "explain": Entry(f"{_HERE}.explain:explain", "Explain a diagnostic code.", _MORE),
    "schema": Entry(f"{_HERE}.schema:schema", "Print the JSON Schema of JSON plans.", _MORE),
    "completion": Entry(f"{_HERE}.completion:completion", "Print the completion script of a shell.", _MORE),
}


@click.group(
    "callsheet", cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="callsheet", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of a bug.")
def main(debug: bool) -> None:
    """Plans of tool calls: check them, run them, resume them after a crash, see what happened."""
    del debug  # the group looks for it on the command line, also where a command line cannot be read
