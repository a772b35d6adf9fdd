"""The paper's experiments: one file a table or figure, each a page of the report."""
