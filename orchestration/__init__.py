"""How CARE runs: the workspace's configuration, conditions, sensors, definitions, the command line.

Belongs here: everything that knows Dagster's instance. Belongs elsewhere: what a stage does (``assets``).
"""
