"""A private search for hyper-parameters: `space`, `scores`, random `repetitions`, the `search`, and `tune`."""
