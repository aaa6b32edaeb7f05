"""Forecasts what a plan would do, by abstract interpretation over known and unknown values.

Pure: no tool, model or file is touched. Transforms are evaluated if all that they read is known.
"""

from callsheet.machine.forecasting.forecast import (
    AgentUse,
    Begun,
    BlockForecast,
    Forecast,
    Standing,
    StepForecast,
    Times,
    Totals,
    Visit,
    When,
    model_calls_of,
    totals_of,
)
from callsheet.machine.forecasting.partial_values import (
    Computed,
    Fields,
    Foreseen,
    Items,
    Knowledge,
    ModelUse,
    Text,
    Unknown,
    is_known,
)
from callsheet.machine.forecasting.plan_interpreter import foresee, foresee_rest

__all__ = [
    "AgentUse",
    "Begun",
    "BlockForecast",
    "Computed",
    "Fields",
    "Forecast",
    "Foreseen",
    "Items",
    "Knowledge",
    "ModelUse",
    "Standing",
    "StepForecast",
    "Text",
    "Times",
    "Totals",
    "Unknown",
    "Visit",
    "When",
    "foresee",
    "foresee_rest",
    "is_known",
    "model_calls_of",
    "totals_of",
]
