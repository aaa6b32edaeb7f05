"""Judges a call under a policy: objections, required approvals, obligations, and the label of its result.

It serves both before a run, with holes, and during it, with known texts. Pure. A Judge is built once per
policy and prepares each tool when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from callsheet.ir.labels import LINKS, LITERAL, TRUSTED, USER, Label, join
from callsheet.policy.audiences import NOBODY_KNOWN
from callsheet.policy.builtins import PathUse, Reach, Traits, fold
from callsheet.policy.calls import Argument, CallView, Judgement, bare
from callsheet.policy.composing import makes_links, retells
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.model import Policy
from callsheet.policy.paths import PathRefused, host_path, workspace_path
from callsheet.policy.prepared import Prepared, prepare
from callsheet.policy.rules import RULES, Notes, Prepare, Setting, Verdicts
from callsheet.policy.rules.answers import is_message, links_data, read_in
from callsheet.policy.rules.attachments import NAMES, sends_files
from callsheet.policy.rules.base import BETWEEN, all_text, flowing, of_name
from callsheet.policy.rules.files import keeps_files, secret_in
from callsheet.policy.rules.opened_files import opened_by
from callsheet.policy.urls import authority_of, head_of


class Judge:
    """The rules under one policy. Raises ValueError for a policy with an invalid pattern or host."""

    def __init__(self, policy: Policy, rules: Sequence[Prepare] = RULES) -> None:
        self.policy = policy
        """The policy that calls are judged under."""
        self.setting = Setting(policy)
        self._rules = tuple(rules)
        self._declassify = policy.declassify
        self._prepared: dict[str, Prepared] = {}

    def judge(self, call: CallView) -> Judgement:
        """The judgement of a call; `links` is not computed.

        >>> from callsheet.policy.calls import Argument, bare
        >>> call = CallView("S1", "FETCH_PAGE", (Argument("url", ("http://localhost/",)),))
        >>> [objection.rule.value for objection in Judge(Policy()).judge(call).objections]
        ['address']
        """
        prepared = self.prepared(call.tool)
        result = self._result(prepared, call)
        if not prepared.checks:
            return bare(Judgement, ((), (), (), result, False))
        notes = Notes()
        for check in prepared.checks:
            check(call, notes)
        if notes.is_empty:
            return bare(Judgement, ((), (), (), result, False))
        return Judgement(tuple(notes.objections), tuple(notes.approvals), tuple(notes.obligations), result)

    def decide(self, call: CallView) -> Judgement:
        """The judgement of a call at run time: with `links`, but without obligations, which were met before
        the run.
        """
        prepared = self.prepared(call.tool)
        result = self._result(prepared, call)
        links = prepared.keeps and self.links_data(call)
        if prepared.deciding:
            verdicts = Verdicts()
            for check in prepared.deciding:
                check(call, verdicts)
            if not verdicts.is_empty:
                return Judgement(tuple(verdicts.objections), tuple(verdicts.approvals), (), result, links)
        return bare(Judgement, ((), (), (), result, links))

    def notes(self, call: CallView, *, is_clear: bool = False) -> Notes | None:
        """What the rules say about a call, without the label of its result; None if they say nothing.

        `is_clear` means that its texts have passed the tool's `clears`.
        """
        prepared = self._prepared.get(call.tool) or self.prepared(call.tool)
        notes = Notes()
        for check in prepared.of_clear if is_clear else prepared.checks:
            check(call, notes)
        return None if notes.is_empty else notes

    def clear_tools(self, calls: Iterable[CallView]) -> frozenset[str]:
        """The tools for which the texts of all these calls pass `clears`; texts are searched in one pass."""
        by_text: dict[str, list[str]] = {}
        for call in calls:
            known = by_text.setdefault(call.tool, [])
            if self.prepared(call.tool).clears:
                known.append(all_text(call.arguments))
        return frozenset(
            tool
            for tool, texts in by_text.items()
            if all(clear(BETWEEN.join(texts)) for clear in self.prepared(tool).clears)
        )

    def result(self, call: CallView) -> Label:
        """The label of a call's result: the join of its source, its arguments and its control-flow label."""
        return self._result(self.prepared(call.tool), call)

    def fields(self, call: CallView) -> FieldLabels | None:
        """The labels of the fields of a call's result, None if the policy says nothing of them."""
        prepared = self.prepared(call.tool)
        traits = prepared.traits
        if traits is None or traits.fields is None:
            return None
        declared = self.policy.server_labels.get(prepared.tool, LITERAL)
        if self.source(call) != traits.returns.join(declared):
            return None
        return traits.fields.each(lambda label: self._adding(prepared, call, label.join(declared)))

    def source(self, call: CallView) -> Label:
        """The label of what the tool adds from outside, by the tool and the places that the call names."""
        prepared = self.prepared(call.tool)
        return self._source(prepared, call) if prepared.source is None else prepared.source

    def traits(self, tool: str) -> Traits | None:
        """The traits of a tool, in any spelling; None for an unknown tool."""
        return self.prepared(tool).traits

    def is_message(self, tool: str) -> bool:
        """Whether the tool's calls are messages to people, who see their content."""
        return is_message(fold(tool), self.traits(tool))

    def read_in(self, call: CallView) -> frozenset[str]:
        """The names of the arguments that the recipients of a message see."""
        traits = self.traits(call.tool)
        return frozenset() if traits is None or not self.is_message(call.tool) else read_in(traits, call)

    def prepared(self, tool: str) -> Prepared:
        """The traits of a tool and the rules that apply to it."""
        prepared = self._prepared.get(tool)
        if prepared is None:
            prepared = self._prepared[tool] = prepare(self.setting, self._rules, tool)
        return prepared

    def _result(self, prepared: Prepared, call: CallView) -> Label:
        source = self._source(prepared, call) if prepared.source is None else prepared.source
        return self._adding(prepared, call, source)

    def _adding(self, prepared: Prepared, call: CallView, source: Label) -> Label:
        """The label of what a call gives that adds data of this label to its arguments."""
        data = flowing(call)
        if prepared.tool == "ASK_HUMAN":
            return source.join(offered(call)).join(call.pc)
        result = source if data is source else source.join(data)
        if not result.is_public:
            if self.makes_links(prepared.traits, call, result):
                result = self.unshown(result)
            elif prepared.tool != "AGENT_SOLVE" and retells(prepared.traits, call):
                result = result.retold()  # for an agent, what it has seen decides
        if call.pc is not result:
            result = result.join(call.pc)
        if self._declassify and call.step in self._declassify:
            result = Label(result.untrusted, None)
        return result

    def links_data(self, call: CallView) -> bool:
        """Whether what is stored of the arguments may contain an address with data that its host may not
        read.
        """
        return links_data(self.setting, call, is_strict=True)

    def makes_links(self, traits: Traits | None, call: CallView, label: Label) -> bool:
        """Whether a result made of data with this label may be an address that leaks private data."""
        return makes_links(self.setting, traits, call, label)

    def of_items(self, source: Argument) -> Label:
        """The label of the items of a loop whose source the plan writes out, which may put data into an
        address.

        Each item is judged like a text made by `@FORMAT`.
        """
        label = source.label
        if label.is_public:
            return label
        view = CallView("", "FORMAT", (source,))
        return self.unshown(label) if self.makes_links(self.traits("FORMAT"), view, label) else label

    @staticmethod
    def unshown(label: Label) -> Label:
        """The label without the user as reader, for data that would leak by being shown.

        >>> from callsheet.ir.labels import UNKNOWN
        >>> str(Judge.unshown(UNKNOWN))
        'U/model+trusted'
        """
        return label if label.readers is None else Label(label.untrusted, label.readers - {USER, LINKS})

    def _source(self, prepared: Prepared, call: CallView) -> Label:
        """The label of what a tool adds that depends on its arguments."""
        declared = self.policy.server_labels.get(prepared.tool, LITERAL)
        return self._by_arguments(prepared, call).join(declared)

    def _by_arguments(self, prepared: Prepared, call: CallView) -> Label:
        traits = prepared.traits
        assert traits is not None
        if prepared.tool == "ASK_HUMAN":
            return LITERAL if is_choice(call) else traits.returns
        if traits.runs_code:
            return traits.returns.join(opened_by(self.setting, prepared.tool, call))
        if traits.path is not None:
            return self._file_source(traits, call)
        if keeps_files(prepared.tool, traits):
            secret = secret_in(self.setting, call)
            return traits.returns if secret is None else traits.returns.join(secret)
        assert traits.address is not None
        argument = of_name(call, traits.address)
        authority = None if argument is None else authority_of(argument)
        if authority is None or authority.host is None:
            chosen_by_plan = authority is not None and not authority.chosen_by.untrusted
            some = self.setting.audiences.has_hosts and chosen_by_plan
            return self.setting.sources.host("", frozenset({TRUSTED}) if some else NOBODY_KNOWN)
        return self.setting.sources.host(authority.host, self.setting.audiences.of_host(authority.host))

    def _file_source(self, traits: Traits, call: CallView) -> Label:
        if traits.path_use is PathUse.WRITE:
            return LITERAL
        argument = of_name(call, traits.path or "")
        text = None if argument is None else argument.text
        if not text:
            return traits.returns
        on_host = traits.path_use is PathUse.HOST
        try:
            path = host_path(text) if on_host else workspace_path(text)
        except PathRefused:
            return traits.returns
        label = self.setting.sources.file(path, on_host)
        if label.is_secret and self.setting.is_approved(call):
            return Label(label.untrusted, frozenset({USER, LINKS}))
        return label


class _ThisVery:
    """Wraps a policy for comparison by identity, since comparing policies by value is slow."""

    __slots__ = ("policy",)

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThisVery) and other.policy is self.policy

    def __hash__(self) -> int:
        return id(self.policy)


@lru_cache(maxsize=32)
def _judge_of(this: _ThisVery) -> Judge:
    return Judge(this.policy)


def judge_of(policy: Policy) -> Judge:
    """The Judge of a policy, cached by the policy object's identity.

    Raises ValueError as Judge does.

    >>> policy = Policy()
    >>> judge_of(policy) is judge_of(policy), judge_of(policy) is judge_of(Policy())
    (True, False)
    """
    return _judge_of(_ThisVery(policy))


def is_choice(call: CallView) -> bool:
    """Whether a question only offers trusted, public options, so that the answer contains nothing else."""
    options = of_name(call, "options")
    return options is not None and not options.label.untrusted and options.label.is_public


def offered(call: CallView) -> Label:
    """The label that a question's arguments contribute to its answer.

    If nobody answers, the default is the answer, and the timeout decides when. A person's choice is trusted,
    but the text of an option keeps its readers: choosing a secret does not declassify it.
    """
    labels = [argument.label for argument in (of_name(call, "default"), of_name(call, "timeout")) if argument]
    chosen = (of_name(call, "options"), of_name(call, "schema"))
    return join([*labels, *(Label(False, argument.label.readers) for argument in chosen if argument)])


def judge(policy: Policy, call: CallView) -> Judgement:
    """The judgement of one call; for many calls, a Judge is faster."""
    return Judge(policy).judge(call)


TextKey: TypeAlias = "Callable[[str], Hashable]"


def is_address(judge: Judge, tool: str, name: str) -> bool:
    """Whether the argument of this folded name is the address of a request."""
    traits = judge.traits(tool)
    return traits is not None and traits.address is not None and name == traits.address


def key_of_seen(judge: Judge, tool: str, name: str) -> TextKey | None:
    """The keys of an argument whose text matters to the rules; `name` is folded.

    For an address the key is its scheme and authority, for a workspace path the file's label, otherwise the
    text. None for a file that is sent along, where the recipients matter too.

    >>> from callsheet.policy.model import Policy
    >>> path = key_of_seen(Judge(Policy()), "READ_FILE", "path")
    >>> path("a.md") == path("b/c.md")
    True
    >>> key_of_seen(Judge(Policy()), "FETCH_PAGE", "url")("https://c.example/a?b")
    'https://c.example'
    """
    prepared = judge.prepared(tool)
    traits = prepared.traits
    if traits is None:
        return itself
    if traits.reach is Reach.RECIPIENT and name in NAMES and sends_files(prepared.tool, traits):
        return None
    if name == traits.address:
        return _of_address
    if name != traits.path or traits.path_use is PathUse.HOST:
        return itself
    label_of = judge.setting.sources.file

    def of_path(text: str) -> Hashable:
        try:
            return label_of(workspace_path(text))
        except PathRefused:
            return text

    return of_path


def key_of_beside(judge: Judge, tool: str, name: str) -> TextKey:
    """The keys of an argument outside `Prepared.prose`; `name` is exact. All plain texts have the key None.

    >>> from callsheet.policy.model import Policy, ToolRule
    >>> judge = Judge(Policy(tools={"MAIL": ToolRule(audience_arg="to")}))
    >>> [key_of_beside(judge, "MAIL", "subject")(text) for text in ("Number 7", "Number 8", "a/b")]
    [None, None, 'a/b']
    """
    tests = [test_of(name) for test_of in judge.prepared(tool).plain]
    are_plain = [test for test in tests if test is not None]
    if not tests or len(are_plain) < len(tests):
        return itself
    if len(are_plain) == 1:
        (is_plain,) = are_plain
        return lambda text: None if is_plain(text) else text
    return lambda text: None if all(is_plain(text) for is_plain in are_plain) else text


def itself(text: str) -> Hashable:
    """The key of a text of which everything matters."""
    return text


def _of_address(text: str) -> Hashable:
    return head_of(text) or text
