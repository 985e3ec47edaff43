"""Tests of `theodolite.tasks`; a package, so that its files may be called like those of other folders."""
