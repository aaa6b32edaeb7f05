"""With any rule of the analysis disabled or weakened, some plan of the corpus gets a wrong verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.compiled import looks_inside
from tests.passes.verify.held import Held, held, seen

from callsheet.ir import Literal, Step
from callsheet.ir.flow import Flow
from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label
from callsheet.passes.verify import (
    analysis,
    call_views,
    dependencies,
    flow_paths,
    labels,
    outcome,
    persisted_labels,
    places,
    scripts,
    subject,
    values,
    verdict,
)
from callsheet.passes.verify.call_views import ViewContext
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.subject import Reading, Subject
from callsheet.policy import addresses as policy_addresses
from callsheet.policy import (
    audiences,
    builtins,
    composing,
    judge,
    links,
    paths,
    prepared,
    programs,
    runnable,
    sources,
    urls,
)
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.judge import Judge
from callsheet.policy.rules import (
    RULES,
    addresses,
    agent,
    answers,
    attachments,
    base,
    control,
    files,
    names,
    opened_files,
    receivers,
)

pytestmark = looks_inside

Patch = tuple[object, str, Any]


def off(*_: Any, **__: Any) -> Any:
    return iter(())


def nothing(*_: Any, **__: Any) -> None:
    return None


def no(*_: Any, **__: Any) -> bool:
    return False


def yes(*_: Any, **__: Any) -> bool:
    return True


def with_each_file(tool: str, traits: Any, call: CallView, seen: Any) -> places.Access:
    return places.Access((places.ALL_FILES,)) if tool == "SEARCH_FILES" else ACCESS(tool, traits, call, seen)


def without_dead_steps(flow: Flow, *given: Any) -> Flow:
    return flow if given else EMPTY_ANSWERS(flow)


def sees_everything(*_: Any) -> programs.View:
    return programs.View()


def sees_nothing(*_: Any) -> programs.View:
    return programs.View(())


def sends_nothing(traits: Any, view: programs.View) -> places.Access:
    return OF_PROGRAM(traits, view)._replace(sent=())


def goes_on(step: Step) -> bool:
    return not step.after_failure.leaves


def never(*_: Any, **__: Any) -> Label:
    return LITERAL


def without_rule(index: int) -> list[Patch]:
    """The judge without one of its rules."""
    made = Judge.__init__
    rules = RULES[:index] + RULES[index + 1 :]
    return [(Judge, "__init__", lambda self, policy: made(self, policy, rules))]


def straight(of: Callable[[Any], Flow]) -> Callable[[Any], Flow]:
    """A flow that only leads from each step to the next."""

    def flow_of(plan: Any) -> Flow:
        found = of(plan)
        count = len(plan.steps)
        following = [[n + 1] for n in range(count)] + [[], [0]]
        before: list[list[int]] = [[] for _ in following]
        for node, nodes in enumerate(following):
            for other in nodes:
                before[other].append(node)
        return replace(found, successors=following, predecessors=before)

    return flow_of


def last_writer_wins(self: Any, end: int, pushed: list[str]) -> None:
    for member in self._members(end):
        for made, write in enumerate(self.writes[member], self.web.made[member]):
            self._push(write.name, made, pushed)


def always_sure(*arguments: Any) -> Any:
    return [write._replace(sure=True) for write in WRITES(*arguments)]


def result_without(change: Callable[[Any, int, Label], Label]) -> Any:
    return lambda self, number, way: change(self, number, RESULT(self, number, way))


def lowered_by_cast(self: Any, number: int, label: Label) -> Label:
    output = self.labels.subject.plan.steps[number].output
    return LITERAL if output is not None and output.cast is not None else label


def lowered_by_composing(self: Any, number: int, label: Label) -> Label:
    subject_ = self.labels.subject
    traits = subject_.judge.traits(call_views.tool_of(subject_.plan.steps[number]))
    return LITERAL if traits is not None and traits.composes else label


def composing_nothing(rule: Any) -> Any:
    return replace(DECLARED(rule), composes=False)


def trusted_by_declassifying(self: Any, number: int, label: Label) -> Label:
    subject_ = self.labels.subject
    return LITERAL if subject_.plan.steps[number].id in subject_.judge.policy.declassify else label


def counts_without(part: str) -> Any:
    def counts(self: Labels, step: int) -> bool:
        strict = self.subject.judge.policy.implicit.value == "strict" and part != "strict"
        return strict or (bool(self.subject.control.in_cycle[step]) and part != "cycle")

    return counts


def contains_trusted(self: Any, host: str) -> frozenset[str]:
    return frozenset({TRUSTED}) if "api.internal" in host or "corp.example" in host else frozenset()


def anywhere(argument: Any) -> Any:
    """The host anywhere in the address, as a careless pattern finds it."""
    text = "".join(part if isinstance(part, str) else (part.text or urls.MARK) for part in argument.parts)
    host = "api.internal" if "api.internal" in text else AUTHORITY(argument).host
    return AUTHORITY(argument)._replace(host=host, error=None)


def only_named(setting: Any, traits: Any, call: CallView) -> Any:
    short = CallView(
        call.step, call.tool, tuple(a for a in call.arguments if a.name == traits.audience), call.pc
    )
    return RECIPIENTS(setting, traits, short)


def first_recipient(self: Any, text: str, trusted: Any) -> Any:
    return OF_RECIPIENTS(self, text, trusted)[:1]


def raw_path(call: CallView, name: str) -> str | None:
    argument = call.argument(name)
    return None if argument is None else argument.text


def known_paths_only(*arguments: Any) -> Any:
    access = ACCESS(*arguments)
    return access._replace(reads=tuple(read for read in access.reads if read != places.SOME_FILE))


def one_reading(text: str) -> list[str]:
    return [text]


def covers_subtree(pattern: str, path: str) -> bool:
    return not pattern.endswith(f"{path}/**") and paths.covers(pattern, path)


def covers_exactly(pattern: str, path: str) -> bool:
    return paths.matches(pattern, path)


def never_matches() -> re.Pattern[str]:
    return re.compile(r"(?!)")


def bit_per_jump(found: Labels) -> int:
    return sum(step.on_fail is not None for step in found.subject.plan.steps)


def by_jump_only(self: Any, number: int) -> bool:
    on_fail = self.plan.steps[number].on_fail
    return on_fail is not None and on_fail.then is not None


def first_end(self: Any, number: int, decision: Label) -> list[int]:
    return [] if decision in self._known else CUT_OFF(self, number, decision)


def no_waiting(plan: Any) -> Any:
    count = len(plan.steps)
    return dependencies.GraphDependencies([()] * count, [()] * count)


def one_note(tool: str, _: Any) -> places.Access:
    return places.Access((), (places.ALL_NOTES,)) if tool == "SET_WM" else places.Access((places.ALL_NOTES,))


def all_emptiness(condition: Any) -> tuple[list[Any], list[Any]]:
    return [], [part for parts in TESTS(condition) for part in parts]


def all_contents(condition: Any) -> tuple[list[Any], list[Any]]:
    return [part for parts in TESTS(condition) for part in parts], []


def literals_are_trusted(self: Any, label_of: Any) -> Any:
    return SURROUNDINGS(self, label_of)._replace(planner=LITERAL)


def earlier_steps(_labels: Labels, file: Any, number: int) -> bool:
    return file.step is None or file.step < number


def without_path(self: Any, ref: Any) -> Any:
    return None if ref.path else self.constants.get(ref.name)


def only_literals(step: Any, _: Any) -> Literal | None:
    (value,) = step.values()
    return value if isinstance(value, Literal) else None


def chosen(call: CallView) -> Label:
    return judge.join(
        Label(False, a.label.readers) for a in (call.argument("options"), call.argument("schema")) if a
    )


def unasked(call: CallView) -> Label:
    return judge.join(a.label for a in (call.argument("default"), call.argument("timeout")) if a)


def code_alone() -> dict[str, Any]:
    names = builtins.BUILTINS
    return {**names, "EXEC_CODE": replace(names["EXEC_CODE"], control=("code", "language"))}


def packages_alone() -> dict[str, Any]:
    names = builtins.BUILTINS
    return {**names, "INSTALL_PKG": replace(names["INSTALL_PKG"], control=("language", "packages"))}


def agents_without_processes(tools: frozenset[str]) -> places.Access:
    return OF_AGENT(tools - places.CODE)


def two_slashes() -> re.Pattern[str]:
    return re.compile(r"(?:[a-z][a-z0-9+.-]*://|(?<![:\w/])//|www\.|mailto:|data:)[^\s<>\"'`]*\Z", re.I)


def latin_ends() -> re.Pattern[str]:
    return re.compile(r"(?<![\w@./-])(?:[\w-]+\.)+[a-z]{2,}/\S*\Z")


def reached(of: Any) -> Iterator[int]:
    return (number for number in range(len(of.plan.steps)) if of.is_reached[number])


def one_value(subject_: Subject, number: int) -> range:
    return MADE(subject_, number)[:0]


DECLARED: Any = builtins._declared
NAMED: Any = files._named
RESULT: Any = labels._Propagation._result
WRITES: Any = subject._writes
AUTHORITY: Any = urls.authority_of
MADE: Any = dependencies.made_by
RECIPIENTS: Any = receivers._recipients
OF_RECIPIENTS: Any = audiences.Audiences.of_recipients
ACCESS: Any = places._access
OF_PROGRAM: Any = places._of_program
EMPTY_ANSWERS: Any = subject._with_empty_answers
OF_AGENT: Any = places._of_agent
TESTS: Any = subject.tests_of
SURROUNDINGS: Any = Subject.surroundings
CUT_OFF: Any = dependencies.GraphDependencies.cut_off

MUTANTS: dict[str, list[Patch]] = {
    **{
        f"without the rule of {rule.__module__.rpartition('.')[2]}": without_rule(index)
        for index, rule in enumerate(RULES)
    },
    "the value that a plan ends with is no answer": [(analysis, "last_values", off)],
    "guards are not looked at": [(Labels, "guard", never)],
    "jumps decide nothing": [(Labels, "decision", never)],
    "failures in a graph decide nothing": [(Subject, "leads_by_failure", by_jump_only)],
    "the end of a graph decides nothing": [(dependencies.GraphDependencies, "cut_off", lambda *_: ())],
    "one end of a graph of a label is looked at": [(dependencies.GraphDependencies, "cut_off", first_end)],
    "what waits in a graph is not told": [(labels, "waiting_of", no_waiting)],
    "what decides is forgotten on the way": [(labels._Propagation, "_decide", nothing)],
    "the way to a call does not count": [(Labels, "pc", never)],
    "one bit never counts": [(Labels, "counts", no)],
    "one bit always counts": [(Labels, "counts", yes)],
    "one bit does not count in a circle": [(Labels, "counts", counts_without("cycle"))],
    "one bit does not count in a strict policy": [(Labels, "counts", counts_without("strict"))],
    "a circle that may not end tells nothing": [(labels._Propagation, "_delay", nothing)],
    "what content has set tells nothing by being there": [(labels._Propagation, "_present", never)],
    "the way to a message of failure does not count": [(Labels, "failure_pc", never)],
    "a cast lowers": [(labels._Propagation, "_result", result_without(lowered_by_cast))],
    "a model lowers": [(labels._Propagation, "_result", result_without(lowered_by_composing))],
    "declassifying trusts": [(labels._Propagation, "_result", result_without(trusted_by_declassifying))],
    "every result is private": [(labels._Propagation, "_result", lambda *_: UNKNOWN)],
    "the world adds nothing": [(labels._Propagation, "_source", never)],
    "what is stored is public": [(labels._Propagation, "_stored", never)],
    "unknown hosts are looked at too early": [(labels._Propagation, "_settle", nothing)],
    "files and memory forget": [(subject, "access_of", lambda *_: places.NOTHING)],
    "a path is its spelling": [(places, "_path", raw_path)],
    "a file at an unknown path is no other": [(places, "_access", known_paths_only)],
    "two writers leave the last value": [(values._Linking, "_write", last_writer_wins)],
    "members of a block do not see each other's files": [(values._Linking, "_stored_by", lambda *_: {})],
    "a guarded value replaces the old one": [(subject, "_writes", always_sure)],
    "the order of the text is that of the run": [(subject, "flow_of", straight(subject.flow_of))],
    "lists in the plan are not looked into": [(call_views, "_items", lambda *_: [{}])],
    "fields of what is written are unknown": [(ViewContext, "known", without_path)],
    "items beside data are all that there is": [(call_views, "_NO_ITEMS", ())],
    "initial values are unknown": [(subject, "_initial", lambda *_: {})],
    "trusted hosts are found anywhere in a name": [(audiences.Audiences, "_of_host", contains_trusted)],
    "trusted hosts are found anywhere in an address": [
        (receivers, "authority_of", anywhere),
        (addresses, "authority_of", anywhere),
        (judge, "authority_of", anywhere),
    ],
    "only the first recipient counts": [(audiences.Audiences, "of_recipients", first_recipient)],
    "copies do not count": [(receivers, "_recipients", only_named)],
    "names of inside are not known": [(addresses, "inside", nothing)],
    "parts of addresses are not looked at": [(addresses, "_refusal_of_pieces", nothing)],
    "an encoded path is taken as it is": [
        (paths, "_readings", one_reading),
        (paths, "workspace_path", paths.workspace_path.__wrapped__),
    ],
    "a file is another by each spelling of its path": [(places, "file_key", str.casefold)],
    "a file has the label of its path as it is written": [(sources, "readings_of", lambda path: (path,))],
    "secrets are found by their exact names": [("callsheet.policy.sources", "covers", covers_exactly)],
    "nothing is executable": [(files, "is_executable", no)],
    "an unknown end is not executable": [(files, "_unknown_end", nothing)],
    "programs run no file": [(analysis, "untrusted_scripts", off)],
    "programs run only what an earlier run has left": [(scripts, "_may_run", no)],
    "programs run files wherever they are": [(scripts, "_overlap", yes)],
    "copies are where nothing was": [(scripts, "_overlap", no)],
    "no program is given a script's input": [(scripts, "_SCRIPT", never_matches())],
    "every program is a script": [(scripts, "_SCRIPT", re.compile(r".*", re.DOTALL))],
    "every program executes": [(scripts, "executes_nothing", no)],
    "no program executes": [(scripts, "executes_nothing", yes)],
    "what is declared may be executed": [(scripts, "seen_by", sees_everything)],
    "such tools copy nothing that is run": [(scripts, "_copied", off)],
    "programs see the workspace whatever they declare": [(subject, "seen_by", sees_everything)],
    "programs see nothing whatever they say": [(subject, "seen_by", sees_nothing)],
    "what is declared has no label": [(opened_files, "_of_declared", never)],
    "the workspace has no label": [(opened_files, "_of_whole", never)],
    "secrets may be mentioned": [(opened_files, "_mentioned", never)],
    "all that is mentioned is secret": [(opened_files, "_of_word", lambda *_: Label(True, frozenset()))],
    "programs with a network send no file": [(places, "_of_program", sends_nothing)],
    "programs write where nothing is executed": [(scripts, "is_executable_anywhere", no)],
    "programs write where all is executed": [(scripts, "is_executable_anywhere", yes)],
    "what is written later is run before": [(scripts, "_comes_before", yes)],
    "what is written before comes first": [(scripts, "_comes_before", earlier_steps)],
    "everything is executable": [(files, "may_be_executed", yes)],
    **{
        f"links of the kind {name} are not seen": [(links, name, never_matches())]
        for name in ("_BARE", "_MARKDOWN", "_TAG", "_DOMAIN", "_GLUED", "_OPEN_TAG")
    },
    "scripts and forms read nothing": [(answers, "_reads_what_is_shown", no)],
    **{
        f"what reads a page is not seen by {name}": [(links, name, never_matches())]
        for name in (
            *("_ACTIVE_TAG", "_QUOTED_TAG", "_HANDLER", "_REFRESH", "_ELSEWHERE"),
            *("_STYLE_LOADS", "_SCRIPT_ADDRESS", "_LEFT_OUT", "_NAMED_TAG"),
        )
    },
    "nothing is fetched beside an answer": [(links, "_FETCHED", frozenset[str]())],
    "what is spoken of is never run": [(links, "_runs_spans", no)],
    "attributes have no entities": [(links, "unescape", str)],
    "texts are read as they are written": [(links, "as_read", lambda text: text)],
    "full stops part no hosts": [(links, "_OTHER_DOT", never_matches())],
    "tools make no scripts": [(composing, "is_active", no)],
    "only two slashes make an address": [(links, "_BARE", two_slashes())],
    "ends of hosts are Latin letters": [(links, "_DOMAIN", latin_ends())],
    "images tell nothing": [(answers, "leaks_through_image", no)],
    "links that are put together are not seen": [(Judge, "makes_links", no)],
    "links in files are not seen": [(Judge, "links_data", no)],
    "every call has a key": [(control, "has_key", yes)],
    "shells have one name": [(names, "is_shell", lambda language: language == "shell")],
    "names are taken as they stand": [(prepared, "fold", lambda name: name.removeprefix("@").upper())],
    "agents may have any number of turns": [(agent, "_numbers", nothing)],
    "agents may have any tool": [(agent, "_refusals", off)],
    "agents may have everything at once": [(agent, "_together", nothing)],
    "letters have one form": [(names, "_plain", lambda text: text)],
    "errors of the ordinary checks do not count": [(verdict, "_errors", off), (verdict, "_endless", off)],
    "control flow may stand in blocks": [(verdict, "_blocks", off)],
    "arguments may be given twice": [(verdict, "_twice", off)],
    "plans may be of any length": [(verdict, "_limits", off)],
    "what nobody answers is a person's answer": [(judge, "offered", chosen), (labels, "offered", chosen)],
    "what is chosen is the person's own": [(judge, "offered", unasked), (labels, "offered", unasked)],
    "queries put nothing together": [(composing, "puts_together", no)],
    "tools repeat nothing": [(composing, "links_data", no)],
    "tools of the operator put nothing together": [(builtins, "_declared", composing_nothing)],
    "addresses are not looked into": [(composing, "beyond_host", lambda call, _: call)],
    "what an address says is not decoded": [(composing, "unquote", str)],
    "what a query compares with comes out of it": [(composing, "texts_given", str)],
    "images in programs are not seen": [(composing, "images", no)],
    "addresses have one of two schemes": [(links, "_NAMED_HOST", re.compile(r"\bhttps?://(?:[\w-]+\.)+[\w-]+"))],
    "hosts are spoken of with their scheme alone": [(composing, "hosts_spoken", links.hosts_named)],
    "who is told by a host without its scheme is not seen": [(links, "_SPOKEN_HOST", never_matches())],
    "what begins with two slashes is not seen": [(links, "_SLASHED_HOST", never_matches())],
    "every text is spoken": [(composing, "hosts_named", links.hosts_spoken)],
    "commas in quotes part recipients": [(audiences, "_QUOTED", never_matches())],
    "members of lists stand apart": [(answers, "_is_open", no)],
    "parts of one value may be an address": [(links, "_goes_on", no)],
    "members decide nothing": [(control, "_deciding_anywhere", base.controlling)],
    "recipients decide nothing": [(control, "names_recipients", no)],
    "files that go along decide nothing": [(control, "surely_attached", off)],
    "webhooks are told nothing": [(receivers, "_TOLD_BESIDE", never_matches())],
    "files elsewhere on a machine are executed": [(files, "is_executable_anywhere", runnable.is_executable)],
    "systems obey nothing": [(runnable, "_SYSTEM_SET", frozenset[str]())],
    "repositories are in the workspace": [(attachments, "_REPOSITORIES", ())],
    "all files beside a repository are in it": [(attachments, "_IN_REPOSITORIES", attachments.NAMES)],
    "flags are recipients": [(receivers, "_TELLS", frozenset[str]())],
    "requests in a call are not looked into": [(files, "_requests", lambda arguments: [arguments])],
    "files are named by names alone": [(files, "_IN_ORDER", frozenset[str]())],
    "no title names a file": [(files, "TITLES", frozenset[str]())],
    "every title names a file": [(files, "_is_file", yes)],
    "what is fetched is of the plan": [(files, "_fetched", lambda _: ())],
    "files of people are of tools": [(attachments, "_OF_PEOPLE", never_matches())],
    "what is moved from elsewhere is public": [(files, "label_of", nothing), (files, "UNKNOWN", LITERAL)],
    "a list in a variable is not known": [(call_views, "_labelled", lambda *_: Argument("x", (), UNKNOWN))],
    "fields of recipients are recipients": [(receivers, "_named_in", base.leaves)],
    "what describes a recipient is one": [(receivers, "_DESCRIBES", frozenset[str]())],
    "copies to nobody are to somebody": [(receivers, "_is_empty", no)],
    "an address with data has no host": [(receivers, "_is_web_address", no)],
    "tools of the operator read no secret": [(judge, "secret_in", nothing)],
    "what is done again leaves something": [(control, "_leaves_nothing", no)],
    "what is done again leaves nothing": [(control, "_leaves_nothing", yes)],
    "every word beside recipients is an address": [(receivers, "_BEGINS_AS_ADDRESS", re.compile(""))],
    "headers that are not known name nobody": [(receivers, "_HEADERS", never_matches())],
    "only attachments are files": [(attachments, "PATHS", frozenset[str]())],
    "a file of a dict is all that stands in it": [(attachments, "pairs", nothing)],
    "every name beside a content is a path": [(attachments, "_CONTENTS", frozenset[str]())],
    "of a path that is known in part nothing is known": [(attachments, "_LEADS_IN", never_matches())],
    "files go along as the policy says": [(places, "_of_attachments", lambda _: places.NOTHING)],
    "what is read is not sent": [(Labels, "_sent", never)],
    "agents have all that the policy gives": [(places, "_tools_of", lambda _, given: given)],
    "host commands touch no file": [(persisted_labels, "CODE", places.CODE - {"HOST_EXEC"})],
    "edits put nothing together": [(persisted_labels, "edited", lambda data, *_: data)],
    "all edits put something together": [(composing, "_names_address", yes)],
    "looks at the host see no file": [(places, "_seen", lambda _: places.NOTHING)],
    "looks at the host see the workspace alone": [(places, "names_within", lambda path: (path,))],
    "looks at the host see every file": [(places, "_seen", lambda _: places.Access((places.ALL_FILES,)))],
    "host commands only look": [(places, "only_looks", yes)],
    "no host command only looks": [(places, "only_looks", no)],
    "addresses come by no variable": [(labels, "steps_with_untrusted_addresses", lambda _: [])],
    "all that is said here names strangers": [(dependencies, "_names_stranger", yes)],
    "images come by no variable": [(analysis, "image_objections", off)],
    "no image begins with a variable": [(flow_paths, "_completes_image", no)],
    "all that is shown beside an address is an image": [(flow_paths, "images", yes)],
    "images name their addresses where they stand": [(links, "_DEFINED", never_matches())],
    "what is looked up is there or not": [(labels, "_LOOKING_UP", frozenset[str]())],
    "every value may begin an image": [(flow_paths, "_begins_image", yes)],
    "every value may be an image": [(flow_paths, "_names_image", yes)],
    "images stay where they are named": [(dependencies, "made_by", one_value)],
    "programs open no file": [(judge, "opened_by", lambda *_: LITERAL)],
    "a network takes no file along": [(opened_files, "opened_by", lambda *_: LITERAL)],
    "a folder is no more than its name": [(sources, "covers", covers_subtree)],
    "mail addresses name nobody": [(receivers, "_by_mail", off)],
    "names like that of the recipients name nobody": [(receivers, "_is_like", no)],
    "messages name whom mail addresses say": [(receivers, "_OF_SENDERS", never_matches())],
    "requests of such tools are not led on": [(receivers, "_other_hosts", off)],
    "files go along under few names": [(attachments, "_ALONG", frozenset[str]())],
    "secrets elsewhere may go along": [(attachments, "_secret_outside", nothing)],
    "what is copied into a folder is not in it": [(files.FileAccess, "in_folders", off)],
    "a folder that is named alone is none": [(files, "_named", lambda call, names, **_: NAMED(call, names))],
    "hidden files say nothing": [(runnable, "_HIDDEN", never_matches())],
    "hidden folders say nothing": [(runnable, "_is_of_programs", runnable._FOLDERS_SET.__contains__)],
    "all that is hidden is executed": [(runnable, "_HIDDEN", re.compile(r"\..*"))],
    "bodies of requests name recipients": [(receivers, "in_bodies", lambda *_: frozenset())],
    "bodies of requests decide who gets them": [(control, "in_bodies", lambda *_: frozenset())],
    "addresses for protocols are outside": [(policy_addresses, "_PROTOCOLS", ip_network("192.0.2.0/24"))],
    "tools of an operator keep no files": [(subject, "keeps_files", no)],
    "what such tools keep may be executed": [(files, "keeps_files", no)],
    "what such tools keep is read by no program": [(scripts, "_filing", off)],
    "what such tools move is public": [(persisted_labels, "moved", lambda *_: LITERAL)],
    "what such tools move is what it was": [(persisted_labels, "keeps_files", no)],
    "every target is a path": [(files, "_may_be_path", yes)],
    "handles are no names": [(audiences, "_PLAIN", re.compile(r"[\w#./+-]+", re.ASCII))],
    "headers name nobody": [(receivers, "_members", lambda arguments, *_: iter(arguments))],
    "headers are no names": [(receivers, "plain_name", lambda name: name.casefold())],
    "camel case is no name": [(receivers, "_HUMP", never_matches())],
    "recipients have the policy's name alone": [(receivers, "_RECIPIENTS", never_matches())],
    "messages name nothing that is opened": [(answers, "links_data", no)],
    "one address ends where the next one begins": [(links, "_ENDING", never_matches())],
    "images in messages tell nothing": [(answers, "leaks_through_image", no)],
    "headers hold one line": [(receivers, "_INJECTED", never_matches())],
    "what is said in prose is a header": [(receivers, "PROSE", frozenset())],
    "a request goes to its address alone": [(receivers, "_other_hosts", off)],
    "what leads a request on has a scheme": [(receivers, "_OTHER_ADDRESS", never_matches())],
    "only names lead a request on": [(receivers, "_BEGINS_AS_ADDRESS", never_matches())],
    "owners of repositories are strangers": [(audiences, "_PLAIN", re.compile(r"[\w#.+-]+", re.ASCII))],
    "repositories are texts": [(audiences, "_is_named", fnmatchcase)],
    "packages are their names alone": [(builtins, "BUILTINS", packages_alone())],
    "programs are code alone": [(builtins, "BUILTINS", code_alone())],
    "strangers choose among friends": [(addresses, "_chosen_among_trusted", no)],
    "what addresses begin with is not looked at": [(addresses, "_BEGINNINGS", never_matches())],
    "blanks lead into the workspace": [(paths, "_is_absolute", lambda path: path.startswith(("/", "~")))],
    "an address has one address in it": [(audiences, "_RELAYED", never_matches())],
    "any number of bits may be told": [(analysis, "leaked_bits", lambda _: 0)],
    "bits of emptiness are not counted": [(flow_paths, "_is_more", no)],
    "bits of failure are not counted": [(flow_paths, "is_shown", yes)],
    "every failure is a bit": [(analysis, "leaked_bits", bit_per_jump)],
    "an answer that is written ends a plan for sure": [(subject, "_with_empty_answers", lambda flow_: flow_)],
    "messages of failures are not looked at": [(analysis, "failure_view", nothing)],
    "an error in a message is public": [(Labels, "label_of", lambda self, n, name: self.seen(n, (name,)))],
    "agents touch no file and no memory": [(places, "_of_agent", lambda _: places.NOTHING)],
    "programs of agents touch no file": [(places, "_of_agent", agents_without_processes)],
    "programs copy nothing": [(persisted_labels, "CODE", frozenset())],
    "programs touch no file": [(places, "_OF_CODE", places.NOTHING)],
    "each answer may be empty": [(subject, "_with_empty_answers", lambda flow, *_: EMPTY_ANSWERS(flow))],
    "answers that say something end each plan": [(subject, "_with_empty_answers", without_dead_steps)],
    "a search sees no folder": [(places, "_around", lambda _: [])],
    "each search sees each file": [(places, "_access", with_each_file)],
    "a variable may keep its value where the plan ends": [(subject, "_sets_or_ends", goes_on)],
    "notes forget": [(places, "_of_notes", lambda *_: places.NOTHING)],
    "notes are all one": [(places, "_of_notes", one_note)],
    "what was there before is public": [(labels._Propagation, "_entries", nothing)],
    "what may be an address is shown": [(labels._Propagation, "_as_link", lambda *given: given[-1])],
    "items are not what they come from": [(Labels, "items", never)],
    "items are what they come from and no more": [(Judge, "of_items", lambda _, source: source.label)],
    "the planner says no items": [(outcome, "written_source", nothing)],
    "items are there whatever they come from": [(Reading, "outer", lambda _, names: names)],
    "all conditions ask for emptiness": [(subject, "tests_of", all_emptiness)],
    "all conditions ask for content": [(subject, "tests_of", all_contents)],
    "what the planner says is trusted": [(Subject, "surroundings", literals_are_trusted)],
    "a block is entered at its beginning": [(subject, "_entered_groups", lambda _: frozenset())],
    "a text without data is not known": [(subject, "_formats", lambda *_: {})],
    "a text made of known texts is not known": [(subject, "_text", only_literals)],
    "a text is known before it is set": [(subject, "_too_late", lambda *_: set())],
    "a graph reads nothing": [(values, "_all_at_once", nothing)],
    "the order of a plan is not looked at": [(values, "_joins", nothing)],
    "what nothing leads to is not looked at": [(analysis, "_left", reached)],
    "empty answers tell no bit": [(flow_paths, "Ending", type("Nothing", (), {"ANSWER": object()}))],
    "errors of graphs are shown": [(analysis, "_withheld", off)],
    "nothing is retold": [(labels._Propagation, "_retells", no)],
    "what is retold keeps its links": [(Label, "retold", lambda self: self)],
    "what is retold is shown as it is": [(Label, "is_retold", False)],
    "a yes that is needed does not count": [(analysis, "_approvals", nothing)],
}  # fmt: skip


DETECTED = Path(__file__).with_name("detected.json")
"""For each mutant a case that showed it: that is tried first, so that most need two proofs and no corpus.

`python -m tests.passes.verify.test_mutants` writes it. Where it is out of date, all cases are tried.
"""


@cache
def cases() -> dict[str, Held]:
    """The corpus by name."""
    return {case.name: case for case in held()}


@cache
def sound(name: str) -> tuple[bool, frozenset[str]]:
    """The verdict of the complete analysis; to be asked while nothing is patched."""
    return seen(cases()[name])


def shows(name: str) -> bool:
    return seen(cases()[name]) != sound(name)


def forget() -> None:
    """Clear caches so that no result of a mutant is reused."""
    judges = judge._judge_of
    by_path = (paths.workspace_path, paths.host_path, runnable.is_executable, runnable._are_of_programs)
    by_name = (receivers.plain_name, receivers._is_recipient)
    for kept in (*by_path, *by_name, addresses.inside, judges):
        getattr(kept, "cache_clear", nothing)()


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The analysis with one rule of it disabled."""
    with pytest.MonkeyPatch.context() as patch:
        for place, attribute, replacement in MUTANTS[name]:
            if isinstance(place, str):
                patch.setattr(f"{place}.{attribute}", replacement)
            else:
                patch.setattr(place, attribute, replacement)
        forget()
        yield
    forget()


def detecting(name: str, known: str | None) -> str | None:
    """A case whose verdict a mutant changes, the known one if it still does; None if there is none."""
    if known in cases():
        sound(known)
        with mutated(name):
            if shows(known):
                return known
    for case in cases():
        sound(case)
    with mutated(name):
        return next(filter(shows, cases()), None)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_detected_by_corpus(name: str) -> None:
    assert detecting(name, json.loads(DETECTED.read_text()).get(name)) is not None


if __name__ == "__main__":
    DETECTED.write_text(json.dumps({name: detecting(name, None) for name in MUTANTS}, indent=1) + "\n")
