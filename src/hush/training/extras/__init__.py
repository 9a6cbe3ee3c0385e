"""What private training gains from, and could do without: averages, optimizers, adapters, scattering features."""
