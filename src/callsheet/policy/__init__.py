"""An operator's policy, and the rules that judge one call under it.

In: a policy and a call, with what is known of its arguments. Out: objections, required approvals, obligations
of the runtime, and the label of the result. Verification before a run (`passes.verify`) and enforcement
during it (`machine`) use the same rules. Pure.
"""
