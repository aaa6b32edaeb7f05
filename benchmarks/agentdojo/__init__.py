"""AgentDojo's suites under policies: what a policy costs their users, and what their attackers reach."""
