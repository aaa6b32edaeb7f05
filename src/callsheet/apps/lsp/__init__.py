"""`callsheet lsp`: what `views.editor` knows of plans, over the language server protocol. Thin glue."""
