"""Budgets: data sets, reservations, people and their roles."""
