"""A run as an LCTL document: its plan and the events of its journal, told as a chain of agents."""
