"""The small models of the service's tests, for its clients."""

from tests.service.conftest import model

__all__ = ["model"]
