"""The displays, one kind a file: each is frozen numbers with `.frame()` and `.plot()`, and `of(...)` picks them from results."""
