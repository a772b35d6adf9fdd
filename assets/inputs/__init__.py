"""What comes in: sources, specifications and settings, and the items of each test set."""
