"""LCTL v3: documents that agents hand to one another, read, checked, merged, received and written."""
