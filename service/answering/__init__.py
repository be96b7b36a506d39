"""From a question to the bytes of its answer.

question   who, how much, until when, whatever brought it
budgets    the one budget that is granted: what was asked, less what deadline, maximum and overload take off
admission  how much work waits, and who gets how much of what is left
cost       what a product costs here and now
answering  prepare ─► search ─► finish: one way for every question
answer     the JSON
"""
