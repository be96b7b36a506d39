"""Filters: a small language that says which items may be ranked.

    category in ["jazz", "cooking"] and price < 20 and in_stock
    tags contains any ["live", "vinyl"] and not explicit
    published > now - 30d or price is missing

tree.py       what a filter is made of, and how it is written
grammar.py    the grammar, for lark
parsing.py    text -> tree, within bounds, with the place of an error
evaluation.py tree and attributes -> which items
filter.py     Filter: parsed once, applied to any model that has the attributes

A condition is true or false for every item, never anything between. A comparison with a missing value is false,
whichever it is: `price < 20`, `price >= 20`, `price != 20` and `price not in [20]` are all false for an item without a
price. `not` turns true into false and the other way round, so `not price < 20` is true for it. `price is missing` asks.
"""
