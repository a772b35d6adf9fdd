"""What is computed from a fit for people to read: evaluation, factors, intervals, systems."""
