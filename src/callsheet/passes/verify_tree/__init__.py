"""The proof for plans of version 2: an abstract interpreter over blocks, with a label for each variable of
each scope and for the program counter.

In: a plan with a tree, a policy, the labels of the run's inputs. Out: a verdict of the same form as for plans
of version 1. Nothing is executed.
"""

from callsheet.passes.verify_tree.proof import verify_tree

__all__ = ["verify_tree"]
