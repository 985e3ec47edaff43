"""Theodolite surveys embedding spaces: it measures how a space is shaped, shows what fine-tuning did to it, and repairs it."""
