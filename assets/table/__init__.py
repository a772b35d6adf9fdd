"""A table of scores fitted at once, without a workspace: what ``care fit`` does, for whoever has scores at hand."""
