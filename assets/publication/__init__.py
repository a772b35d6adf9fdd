"""Which fit people read: the nightly review, and the editions that were published."""
