"""The open documents of an editor, each parsed once per version, with their analyses and their tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from callsheet.api.checking import NO_PROVIDERS, Providers, check_plan, check_readable
from callsheet.api.policies import policies_beside
from callsheet.api.proving import Assumptions, Proof, prove
from callsheet.api.requirements import absent_tools, facts_of, wrong_tools
from callsheet.apps.equipment import guarantees_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools, open_toolbox
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Plan, canonical_tool_name
from callsheet.machine.ahead.waits import StepSchedule, schedule_of
from callsheet.machine.questions import covers
from callsheet.passes.verify import StepLabels
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy
from callsheet.ports.tools import Registry, ToolSpec
from callsheet.views.editor.document import Places, PlanDocument, Units, open_document
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.python import is_plan_file, open_python, own_tools, plans_in


@dataclass(frozen=True, slots=True)
class Tools:
    """A registry, and a phrase for the servers that were not queried, if any."""

    registry: Registry
    not_queried: str | None = None

    def not_queried_for(self, plan: Plan, setup: Setup) -> str | None:
        """The phrase for servers that were not queried, if a tool of the plan is not in the registry."""
        return self.not_queried if absent_tools(plan, self.registry, setup.agents) else None


def local_tools_of(setup: Setup) -> Tools:
    """The tools that are known without a server. Raises CallsheetError for a file that cannot be loaded."""
    from callsheet.ports.mcp.discovery import discover  # noqa: PLC0415 - brings the servers' client

    declared = DeclaredTools(setup)
    if declared.catalogue is not None:
        return Tools(declared.known(), declared.catalogue.not_asked)
    files = [*(setup.mcp_configs or discover(setup.project))]
    return Tools(declared.local, f"a server of {files[0]}" if files else None)


async def server_tools_of(setup: Setup) -> tuple[Tools, tuple[Diagnostic, ...]]:
    """All tools, including those of the named servers, and diagnostics; raises CallsheetError as above."""
    async with open_toolbox(setup, calls=False) as toolbox:
        return Tools(toolbox.registry), toolbox.diagnostics


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """What plans are checked against: tools, a policy, the names of the `inputs` of runs."""

    setup: Setup
    tools: Tools
    policy: Policy | None = None
    inputs: tuple[str, ...] = ()
    providers: Providers = NO_PROVIDERS


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of analysing a document."""

    diagnostics: tuple[Diagnostic, ...]
    knowledge: Knowledge = field(default_factory=Knowledge)


def analyse(document: PlanDocument, context: AnalysisContext) -> Analysis:
    """Check a plan like `callsheet check` and, under a policy, `callsheet verify`."""
    registry = context.tools.registry
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    plan = document.plan
    if plan is None:
        unparsed_text = "\n".join(document.text[slice(*span)] for span in document.lost)
        not_asked = context.tools.not_queried_for(document.partial, context.setup)
        more = check_readable(document.partial, unparsed_text, registry, not_asked=not_asked)
        return Analysis((*document.diagnostics, *more), Knowledge(specs))
    if document.syntax is Syntax.PYTHON:
        return _python(document, context, specs)
    if plan.tree is not None:
        return Analysis((*document.diagnostics, *_checked_tree(plan, context)), Knowledge(specs))
    diagnostics = (*document.diagnostics, *_checked(plan, context))
    proof = _proved(plan, context) if context.policy is not None else None
    if proof is None:
        return Analysis(diagnostics, Knowledge(specs, {}, _schedule(plan, context)))
    labels = {known.step: known for known in proof.steps}
    knowledge = Knowledge(specs, labels, _schedule(plan, context), proof.policy.name)
    return Analysis((*diagnostics, *proof.diagnostics), knowledge)


def _python(document: PlanDocument, context: AnalysisContext, specs: Mapping[str, ToolSpec]) -> Analysis:
    """The findings of each plan of a Python file; the tools that the file itself declares are known to it."""
    own = own_tools(document.text)
    found = list(document.diagnostics)
    labels: dict[str, StepLabels] = {}
    for result in plans_in(document.text, document.source.name):
        if result.plan is None:
            continue
        found += [one for one in _checked_tree(result.plan, context) if not _is_about(one, own)]
        if context.policy is not None:
            proof = _proved(result.plan, context)
            found += [one for one in proof.diagnostics if not _is_about(one, own)]
            labels |= {known.step: known for known in proof.steps}
    policy = "" if context.policy is None else context.policy.name
    return Analysis(tuple(dict.fromkeys(found)), Knowledge(specs, labels, {}, policy))


def _is_about(diagnostic: Diagnostic, tools: Collection[str]) -> bool:
    """Whether a finding is that one of these tools is not known, in the words of LTP or of Python."""
    words = {*diagnostic.message.split()}
    return diagnostic.code in _UNKNOWN and any(
        not words.isdisjoint((f"@{one}", one.lower())) for one in tools
    )


_UNKNOWN = frozenset({"CHK040", "POL101"})


def _checked(plan: Plan, context: AnalysisContext) -> tuple[Diagnostic, ...]:
    registry, setup = context.tools.registry, context.setup
    not_asked = context.tools.not_queried_for(plan, setup)
    diagnostics = check_plan(plan, registry, context.inputs, not_asked=not_asked, providers=context.providers)
    return (*diagnostics, *wrong_tools(plan, registry, setup.agents, not_asked=not_asked))


def _checked_tree(plan: Plan, context: AnalysisContext) -> tuple[Diagnostic, ...]:
    """What is found in a plan of version 2, or that it cannot be checked."""
    try:
        return _checked(plan, context)
    except CallsheetError as error:
        return error.diagnostics


def _proved(plan: Plan, context: AnalysisContext) -> Proof:
    assert context.policy is not None
    registry = context.tools.registry
    proof = prove(plan, context.policy, registry, Assumptions(inputs=context.inputs))
    return proof.under(guarantees_of(context.setup, registry))


def _schedule(plan: Plan, context: AnalysisContext) -> dict[str, StepSchedule]:
    """What each step waits for; empty for an invalid graph, which the checks report."""
    approvals = tuple(map(canonical_tool_name, context.setup.settings.approve))
    try:
        facts = facts_of(plan, context.tools.registry)
        return {s.step: s for s in schedule_of(plan, facts, lambda tool: covers(approvals, tool))}
    except CallsheetError:
        return {}


def analyse_policy(text: str, path: Path) -> Sequence[Diagnostic]:
    """The errors in the text of a policy file; the policies that it extends are searched in its folder."""
    try:
        read_policy(Source(str(path), text), policies_beside(path.parent))
    except CallsheetError as error:
        return error.diagnostics
    return ()


LANGUAGES = {
    "ltp": Syntax.LTP,
    "callsheet-micro": Syntax.MICRO,
    "callsheet-dag": Syntax.DAG,
    "callsheet-policy": None,
    "python": Syntax.PYTHON,
}
"""The syntax for each language id; None is a policy."""
_SUFFIXES = {
    ".ltp": Syntax.LTP,
    ".micro": Syntax.MICRO,
    ".dag.json": Syntax.DAG,
    ".dag.yaml": Syntax.DAG,
    ".dag.yml": Syntax.DAG,
    ".py": Syntax.PYTHON,
}

Language: TypeAlias = "Syntax | None"


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """One version of an open text. `plan` is None for a policy."""

    uri: str
    version: int | None
    path: Path
    places: Places
    plan: PlanDocument | None

    @property
    def text(self) -> str:
        """The whole text."""
        return self.places.text

    @property
    def source(self) -> Source:
        """The text with the file name, for messages."""
        return Source(self.path.name, self.text)


@dataclass(slots=True)
class OpenDocuments:
    """The open texts, the context of their analyses, and the last analysis of each."""

    context: AnalysisContext
    units: Units = Units.UTF16
    _versions: dict[str, DocumentVersion] = field(default_factory=dict[str, DocumentVersion])
    _analyses: dict[str, Analysis] = field(default_factory=dict[str, Analysis])
    _analysed_versions: dict[str, DocumentVersion] = field(default_factory=dict[str, DocumentVersion])
    """The version that each analysis belongs to."""

    def add_version(
        self, uri: str, path: str, text: str, version: int | None, language: str | None
    ) -> DocumentVersion:
        """Parse a new version of a text and return it."""
        place = Path(path)
        spelling = syntax_of(place, language)
        if spelling is Syntax.PYTHON:
            plan = open_python(text, place.name)
        else:
            plan = (
                None if spelling is None else open_document(text, place.name, spelling, self.context.inputs)
            )
        snapshot = DocumentVersion(uri, version, place, Places(text, self.units), plan)
        self._versions[uri] = snapshot
        return snapshot

    def newest(self, uri: str) -> DocumentVersion | None:
        """The newest version of a text; None if it is not open."""
        return self._versions.get(uri)

    def newest_plan(self, uri: str) -> tuple[DocumentVersion, PlanDocument] | None:
        """The newest version of a text, and its plan; None if it is not open or a policy."""
        snapshot = self._versions.get(uri)
        if snapshot is None or snapshot.plan is None or self._is_program(snapshot.plan):
            return None
        return snapshot, snapshot.plan

    def _is_program(self, document: PlanDocument) -> bool:
        """Whether a text in Python is an ordinary program, about which nothing is said."""
        tools = self.context.tools.registry.names()
        return document.syntax is Syntax.PYTHON and not is_plan_file(document.text, {*tools})

    def all_open(self) -> tuple[DocumentVersion, ...]:
        """All open texts."""
        return tuple(self._versions.values())

    def analyse(self, snapshot: DocumentVersion) -> Analysis:
        """Analyse a version of a text. Changes no state, so it may run in a thread."""
        if snapshot.plan is None:
            return Analysis(tuple(analyse_policy(snapshot.text, snapshot.path)))
        if self._is_program(snapshot.plan):
            return Analysis(())
        return analyse(snapshot.plan, self.context)

    def store_analysis(self, snapshot: DocumentVersion, analysis: Analysis) -> bool:
        """Store the analysis of a version if that is still the newest; return whether it is."""
        if self._versions.get(snapshot.uri) is not snapshot:
            return False
        self._analyses[snapshot.uri] = analysis
        self._analysed_versions[snapshot.uri] = snapshot
        return True

    def latest_analysis(self, snapshot: DocumentVersion) -> Analysis:
        """The last analysis of a text, which may be of an older version; analyses it if there is none."""
        stored = self._analyses.get(snapshot.uri)
        if stored is None:
            stored = self._analyses[snapshot.uri] = self.analyse(snapshot)
        return stored

    def current_analysis(self, snapshot: DocumentVersion) -> Analysis:
        """The analysis of exactly this version, since positions in an older one would be wrong."""
        stored = self._analyses.get(snapshot.uri)
        if stored is None or self._analysed_versions.get(snapshot.uri) is not snapshot:
            stored = self.analyse(snapshot)
            self.store_analysis(snapshot, stored)
        return stored

    def close(self, uri: str) -> None:
        """Remove a text."""
        self._versions.pop(uri, None)
        self._analyses.pop(uri, None)
        self._analysed_versions.pop(uri, None)


def syntax_of(path: Path, named: str | None) -> Language:
    """The syntax of a plan; None for a policy, which is a TOML file.

    >>> str(syntax_of(Path("a.dag.json"), "json")), syntax_of(Path("policy.toml"), None)
    ('dag', None)
    """
    if named in LANGUAGES:
        return LANGUAGES[named]
    name = path.name.lower()
    for suffix, syntax in _SUFFIXES.items():
        if name.endswith(suffix):
            return syntax
    if name.endswith(".toml"):
        return None
    return Syntax.DAG if name.endswith((".json", ".yaml", ".yml")) else Syntax.LTP
