"""Assets: a folder for each group in Dagster's UI, a thin module for each asset; and the report's figures and pages."""
