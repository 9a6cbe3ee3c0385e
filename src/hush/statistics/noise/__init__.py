"""From exact totals to released ones: noise, thresholds for groups, trees of counts, and intervals."""
