"""Operations that every application offers: parse, format, check, draw and prove plans; compile goals.

In: texts, a setup. Out: small results with a JSON form, one module each, so that an application imports only
what it uses. Errors of a text are part of the result; nothing is run. The functions that are not async may
start servers and wait for them: call them in a thread if there is an event loop.
"""
