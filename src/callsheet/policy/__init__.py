"""What an operator allows: the policy, and the rules by which one call is judged.

In: a policy and a call, with what is known of its arguments. Out: what speaks against it, what has to be
approved, what has to be watched, and the label of its result. The proof before a run (`passes.verify`)
and the check of each call during it (`machine`) ask the same rules. Pure.
"""
