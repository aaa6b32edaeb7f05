"""JSON plans, graphs of steps: `parse_dag` reads them (also as YAML), `format_dag` writes them."""

from callsheet.frontends.dag.convert import to_dag, to_text_order
from callsheet.frontends.dag.fields import json_schema
from callsheet.frontends.dag.parser import parse_dag
from callsheet.frontends.dag.printer import format_dag

__all__ = ["format_dag", "json_schema", "parse_dag", "to_dag", "to_text_order"]
