"""The geometry of a model while it trains: measured on a fixed sample, logged, written, and without effect on the training."""
