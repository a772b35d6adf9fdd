"""The warehouse rebuilt from the parts: after it was deleted, or when its schema is of another version.

Belongs here: loading every item and slice that the parts hold and the workspace names. Does not: fits,
which are made anew from them.
"""

from assets.items import load_items
from assets.scores import load_slice
from assets.workspace import Workspace
from care_ops.errors import CareError


def rebuild_warehouse(workspace: Workspace) -> tuple[list[str], dict[str, str]]:
    """Make the database anew.

    Returns
    -------
    testsets : list of str
        Whose fits have to be made again.
    broken : dict judge -> message
        Judges that cannot be built, hence have no key to find their rows by; their parts stay.
    """
    workspace.warehouse.remove()
    written = set(workspace.parts.testsets())
    rebuilt = [name for name in sorted(workspace.testsets) if name in written]
    broken: dict[str, str] = {}
    for testset in rebuilt:
        load_items(workspace, testset, workspace.parts.read_items(testset))
        for judge in workspace.judges_of(testset):
            try:
                load_slice(workspace, judge, testset)
            except CareError as error:
                broken[judge] = str(error)
    return rebuilt, broken
