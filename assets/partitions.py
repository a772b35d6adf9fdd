"""Dynamic partitions of assets: test sets, judges, and pairs of a judge and a test set."""

import dagster as dg

TESTSETS = dg.DynamicPartitionsDefinition(name="testsets")
JUDGES = dg.DynamicPartitionsDefinition(name="judges")
SLICES = dg.MultiPartitionsDefinition({"judge": JUDGES, "testset": TESTSETS})


def slice_key(judge: str, testset: str) -> dg.MultiPartitionKey:
    """Return the partition key for a judge and a test set."""
    return dg.MultiPartitionKey({"judge": judge, "testset": testset})
