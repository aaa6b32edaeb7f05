"""The types of what only commands print with `--json` about servers, services, reports and upkeep."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from callsheet.api.run_branches import UndoResult
from callsheet.apps.operations.library import ParamRow, StoredResult
from callsheet.apps.operations.lineage import DifferenceResult
from callsheet.apps.operations.printed_rows import ModelRow
from callsheet.apps.operations.runs import DoubtRow, StatusWord
from callsheet.apps.operations.schema import Count, Object, ProblemRow


class CreatedPlan(StoredResult):
    """A plan of the library that was just compiled of a goal, and what the model used."""

    usage: Object


class PlanVersionRow(TypedDict):
    """A version of a plan of the library, as its file has it."""

    callsheet: Literal["plan version"]
    format: int
    id: str
    version: Count
    saved: Annotated[float, "when, in seconds since 1970"]
    syntax: str
    plan_hash: str
    goal: str | None
    params: list[ParamRow]
    tools: Annotated[Object | None, "the pins of its tools"]
    compiled: Annotated[Object | None, "data of the compiler that made it"]
    is_by_hand: Annotated[bool, "whether its file was changed by hand since"]
    text: str
    sha256: Annotated[str, "of all the rest"]


class ImportedPlanRow(TypedDict):
    """A plan that was imported: how many versions of it are new, and how many there are."""

    id: str
    added: Count
    versions: Count


class ImportedPlans(TypedDict):
    """The plans that were imported."""

    plans: list[ImportedPlanRow]


class SpentRow(TypedDict):
    """What attempts at a goal took."""

    calls: Count
    model_calls: Count
    compiling: Annotated[Count, "the model calls that compiled the plan"]
    repairs: Count
    replans: Count
    input_tokens: Count
    cached_tokens: Count
    output_tokens: Count
    seconds: float


class AttemptRow(SpentRow):
    """One attempt at a goal, and what it took."""

    name: str
    is_solved: bool
    answer: str
    error: str


class WayRow(SpentRow):
    """All attempts at a goal in one way, added up."""

    name: str
    times: Count
    solved: Count
    answer: Annotated[str, "the last one"]
    error: Annotated[str, "the last one"]
    per_solved: Annotated[Object | None, "the average cost of a solved goal"]
    attempts: list[AttemptRow]


class ComparedWays(TypedDict):
    """A goal solved with a plan and with agents, and what each took."""

    goal: str
    times: Count
    ways: list[WayRow]


class UndoneNothing(UndoResult):
    """What undoing a run takes; nothing was begun, since it needs `--yes`."""

    run_id: None
    status: Literal["not started"]
    needs: Literal["--yes"]


class BranchPoint(TypedDict):
    """Where a run branches off: its parent, and the last event that both share."""

    run_id: str
    event: Count


class BranchedNothing(TypedDict):
    """The effects of a new run; nothing was begun, since it needs `--yes`."""

    run_id: None
    status: Literal["not started"]
    parent: BranchPoint
    effects: Annotated[list[Object], "the calls with effects that it will or may make"]
    kept: NotRequired[Annotated[list[str], "the calls whose results are kept"]]
    needs: Literal["--yes"]


class RemovedLabel(TypedDict):
    """A label that was removed, since no run that is left has it."""

    root: str
    name: str
    label: str


class PrunedRuns(TypedDict):
    """What of old runs was deleted, or would be in a dry run."""

    dry_run: bool
    values: Annotated[list[str], "the runs whose large values were deleted"]
    runs: Annotated[list[str], "the runs that were deleted"]
    blobs: Annotated[Count, "the number of large values"]
    bytes: Count
    orphans: Annotated[Count, "the number of files and values that nothing referenced"]
    compacted: bool
    labels: list[RemovedLabel]


class AskedToCancel(TypedDict):
    """A run whose process was asked to cancel it, and has not done so yet."""

    run_id: str
    status: Literal["asked"]
    in_doubt: list[DoubtRow]


class AskedToPause(TypedDict):
    """A run whose process was asked to pause it, and has calls under way."""

    run_id: str
    status: Literal["asked"]
    pause: None


class ComparedRuns(DifferenceResult):
    """How two runs differ, with `--times` also in their durations."""

    times: NotRequired[Annotated[list[Object], "the steps that became slower or faster"]]


class DetachedRun(TypedDict):
    """A run that was started with `--detach`; `callsheet show` says what has become of it."""

    run_id: str
    status: Literal["running"]


class PrunedValues(TypedDict):
    """The large values of runs on Temporal that were deleted, or would be in a dry run."""

    dry_run: bool
    place: str
    histories: Annotated[Object, "by namespace: how many histories were read"]
    removed: Annotated[list[str], "their digests"]
    bytes: Count
    needed: Count
    young: Annotated[Count, "how many are too young"]


class ReportedValue(TypedDict):
    """A value that a report has."""

    what: str
    name: str
    how: Annotated[str, "shown, shortened, sealed or left out"]
    bytes: Count
    text: str


class ReportPreview(TypedDict):
    """The values that a report would show."""

    values: Count
    redacted: Annotated[bool, "whether all values are left out"]
    shortened: Count
    sealed: Count
    rows: list[ReportedValue]


class WrittenReport(ReportPreview):
    """The file of a report, and the values in it."""

    run_id: str
    path: str
    bytes: Count


class SentSignals(TypedDict):
    """What a collector accepted, and what not."""

    url: str | None
    spans: Count
    logs: Count
    metrics: Count
    not_taken: Annotated[Object, "by signal: why"]
    rejected: Annotated[Object, "by signal: items, why"]


class WrittenProvenance(TypedDict):
    """The file of the provenance of a run."""

    file: str
    relations: Count


class ExportedTrace(TypedDict):
    """What was exported of a run to tracing tools."""

    run_id: str
    trace_id: str
    is_running: bool
    spans: Count
    logs: Count
    metrics: Count
    sent: SentSignals | None
    file: str | None
    prov: WrittenProvenance | None


class LastRun(TypedDict):
    """The newest run of a schedule or a webhook."""

    run_id: str
    status: StatusWord


class ScheduleRow(TypedDict):
    """A schedule of the project."""

    schedule: str
    plan: str
    cron: str
    timezone: str
    next: Annotated[str, "the next time, in this time zone"]
    last: LastRun | None


class WebhookFacts(TypedDict):
    """A webhook of the project."""

    path: Annotated[str, "the path to which deliveries are posted"]
    plan: str
    signature: Annotated[str, "standard or github"]
    takes: Annotated[dict[str, str], "the paths in the body, by input; empty: its members are the inputs"]
    gives: Annotated[list[str], "the inputs that the project gives"]
    last: Annotated[LastRun | None, "the newest run"]
    problem: Annotated[str | None, "why it cannot be used now"]


class NamedWebhook(WebhookFacts):
    """A webhook of the project, with its name."""

    webhook: str


class WebhookRun(TypedDict):
    """What a delivery has come to."""

    run_id: Annotated[str | None, "the run; null if nothing starts for such a body"]
    status: Annotated[StatusWord | None, "the state of the run"]
    is_new: Annotated[bool, "false for a delivery that has come before"]
    reason: Annotated[str | None, "why nothing starts for such a body"]


class AcceptedDelivery(WebhookRun):
    """What a server answered to a delivery."""

    http_status: int


class RefusedDelivery(ProblemRow):
    """Why a server did not take a delivery."""

    http_status: int


class ServedAddresses(TypedDict):
    """Where a server can be reached; printed when it is ready."""

    url: str
    sign_in: Annotated[str, "the address that signs a browser in"]
    token: Annotated[str | None, "the token, if it is new"]


class ServedQueue(TypedDict):
    """What a worker serves; printed when it is ready."""

    address: str
    queue: str
    serves: list[str]


class TrustedServer(TypedDict):
    """A server that is known, with the recorded declarations of its tools."""

    name: str
    place: str
    fingerprint: str
    reported: Annotated[Object, "the name and version that it reports"]
    tools: Annotated[Object, "by tool: standing, since, pin, declaration"]


class TrustedServers(TypedDict):
    """The servers that are known."""

    path: Annotated[str, "the file of the records"]
    schema: int
    servers: list[TrustedServer]


class LoginRow(TypedDict):
    """A login to a server; tokens are not shown."""

    server: str
    url: str
    issuer: str
    resource: str | None
    scope: str
    renews_itself: bool
    ends: Annotated[str | None, "when it ends"]


class Logins(TypedDict):
    """The stored logins."""

    path: str
    logins: list[LoginRow]


class FetchedModel(ModelRow):
    """A local model that was downloaded."""

    path: str
