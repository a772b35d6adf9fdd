"""Results of a fit: evaluation, factors, intervals, systems."""
