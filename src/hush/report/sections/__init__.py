"""The sections of a report, and the document around them."""
