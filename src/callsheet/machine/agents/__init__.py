"""Operations that go turn by turn: an agent's loop, and the rounds of a refinement, a critique, a consensus.

In: what a step gives, the answers of a model and what its calls came to. Out: the next question or the
next calls. Each turn is a command and an event, so that it is resumed, counted and told like any other.
"""
