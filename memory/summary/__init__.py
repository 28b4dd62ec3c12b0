"""Summaries: their source, drafts and their audit, extracts, and the writer in the background."""
