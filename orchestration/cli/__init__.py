"""The command line ``care``: one file per group of commands, put together in ``app``."""
