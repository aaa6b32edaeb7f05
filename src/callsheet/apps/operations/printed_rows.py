"""The types of what only commands print with `--json`; other results have theirs where they are made."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from callsheet.apps.operations.bulk import BulkRow
from callsheet.apps.operations.checking import CheckRow
from callsheet.apps.operations.proofs import ProofRow
from callsheet.apps.operations.runs import AskRow
from callsheet.apps.operations.schema import Count, DiagnosticRow, Object, Ok

PlanName = Annotated[str, "the plan, as it was named"]


class CheckedPlan(CheckRow):
    """The verdict on one of several plans."""

    plan: PlanName


class CheckedPlans(TypedDict):
    """The verdicts on plans, with the errors, warnings and hints of all."""

    ok: Ok
    plans: list[CheckedPlan]
    diagnostics: list[DiagnosticRow]


class ProvedPlan(ProofRow):
    """The proof of one of several plans."""

    plan: PlanName


class ProvedPlans(TypedDict):
    """The proofs of plans, with the errors, warnings and hints of all."""

    ok: Ok
    plans: list[ProvedPlan]
    diagnostics: list[DiagnosticRow]


class LabelledPlan(ProvedPlan):
    """The labels of the data of a plan under a policy, with its proof."""

    steps: Annotated[list[Object], "the labels of the data that each step reads and writes"]
    diagnostics: list[DiagnosticRow]


class FormattedPlans(TypedDict):
    """Which plans are, or would be, written anew."""

    ok: Ok
    changed: list[str]
    diagnostics: list[DiagnosticRow]


class DifferenceRow(TypedDict):
    """What a plan did and the case does not expect, or the other way round."""

    text: str
    step: str | None
    line: int | None


class CaseResultRow(TypedDict):
    """A case that was tested, and where it stands."""

    file: str
    line: int
    plan: str
    name: str
    passed: bool
    policy: Annotated[str | None, "the policy that it was under"]
    seconds: float
    differences: list[DifferenceRow]


class CoveredRow(TypedDict):
    """How many of the parts of a kind were covered."""

    covered: Count
    of: Count


class MissedRow(TypedDict):
    """What no case has tested."""

    line: int
    step: str
    what: str


class CoverageRow(TypedDict):
    """How much of a plan its cases cover."""

    plan: PlanName
    percent: float
    steps: CoveredRow
    branches: CoveredRow
    items: CoveredRow
    failures: CoveredRow
    missed: list[MissedRow]


class TestedCases(TypedDict):
    """The results of cases, and the coverage of plans if it was asked for."""

    version: Annotated[int, "the version of these fields"]
    ok: Ok
    cases: list[CaseResultRow]
    coverage: list[CoverageRow]


class ReportedServerRow(TypedDict):
    """What a server says that it is."""

    name: str
    version: str


class ComparedToolRow(TypedDict):
    """How the declaration of a tool differs from what was recorded of it."""

    name: str
    state: Literal["new", "changed", "gone", "same"]
    standing: Annotated[str | None, "how it came to be recorded: seen, or approved by a person"]
    lines: Annotated[list[str], "the differences in words"]


class ComparedServerRow(TypedDict):
    """How the declarations of a server differ from what was recorded of it."""

    name: str
    place: str
    reported: ReportedServerRow
    reported_before: ReportedServerRow | None
    tools: list[ComparedToolRow]


class LockedServers(TypedDict):
    """The lock file, and how servers that were asked differ from it."""

    path: str
    changed: Annotated[bool, "whether the file has another text now"]
    written: bool
    servers: Annotated[Object, "by server: the effect of each tool"]
    removed: list[str]
    asked: list[ComparedServerRow]
    diagnostics: list[DiagnosticRow]


class HealthRow(TypedDict):
    """A part of the installation."""

    name: str
    state: Literal["ok", "note", "bad"]
    found: str
    help: str | None


class Health(TypedDict):
    """The state of the installation."""

    ok: Ok
    items: list[HealthRow]


class DiffHeadRow(TypedDict):
    """One of two plans that are compared."""

    plan: PlanName
    plan_hash: str
    steps: Count


class PlanDifferences(TypedDict):
    """The differences between two plans."""

    same: bool
    old: DiffHeadRow
    new: DiffHeadRow
    summary: Annotated[Object, "by kind of difference: how many steps"]
    head: Annotated[list[Object], "changes of the whole plan"]
    steps: Annotated[list[Object], "each changed step with its kinds and changes"]


class NewPlan(TypedDict):
    """A plan that was begun from a template."""

    version: Annotated[int, "the version of these fields"]
    plan: PlanName
    cases: Annotated[str, "the file of its cases"]
    template: str


class RecordedCase(TypedDict):
    """A case that was made of a run, and whether it passes."""

    version: Annotated[int, "the version of these fields"]
    ok: Ok
    file: str
    cassette: str
    plan: str | None
    calls: Count
    left_out: Annotated[list[str], "what the cassette does not have, and why"]
    differences: list[str]


class OpenReading(TypedDict):
    """A question of `distil --ask`, which `--answer PLACE=NUMBER` answers."""

    place: str
    value: Annotated[Any, "the recorded value"]
    readings: Annotated[list[str], "code that gives it, numbered from 1"]


class DistilledRuns(TypedDict):
    """The plan of recorded runs."""

    ok: Ok
    plan: Annotated[str, "its text, in Python"]
    inputs: Annotated[Object, "those of the recorded run"]
    reasons: Annotated[dict[str, str], "why each of them is an input"]
    readings: Annotated[list[str], "how the words of the user were read"]
    stops: Annotated[list[str], "the conditions without which it stops"]
    calls: Count
    left_out: Annotated[list[str], "the tools of calls of which nothing came"]
    failed: Annotated[list[str], "the tools of calls that gave no result"]
    runs: Annotated[int, "how many recorded runs it repeats"]


class OpenDistillation(TypedDict):
    """The question that is open, and no plan (exit status 4)."""

    ok: Ok
    question: OpenReading


class DrawnPlan(TypedDict):
    """A plan as a graph: a text, or data with `--format graph`."""

    plan: PlanName
    format: str
    graph: Any


class WrittenPrompt(TypedDict):
    """What a model is sent for a goal, with `--prompt`; nothing was asked."""

    messages: Annotated[list[Object], "role and content of each"]


class TimelineResult(TypedDict):
    """When the steps of a run were under way, with `--timeline`."""

    run_id: str
    timeline: list[Object]


class ScheduledPlan(TypedDict):
    """What each step of a plan waits for."""

    plan: PlanName
    unknown_tools: list[str]
    steps: list[Object]


class Matches(TypedDict):
    """Where a text was found in runs."""

    matches: list[Object]
    left_off: Count
    runs: Annotated[Count, "how many runs were searched"]


class LabelRow(TypedDict):
    """A label that is kept for later runs."""

    kind: Literal["note", "file", "fact"]
    name: str
    where: str
    label: str


class SetLabel(TypedDict):
    """A label that was set."""

    place: str
    before: str | None
    label: str


class ForgottenLabel(TypedDict):
    """A label that was forgotten, if there was one."""

    place: str
    forgotten: bool
    being_written: bool


class CheckedPolicy(TypedDict):
    """Whether a policy can be used."""

    ok: Ok
    diagnostics: list[DiagnosticRow]


class DraftedPolicy(TypedDict):
    """A policy for the tools that there are: its text, or its file."""

    text: NotRequired[str]
    file: NotRequired[str]
    base: str
    tools: Count
    unknown: Annotated[list[str], "the tools that no class names"]
    diagnostics: list[DiagnosticRow]


class ProposedPolicy(TypedDict):
    """The smallest policy under which plans pass: its text, or its file."""

    text: NotRequired[str]
    file: NotRequired[str]
    lines: list[str]
    questions: Annotated[Count, "how often the plans ask under it"]
    refused: Annotated[list[str], "what no line can allow"]


class ExplainedPolicy(TypedDict):
    """What a policy judges otherwise than another."""

    shifts: list[Object]
    others: list[str]


class PolicyText(TypedDict):
    """A policy as text."""

    policy: str
    text: str


class PolicyPlace(TypedDict):
    """Where a shared policy is kept, and its address."""

    policy: str
    place: str


class TrustedFiles(TypedDict):
    """The files of a project that count, or no more."""

    trusted: bool
    files: list[str]


class ComparedServers(TypedDict):
    """How servers differ from what was recorded of them."""

    servers: list[ComparedServerRow]
    diagnostics: list[DiagnosticRow]


class ApprovedTools(TypedDict):
    """The tools whose declarations were approved."""

    approved: list[str]
    path: str
    diagnostics: list[DiagnosticRow]


class RevokedTools(TypedDict):
    """The tools whose approval was revoked."""

    revoked: list[str]
    path: str


class WrittenStubs(TypedDict):
    """The files of stubs that were written or removed."""

    folder: str
    changed: list[str]
    diagnostics: list[DiagnosticRow]


class ModelRow(TypedDict):
    """A local model that is known."""

    name: str
    spec: str
    here: bool
    size: Count
    sha256: str
    licence: str
    about: str


class RemovedModels(TypedDict):
    """The local models that were removed, and those that were not there."""

    removed: list[str]
    missing: list[str]


class ModelFolder(TypedDict):
    """The folder of local models."""

    path: str


class HeadRow(TypedDict):
    """The hash of the last event of a run."""

    run_id: str
    event: int
    head: str
    time: str


class VerifiedRun(TypedDict):
    """Whether the hash chain of a run holds, or at which event it breaks."""

    run_id: str
    ok: Ok
    events: Count
    head: str
    event: int | None
    why: str | None


class VerifiedRuns(TypedDict):
    """Whether the hash chains of runs hold."""

    ok: Ok
    runs: list[VerifiedRun]
    anchors: NotRequired[Any]


class ExportedRuns(TypedDict):
    """The file that runs were exported to."""

    file: str
    bytes: Count
    runs: list[str]


class BackedUp(TypedDict):
    """The file that the journal was backed up to."""

    file: str
    runs: Count
    values: Count
    has_labels: bool
    has_keys: bool
    bytes: Count


class BulkDone(BulkRow):
    """What was done to many runs, or would be done with `--yes`."""

    needs: NotRequired[Literal["--yes"]]


class ForgottenLogin(TypedDict):
    """Whether there was a login, and whether its server has revoked it."""

    server: str
    forgotten: bool
    revoked: bool


class RuleRow(TypedDict):
    """A rule of LCTL."""

    id: str
    level: str
    title: str
    origin: str
    repair: str


class FailedCall(TypedDict):
    """Where a run failed."""

    step: str
    visit: int | None
    event: int
    call: str | None
    preview: str | None
    traceback: str | None


class Blamed(TypedDict):
    """Where a run failed, and the likely cause."""

    run_id: str
    failed: FailedCall | None
    error: str | None
    likely_cause: Any
    method: str
    evidence: list[Any]


class DebuggedStep(TypedDict):
    """A visit of a step, as the debugger lists it."""

    step: str
    mark: str
    action: str
    first: int
    last: int
    begun: float
    ended: float | None
    came: str
    likely_cause: bool


class Debugged(TypedDict):
    """The steps of a run, as the debugger lists them."""

    run_id: str
    status: str
    events: Count
    steps: list[DebuggedStep]


class SalvagedRun(TypedDict):
    """A run that was copied from a damaged journal, and what of it is lost."""

    run_id: str
    events: Count
    lost: str | None


class Salvaged(TypedDict):
    """What could be copied from a damaged journal."""

    file: str
    bytes: Count
    runs: list[SalvagedRun]
    lists_all: Annotated[bool, "whether the journal still says which runs it had"]


class Restored(TypedDict):
    """What was restored from a backup."""

    journal: str
    runs: Count
    values: Count
    keys: Count


class ImportedRun(TypedDict):
    """A run that was imported."""

    run_id: str
    status: str
    events: Count


class PlanPlace(TypedDict):
    """A plan of the library under its new id."""

    id: str
    path: str


class DeletedPlans(TypedDict):
    """The plans, or versions, that were deleted."""

    deleted: list[str]


class PersonRow(TypedDict):
    """A person of a server."""

    name: str
    roles: list[str]
    rights: list[str]


class NewPerson(TypedDict):
    """A person that was added, with the token, which is shown once."""

    name: str
    roles: list[str]
    token: str


class AnsweredAsk(AskRow):
    """A question that was answered, and whether a process is going on with its run."""

    run_goes_on: bool
