"""Private selection of features and hyper-parameters, and the splits used to score them.

In reading order:

- `encoder`: `PublicOneHotEncoder`, which turns public categories into columns and costs nothing.
- `feature_selection`: `PrivateSelectBest`, which chooses features.
- `splits`: `HeldOut` and `Folds`, and the cost of comparing settings on them.
- `grid_table`: the rows of a search, with a placeholder row.
- `grid_search`: `PrivateGridSearch`, which chooses settings.
"""
