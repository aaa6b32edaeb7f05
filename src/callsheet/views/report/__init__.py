"""A run as one document for the viewer, and as one HTML page that holds the viewer and the document."""
