"""Reading a ledger back: replay, verify, recompute, export."""
