"""Rules of a shop: how a page is made of what a search found, under the same budget.

    search ──► candidates, best first ──► boosts ──► pins, caps and diversity, one place after the other ──► page
               all that were scored       new order      offset and top_k cut the page out of this one ranking

rules.py       Rules: at_most, diversity, boost and pin, within bounds
reading.py     how each is written in a query string or on a command line: `author:2`, `1.5: in_stock`, `1:jazz-0007`
scenario.py    Scenario: a named recipe of budget, filter, rules and fallback; files of them
applying.py    rules and a model -> what is to be looked at for its items
caps.py        at most so many items of each value
diversity.py   maximal marginal relevance, with no product that does not decide anything
collecting.py  one place after the other: a pure function of the candidates
searching.py   the search and what its budget leaves for diversity, and then the page

A ranking does not depend on how much of it is asked for: pages put together are one long answer.
"""
