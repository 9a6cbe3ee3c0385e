"""The noise of a step: `gaussian` (independent), `correlated` over steps by a `factorisation`, drawn as a `stream`."""
