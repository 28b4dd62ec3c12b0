"""SQL of moving: conversations as rows of an export, and SQLite files of other programs."""
