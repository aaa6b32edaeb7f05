"""A plan from what a client's model did: the calls of a session or an agent, with the data between them."""
