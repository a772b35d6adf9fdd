"""What exists: a folder for each group of assets in Dagster's UI, a file for each asset, each thin (read, call one
function, write, report metadata); and the report's figures and pages.
"""
