"""Report pages of test sets, with data, figures and verdicts, and detection of stale assets."""
