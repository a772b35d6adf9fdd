"""Which fit people read: the review of each fit version, and the published versions."""
