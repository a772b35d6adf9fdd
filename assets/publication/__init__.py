"""Publication of fits: the review of each fit version, and the published versions."""
