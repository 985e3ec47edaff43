"""Puts this folder on the path, so that the tests in its subfolders can import `hull_oracles`."""
