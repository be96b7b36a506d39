"""Client of the budgetrec service, synchronous and asynchronous.

Client, AsyncClient   the calls
types                 what goes in and out, as TypedDicts
BudgetrecError        what is raised
  ├─ ApiError           the service answered with an error
  ├─ Unreachable        no answer came
  └─ DeadlineExceeded   there was no time left
"""

from budgetrec_client.client import AsyncClient, Client
from budgetrec_client.errors import ApiError, BudgetrecError, DeadlineExceeded, Unreachable

__all__ = ["ApiError", "AsyncClient", "BudgetrecError", "Client", "DeadlineExceeded", "Unreachable"]
