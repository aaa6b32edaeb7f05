"""Forecasts what a plan would do, by abstract interpretation over known and unknown values.

Pure: no tool, model or file is touched. Transforms are evaluated if all that they read is known.
"""

from callsheet.machine.foresight.forecast import AgentUse, Forecast, StepForecast, Times, Visit, When
from callsheet.machine.foresight.foresee import foresee
from callsheet.machine.foresight.knowledge import Computed, Knowledge, ModelUse
from callsheet.machine.foresight.totals import Totals, model_calls_of, totals_of
from callsheet.machine.foresight.unknown import Fields, Foreseen, Items, Text, Unknown, is_known

__all__ = [
    "AgentUse",
    "Computed",
    "Fields",
    "Forecast",
    "Foreseen",
    "Items",
    "Knowledge",
    "ModelUse",
    "StepForecast",
    "Text",
    "Times",
    "Totals",
    "Unknown",
    "Visit",
    "When",
    "foresee",
    "is_known",
    "model_calls_of",
    "totals_of",
]
