"""The local model: every person randomises their own record before it is collected."""
