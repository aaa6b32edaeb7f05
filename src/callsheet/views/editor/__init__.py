"""Editor features for plans (completion, hover, rename …) as pure functions of a document and an offset.

In: a `PlanDocument`, knowledge of tools and labels, offsets. Out: spans and texts. All of it works on
incomplete texts too: readable steps are parsed, unreadable ones are searched lexically.
"""
