"""Operations that every application offers: parse, format, check, draw and prove plans; compile goals.

In: texts, a setup. Out: small results with a JSON form, each in a module of its own, so that a face brings
only what it uses. What is wrong with a text stands in the result; nothing runs. The functions that are not
async may start servers and wait for them: a face with an event loop calls them in a thread.
"""
