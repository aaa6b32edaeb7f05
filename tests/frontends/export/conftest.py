"""Imports the fixtures of local models."""

from local_models import model, model_file, opened

__all__ = ["model", "model_file", "opened"]
