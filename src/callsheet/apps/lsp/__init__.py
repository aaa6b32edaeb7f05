"""`callsheet lsp`: connects `views.editor` to the language server protocol."""
