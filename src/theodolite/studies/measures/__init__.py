"""What the steps of studies do: each function does one kind of step and returns the rows that it measured."""
