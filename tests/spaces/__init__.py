"""Tests of `theodolite.spaces`; a package, so that its files may be called like those of other folders."""
