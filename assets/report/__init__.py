"""The report: data, figures, pages."""
