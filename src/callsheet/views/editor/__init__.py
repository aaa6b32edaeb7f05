"""Editor features for plans (completion, hover, rename …) as pure functions of a document and an offset.

In: a `PlanDocument`, what is known of tools and labels, offsets. Out: spans and words. All of it answers on
half-written texts too: the steps that could be read are known, and what is lost is looked through by its
words.
"""
