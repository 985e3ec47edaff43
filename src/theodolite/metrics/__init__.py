"""Measures of how a space is shaped. Every one is a function of an (n, d) array and an entry of the registry `METRICS`."""
