"""The import from other programs, and the export to plain files.

A `ForeignSource` reads another program's data as `ForeignChat`s. `turns.py` converts them to turns,
and `importer.py` stores those in the record. The input may be damaged or hostile: `reading.py` has
the limits. Imported text counts as text from outside, unless the person declares it as their own.
"""

REQUIRES = ("jobs",)
