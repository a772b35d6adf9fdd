"""Command line ``care``, with a module for each group of commands; ``app`` combines the groups."""
