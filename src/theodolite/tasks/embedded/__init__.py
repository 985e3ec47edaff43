"""The demo's two small data sets, written for this project: graded pairs and labelled sentences. See the README next to them."""
