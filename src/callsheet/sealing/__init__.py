"""Recognises secrets in values, encrypts them before they are written, and masks them in what is shown.

In: values, known secrets, a key. Out: the same values with secrets replaced by placeholders and kept as
encrypted boxes, and the way back for holders of the key. Pure: where the key is stored is not known here.
"""
