"""Reader that runs the DuckDB query in a ``.sql`` file and returns the result.

The query may be untrusted. Therefore DuckDB checks the resolved path of every file that the query opens.
"""

import importlib.metadata
import importlib.util
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError, how_to_install
from warehouse.sources.input_table import InputTable, Plan
from warehouse.sources.isolated import IsolatedError, run_isolated
from warehouse.testsets import ReadingOptions

_MAX_S = 1800
_NO_TABLE = "care: no table"
_RUNS_QUERY = f"""
import os, duckdb, pyarrow
query = sys.stdin.buffer.read().decode("utf-8-sig")
connection = duckdb.connect(config={{
    "autoload_known_extensions": False, "autoinstall_known_extensions": False, "allow_community_extensions": False,
    "allow_persistent_secrets": False, "temp_directory": "",
}})
connection.execute("SET enable_progress_bar = false; SET python_enable_replacements = false")
connection.execute("SET allowed_directories = ?", [[os.getcwd()]])
connection.execute("SET enable_external_access = false; SET lock_configuration = true")
try:
    if [statement.type.name for statement in connection.extract_statements(query)] != ["SELECT"]:
        sys.exit({_NO_TABLE!r})
    table = connection.sql(query).to_arrow_table()
except duckdb.Error as error:
    sys.exit(" ".join(str(error).split()))
with pyarrow.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
    stream.write_table(table)
"""


def read_query(path: Path, plan: Plan, options: ReadingOptions) -> InputTable:
    """Run the SELECT in a ``.sql`` file, and return the result; the query may read files in or below the file's folder.

    DuckDB refuses all other files. It resolves symbolic links before it checks a path, and relative paths start at the
    folder of the ``.sql`` file. Expansion of ``~``, extensions and network access are disabled, and the query cannot
    enable them. Raises ``InputError`` if DuckDB is not installed, the file is not a single SELECT, or the query fails.
    """
    if importlib.util.find_spec("duckdb") is None:
        raise InputError(f"{path}: DuckDB is not installed; {how_to_install('sql')}, or give a file with the result")
    folder = path.absolute().parent.resolve()
    too_large = f"{path}: the query needs more than {_MAX_S} s or the free memory; give a file with its result"
    try:
        answer = run_isolated(_RUNS_QUERY, too_large, folder=folder, sent=path.read_bytes(), seconds=_MAX_S)
    except IsolatedError as error:
        if str(error) == _NO_TABLE:
            raise InputError(
                f"{path}: the file must contain exactly one statement that returns a table; write one SELECT"
            ) from error
        hint = "; a query may only read files in its own folder or below" if "Permission Error" in str(error) else ""
        raise InputError(f"{path}: the query fails: {error}{hint}; correct the query") from error
    table = pa.ipc.open_stream(answer).read_all()
    table.validate(full=True)
    return InputTable(str(path), table, f"DuckDB {importlib.metadata.version('duckdb')} as a query")
