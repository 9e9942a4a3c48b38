"""What people look at: text tables, HTML pages, and the report of a search."""
