"""What `--json` of a command prints, as types: from them follow the schemas of `callsheet schema COMMAND`.

Within a minor version fields are added, not renamed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.apps.operations.compiling import CompileResult
from callsheet.apps.operations.lctl import LctlResult
from callsheet.apps.operations.library import ListedPlan, StoredResult
from callsheet.apps.operations.lineage import DifferenceResult, LineageResult
from callsheet.apps.operations.printed_rows import (
    AnsweredAsk,
    ApprovedTools,
    BackedUp,
    Blamed,
    BulkDone,
    CheckedPlans,
    CheckedPolicy,
    ComparedServers,
    Debugged,
    DeletedPlans,
    DraftedPolicy,
    DrawnPlan,
    ExplainedPolicy,
    ExportedRuns,
    ForgottenLabel,
    ForgottenLogin,
    FormattedPlans,
    HeadRow,
    Health,
    ImportedRun,
    LabelledPlan,
    LabelRow,
    LockedServers,
    Matches,
    ModelFolder,
    ModelRow,
    NewPerson,
    NewPlan,
    PersonRow,
    PlanDifferences,
    PlanPlace,
    PolicyPlace,
    PolicyText,
    ProposedPolicy,
    ProvedPlans,
    RecordedCase,
    RemovedModels,
    Restored,
    RevokedTools,
    RuleRow,
    Salvaged,
    ScheduledPlan,
    SetLabel,
    TestedCases,
    TrustedFiles,
    VerifiedRuns,
    WrittenStubs,
)
from callsheet.apps.operations.proofs import PredictionResult
from callsheet.apps.operations.runs import (
    AskRow,
    CallsInDoubt,
    MomentResult,
    OutcomeResult,
    RunDetailsResult,
    RunDoubtRow,
    RunRow,
)
from callsheet.apps.operations.schema import Schema, schema_of
from callsheet.apps.operations.texts import CodePage
from callsheet.apps.operations.tools import ToolList
from callsheet.version import VERSION

PRINTED: Mapping[str, Any] = {
    "approve": AnsweredAsk,
    "at": MomentResult,
    "blame": Blamed,
    "call": OutcomeResult,
    "cancel": CallsInDoubt,
    "check": CheckedPlans,
    "compile": CompileResult,
    "debug": Debugged,
    "decide": CallsInDoubt,
    "diff": DifferenceResult,
    "doctor": Health,
    "dry-run": PredictionResult,
    "explain": CodePage,
    "explain-policy": LabelledPlan,
    "explain-schedule": ScheduledPlan,
    "fmt": FormattedPlans,
    "fork": OutcomeResult,
    "graph": DrawnPlan,
    "inbox": list[AskRow | RunDoubtRow],
    "labels forget": ForgottenLabel,
    "labels list": list[LabelRow],
    "labels set": SetLabel,
    "lctl check": LctlResult,
    "lctl rules": list[RuleRow],
    "lock": LockedServers,
    "logout": ForgottenLogin,
    "models list": list[ModelRow],
    "models path": ModelFolder,
    "models remove": RemovedModels,
    "new": NewPlan,
    "people add": NewPerson,
    "people list": list[PersonRow],
    "plan delete": DeletedPlans,
    "plan diff": PlanDifferences,
    "plan list": list[ListedPlan],
    "plan rename": PlanPlace,
    "plan resume": OutcomeResult,
    "plan run": OutcomeResult,
    "plan save": StoredResult,
    "plan show": StoredResult,
    "policy check": CheckedPolicy,
    "policy explain": ExplainedPolicy,
    "policy init": DraftedPolicy,
    "policy propose": ProposedPolicy,
    "policy share": PolicyPlace,
    "policy show": PolicyText,
    "record": RecordedCase,
    "rerun": OutcomeResult,
    "resume": OutcomeResult,
    "run": OutcomeResult,
    "runs backup": BackedUp,
    "runs cancel": BulkDone,
    "runs delete": BulkDone,
    "runs diff": DifferenceResult,
    "runs export": ExportedRuns,
    "runs heads": list[HeadRow],
    "runs import": list[ImportedRun],
    "runs rerun": BulkDone,
    "runs restore": Restored,
    "runs salvage": Salvaged,
    "runs verify": VerifiedRuns,
    "runs": list[RunRow],
    "save": StoredResult,
    "search": Matches,
    "show": RunDetailsResult,
    "stubs": WrittenStubs,
    "test": TestedCases,
    "tools": ToolList,
    "trust approve": ApprovedTools,
    "trust diff": ComparedServers,
    "trust project": TrustedFiles,
    "trust revoke": RevokedTools,
    "upgrade": FormattedPlans,
    "verify": ProvedPlans,
    "why": LineageResult,
}
"""What `--json` of a command prints."""


def printed_schema(command: str) -> Schema:
    """The JSON Schema of what a command prints with `--json`; raises KeyError for one that is not known."""
    said = "callsheet {} --json, as of {}: within a minor version fields are added, not renamed or removed"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"callsheet {command} --json",
        "$comment": said.format(command, VERSION),
        **schema_of(PRINTED[command]),
    }
