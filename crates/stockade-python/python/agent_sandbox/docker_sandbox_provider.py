"""Another name of `agent_sandbox.docker_provider`."""

from .docker_provider import *  # noqa: F403
from .docker_provider import __all__ as __all__
