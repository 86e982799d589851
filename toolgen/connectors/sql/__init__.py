"""SQL connector: schema reading, the statement guard, execution, and one record per dialect."""
