"""What tests and benchmarks share: workspaces made on the spot, servers, tiny models, panels with known truth.

Belongs here: helpers without a test. Does not: tests, or anything that imports tests or benchmarks.
"""
