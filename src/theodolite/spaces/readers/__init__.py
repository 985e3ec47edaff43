"""Readers of files: one module per format, all of them giving sources of vectors, labels or rows of a table."""
