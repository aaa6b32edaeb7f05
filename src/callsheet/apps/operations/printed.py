"""What `--json` of a command prints, as types: from them follow the schemas of `callsheet schema COMMAND`.

Within a minor version fields are added, not renamed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from callsheet.apps.operations import printed_rows, printed_service_rows
from callsheet.apps.operations.compiling import CompileResult
from callsheet.apps.operations.lctl import (
    AckRow,
    ChainGraphRow,
    ChainRow,
    DocumentDifference,
    HandOffRow,
    LctlResult,
)
from callsheet.apps.operations.library import ListedPlan, StoredResult
from callsheet.apps.operations.lineage import LineageResult, MomentResult
from callsheet.apps.operations.live_calls import EventRow, NoteRow, OpenRun
from callsheet.apps.operations.outcomes import CallsInDoubt, OutcomeResult, PausedResult
from callsheet.apps.operations.proofs import PredictionResult
from callsheet.apps.operations.runs import AskRow, RunDetailsResult, RunDoubtRow, RunRow
from callsheet.apps.operations.schema import Object, Schema, schema_of
from callsheet.apps.operations.texts import CodePage, FormatResult
from callsheet.apps.operations.tools import ToolList
from callsheet.version import VERSION

_DOCUMENT = Annotated[Object, "an LCTL document"]

PRINTED: Mapping[str, Any] = {
    "approve": printed_rows.AnsweredAsk | list[printed_rows.AnsweredAsk],
    "at": MomentResult,
    "blame": printed_rows.Blamed,
    "blobs prune": printed_service_rows.PrunedValues,
    "call": OutcomeResult | PredictionResult | printed_service_rows.DetachedRun,
    "cancel": CallsInDoubt | printed_service_rows.AskedToCancel,
    "pause": PausedResult | printed_service_rows.AskedToPause,
    "check": printed_rows.CheckedPlans,
    "compare-react": printed_service_rows.ComparedWays,
    "compile": CompileResult | printed_rows.WrittenPrompt,
    "debug": printed_rows.Debugged,
    "decide": CallsInDoubt,
    "diff": printed_service_rows.ComparedRuns,
    "distil": printed_rows.DistilledRuns | printed_rows.OpenDistillation,
    "doctor": printed_rows.Health,
    "dry-run": PredictionResult,
    "explain": CodePage,
    "explain-policy": printed_rows.LabelledPlan,
    "explain-schedule": printed_rows.ScheduledPlan,
    "fmt": printed_rows.FormattedPlans | FormatResult,
    "fork": OutcomeResult | printed_service_rows.BranchedNothing,
    "graph": printed_rows.DrawnPlan,
    "inbox": list[AskRow | RunDoubtRow],
    "labels forget": printed_rows.ForgottenLabel,
    "labels list": list[printed_rows.LabelRow],
    "labels set": printed_rows.SetLabel,
    "lctl ack": AckRow,
    "lctl chain": ChainRow,
    "lctl check": LctlResult,
    "lctl diff": DocumentDifference,
    "lctl emit": _DOCUMENT,
    "lctl graph": ChainGraphRow,
    "lctl merge": _DOCUMENT,
    "lctl rules": list[printed_rows.RuleRow],
    "lctl show": HandOffRow,
    "lock": printed_rows.LockedServers,
    "login": printed_service_rows.LoginRow | printed_service_rows.Logins,
    "logout": printed_rows.ForgottenLogin,
    "models get": list[printed_service_rows.FetchedModel],
    "models list": list[printed_rows.ModelRow],
    "models path": printed_rows.ModelFolder,
    "models remove": printed_rows.RemovedModels,
    "new": printed_rows.NewPlan,
    "people add": printed_rows.NewPerson,
    "people list": list[printed_rows.PersonRow],
    "plan create": printed_service_rows.CreatedPlan | printed_rows.WrittenPrompt,
    "plan delete": printed_rows.DeletedPlans,
    "plan diff": printed_rows.PlanDifferences,
    "plan import": printed_service_rows.ImportedPlans,
    "plan list": list[ListedPlan] | list[printed_service_rows.PlanVersionRow],
    "plan rename": printed_rows.PlanPlace,
    "plan resume": OutcomeResult,
    "plan run": OutcomeResult | PredictionResult | printed_service_rows.DetachedRun,
    "plan save": StoredResult,
    "plan show": StoredResult,
    "playback": NoteRow,
    "policy check": printed_rows.CheckedPolicy,
    "policy explain": printed_rows.ExplainedPolicy,
    "policy init": printed_rows.DraftedPolicy,
    "policy propose": printed_rows.ProposedPolicy,
    "policy share": printed_rows.PolicyPlace,
    "policy show": printed_rows.PolicyText,
    "record": printed_rows.RecordedCase,
    "report": printed_service_rows.WrittenReport | printed_service_rows.ReportPreview,
    "rerun": OutcomeResult | printed_service_rows.BranchedNothing,
    "resume": OutcomeResult,
    "run": OutcomeResult | PredictionResult | printed_service_rows.DetachedRun,
    "runs": list[RunRow],
    "runs backup": printed_rows.BackedUp,
    "runs cancel": printed_rows.BulkDone,
    "runs delete": printed_rows.BulkDone,
    "runs diff": printed_service_rows.ComparedRuns,
    "runs export": printed_rows.ExportedRuns,
    "runs heads": list[printed_rows.HeadRow],
    "runs import": list[printed_rows.ImportedRun],
    "runs pause": printed_rows.BulkDone,
    "runs prune": printed_service_rows.PrunedRuns,
    "runs rerun": printed_rows.BulkDone,
    "runs resume": printed_rows.BulkDone,
    "runs restore": printed_rows.Restored,
    "runs salvage": printed_rows.Salvaged,
    "runs verify": printed_rows.VerifiedRuns,
    "save": StoredResult,
    "schedule": list[printed_service_rows.ScheduleRow],
    "search": printed_rows.Matches,
    "serve": printed_service_rows.ServedAddresses,
    "show": RunDetailsResult | list[EventRow] | printed_rows.TimelineResult,
    "stubs": printed_rows.WrittenStubs,
    "tail": EventRow,
    "test": printed_rows.TestedCases,
    "tools": ToolList,
    "top": NoteRow | OpenRun,
    "trace export": printed_service_rows.ExportedTrace,
    "trust approve": printed_rows.ApprovedTools,
    "trust diff": printed_rows.ComparedServers,
    "trust list": printed_service_rows.TrustedServers,
    "trust project": printed_rows.TrustedFiles,
    "trust revoke": printed_rows.RevokedTools,
    "undo": OutcomeResult | printed_service_rows.UndoneNothing,
    "upgrade": printed_rows.FormattedPlans,
    "verify": printed_rows.ProvedPlans,
    "webhooks": list[printed_service_rows.NamedWebhook],
    "webhooks send": printed_service_rows.AcceptedDelivery | printed_service_rows.RefusedDelivery,
    "why": LineageResult,
    "worker": printed_service_rows.ServedQueue,
}
"""What `--json` of a command prints; of those that follow a run, each line."""


def printed_schema(command: str) -> Schema:
    """The JSON Schema of what a command prints with `--json`; raises KeyError for one that is not known."""
    said = (
        "callsheet {} --json, as of {}: within a minor version fields are added, not renamed or removed."
        " An error that ends the command is an object with ok, which is false, and diagnostics"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"callsheet {command} --json",
        "$comment": said.format(command, VERSION),
        **schema_of(PRINTED[command]),
    }
