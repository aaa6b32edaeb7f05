"""Pure renderings: a plan, a journal or a trace in; text, pictures and documents out."""
