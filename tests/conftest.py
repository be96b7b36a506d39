"""What all tests share."""

from hypothesis import settings

# A deadline would be an assertion about wall-clock time.
settings.register_profile("budgetrec", deadline=None)
settings.load_profile("budgetrec")
