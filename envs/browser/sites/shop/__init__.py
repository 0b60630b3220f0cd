"""A shop: search, filters, a cart, checkout, orders and returns."""
