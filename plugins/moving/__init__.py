"""Moving in from another program, and out into plain files.

A `ForeignSource` reads what another program kept, as `ForeignChat`s; `turns.py` makes turns of
them, and `arrival.py` puts those into the record. Whatever is read may be damaged or hostile:
`reading.py` has the limits. What comes so counts as text from outside, unless the person says that
it is their own.
"""

REQUIRES = ("jobs",)
