"""What is known about items beside their vectors: attributes, to filter by and to show.

times.py      moments: microseconds since 1970, and ISO 8601
packing.py    values of a column -> the arrays of an attribute
attribute.py  Attribute and ListAttribute: one column over memory-mapped arrays
table.py      Attributes: all columns by name

Every attribute is stored as a sorted dictionary of its values and a code for each item. So a comparison of any kind is
a comparison of small whole numbers, whatever the values are; code 0 says that the value is missing.
"""
