"""The grammar of filters, in lark's words. Words of the language may be written in capitals."""

GRAMMAR = r"""
?start: either

?either: both
       | both ("or"i both)+                      -> either

?both: negation
     | negation ("and"i negation)+               -> both

?negation: condition
         | "not"i negation                       -> negation

?condition: "(" either ")"
          | name                                 -> flagged
          | name "is"i "missing"i                -> missing
          | name "is"i "not"i "missing"i         -> present
          | name OPERATOR value                  -> comparison
          | name "in"i values                    -> among
          | name "not"i "in"i values             -> not_among
          | name "contains"i value               -> contains
          | name "contains"i "any"i values       -> contains_any
          | name "contains"i "all"i values       -> contains_all
          | "@" NAMED                            -> named

name: NAME | QUOTED_NAME
values: "[" [value ("," value)*] "]"

?value: TEXT                                     -> text
      | NUMBER                                   -> number
      | TIME                                     -> moment
      | "true"i                                  -> true
      | "false"i                                 -> false
      | "now"i                                   -> now
      | "now"i "-" DURATION                      -> before
      | "now"i "+" DURATION                      -> after

OPERATOR: /==|=|!=|<=|<|>=|>/
NAME: /[^\W\d]\w*/i
QUOTED_NAME: /`[^`]+`/
NAMED: /[A-Za-z0-9_-]+/
TEXT: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
NUMBER: /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)/
TIME.2: /\d{4}-\d{2}-\d{2}(?:[Tt][\d:.]+(?:[Zz]|[+-]\d{2}:?\d{2})?)?(?!\w)/
DURATION: /\d{1,9}[smhdwSMHDW](?!\w)/

%ignore /\s+/
"""
