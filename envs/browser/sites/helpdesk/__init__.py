"""A help desk: tickets, replies, notes, assignment and status."""
