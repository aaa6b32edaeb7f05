"""A terminal conversation with a model that calls tools, and makes and runs plans for larger tasks."""
