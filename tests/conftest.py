"""Settings for every test: property tests are reproducible by default and never judged by the clock."""

from hypothesis import settings

from services import postgres_url as postgres_url
from services import spark_session as spark_session

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2_000)
settings.load_profile("reproducible")  # `pytest --hypothesis-profile=explore` searches further
