"""Lower bounds on epsilon: from an attack's scores or counts to an `AuditResult`."""
