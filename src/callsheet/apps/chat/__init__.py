"""A conversation in the terminal: a model that calls tools, and makes and runs plans for what takes more."""
