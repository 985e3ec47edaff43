"""The foundation of all other packages: input, moments, spectra, k-means, sampling, intervals, files, rows and results."""
