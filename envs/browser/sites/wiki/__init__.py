"""A small wiki: pages with facts, links, categories, edits and revisions."""
