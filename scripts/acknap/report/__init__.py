"""From a record to numbers, verdicts, tables, plots and a page."""
