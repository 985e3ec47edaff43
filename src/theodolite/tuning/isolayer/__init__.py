"""The Isotropy Layer (IL23): a small map between a frozen encoder and its head, trained on the task and on IsoScore."""
