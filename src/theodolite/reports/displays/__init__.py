"""Figures: a few generic displays (lines, dots, heat maps, paths, clouds), and the table of what a report draws with them."""
