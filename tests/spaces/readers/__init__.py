"""Tests of `theodolite.spaces.readers`."""
