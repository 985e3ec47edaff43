"""The ground everything stands on: input, moments, spectra, k-means and result rows. NumPy only."""
