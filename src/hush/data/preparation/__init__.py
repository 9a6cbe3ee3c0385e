"""Turns raw data into examples: learns what is not declared, encodes, and splits.

In reading order: `inspection` gives every column a kind from public facts (`names` reads names), or raises all
`questions` at once; `plan` decides from names, types and declarations what happens to each column; `split` holds units
out and picks the row that each unit learns with; `learning` releases bounds and values privately, and `widening`
notices bounds that leave data out; `encoding` turns values into inputs; `examples` applies a complete schema;
`prepared_data` does all of it.
"""
