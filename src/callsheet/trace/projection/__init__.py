"""Projects a run, from its plan and journal, onto an LCTL document: a chain of agents and facts."""
