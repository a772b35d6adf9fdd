"""Helpers of tests and benchmarks: workspaces, servers, faults, hostile input, panels with known truth.

Belongs here: helpers without a test. Belongs elsewhere: tests, or anything that imports tests or benchmarks.
"""
