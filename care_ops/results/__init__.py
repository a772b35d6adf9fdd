"""What is read off a fit: uncertainty, comparisons of systems, drift, agreement, looks of its factors."""
