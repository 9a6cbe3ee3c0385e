"""From an attack's scores to a lower bound on epsilon.

Data flows through the files of this package in this order:

    scores       two arrays, or one array and the coins of its canaries           audit.py
    Sample       checked scores; counts at any threshold                          sample.py
    rule         how a threshold is chosen, and what the choice costs             thresholds.py, method.py
    method       counts to a bound: rates of two worlds                           rates.py, counts.py, gaussian.py
                 or guesses about one run                                         one_run.py, guesses.py, one_run_fdp.py
                 or a posterior                                                   bayes.py
    AuditResult  the bound with its confidence and assumptions                    result.py

`roc.py` turns the same scores into a curve, which proves nothing. The public names are in `hush.audit`.
"""
