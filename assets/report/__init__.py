"""Report pages of the test sets: their data, their figures, the verdicts and the staleness of assets."""
