"""Which fit people read: the nightly review, and the fit versions that were published."""
