"""The training loop: `privatize` builds a `session`, which takes `batches`, adds noise (`update`) and pays for it."""
