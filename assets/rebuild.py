"""The warehouse rebuilt from the parts: after it was deleted, or when its schema is of another version.

Belongs here: loading every item and slice that the parts hold and the workspace names. Does not: fits,
which are made anew from them.
"""

from assets.scores import load_slice
from assets.workspace import Workspace, judge_item


def rebuild_warehouse(workspace: Workspace) -> list[str]:
    """Make the database anew; returns the test sets whose fits have to be made again."""
    from warehouse.database import replace_testset

    workspace.warehouse.remove()
    written = set(workspace.parts.testsets())
    rebuilt = [name for name in sorted(workspace.testsets) if name in written]
    for testset in rebuilt:
        spec, records = workspace.testset(testset), workspace.parts.read_items(testset)
        with workspace.warehouse.writer() as connection:
            replace_testset(
                connection,
                testset,
                records,
                [judge_item(record).key for record in records],
                description=spec.description,
                scale=spec.scale,
                cut=spec.cut,
            )
        for judge in workspace.judges_of(testset):
            load_slice(workspace, judge, testset)
    return rebuilt
