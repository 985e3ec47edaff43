"""Studies: a paper's experiment as data, run, checked against what it prints, its claims judged."""
