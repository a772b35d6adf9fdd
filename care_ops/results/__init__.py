"""Results from a fit: uncertainty, comparisons of systems, drift, agreement, interpretation of factors."""
