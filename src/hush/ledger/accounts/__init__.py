"""Budgets, reservations, people and their roles."""
