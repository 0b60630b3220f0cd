"""An admin panel: accounts and invoices in tables, with bulk changes and settings."""
