"""The open documents of an editor, each parsed once per version, with their analyses and their tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from callsheet.api.policies import policies_beside
from callsheet.apps.operations.editing import Analysis, AnalysisContext, Tools, analyse
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import open_toolbox
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.frontends.spelling import Syntax
from callsheet.policy.policy_file import read_policy
from callsheet.views.editor.document import Places, PlanDocument, Units, open_document
from callsheet.views.editor.python import is_plan_file, open_python


async def server_tools_of(setup: Setup) -> tuple[Tools, tuple[Diagnostic, ...]]:
    """All tools, including those of the named servers, and diagnostics; raises CallsheetError."""
    async with open_toolbox(setup, calls=False) as toolbox:
        return Tools(toolbox.registry), toolbox.diagnostics


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
    has_lenses: bool = False
    """Whether the editor has the commands that lenses start."""
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
