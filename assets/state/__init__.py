"""State of the workspace: missing partitions, rebuilding, repair, retention and backup."""
