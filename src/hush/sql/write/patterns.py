"""Regular expressions for texts that a CAST takes, for engines whose CAST raises or reads half a text.

Braces are doubled, because templates are filled with `str.format`.
"""

NUMBER_PATTERN = r"'^[+-]?[0-9]{{1,90}}([.][0-9]{{0,90}})?([eE][+-]?[0-9]{{1,2}})?$'"
# Matches exactly the dates that exist, with leap days by the Gregorian rule.
DATE_PATTERN = (
    "'^([0-9]{{4}}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    "|([0-9]{{2}}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)$'"
)
