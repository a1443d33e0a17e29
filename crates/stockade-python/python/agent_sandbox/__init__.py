"""Programs written for Microsoft's ``agent_sandbox`` run on Stockade unchanged.

    from agent_sandbox import NonoSandboxProvider, SandboxConfig

    provider = NonoSandboxProvider()
    print(provider.run_once("agent-1", "print('hello')").result.stdout)
"""

from stockade import _conflict

from . import _toolkit

_conflict.refuse()
_toolkit.offer_documents()

from stockade import __version__ as __version__  # noqa: E402

from .aca_sandbox_provider import ACASandboxProvider  # noqa: E402
from .docker_provider import (  # noqa: E402
    DockerSandboxProvider,
    SandboxCheckpoint,
    SandboxStateManager,
)
from .hyperlight_provider import (  # noqa: E402
    HyperlightBackend,
    HyperlightConfig,
    HyperLightSandboxProvider,
    SnapshotHandle,
    hyperlight_config_from_policy,
)
from .isolation_runtime import IsolationRuntime  # noqa: E402
from .mxc_sandbox_provider import (  # noqa: E402
    MxcConfig,
    MxcSandboxProvider,
    mxc_config_from_policy,
)
from .nono_sandbox_provider import (  # noqa: E402
    NonoConfig,
    NonoSandboxProvider,
    nono_config_from_policy,
)
from .sandbox_provider import (  # noqa: E402
    ExecutionHandle,
    ExecutionStatus,
    SandboxConfig,
    SandboxProvider,
    SandboxResult,
    SessionHandle,
    SessionStatus,
)

__all__ = [
    "ACASandboxProvider",
    "DockerSandboxProvider",
    "ExecutionHandle",
    "ExecutionStatus",
    "HyperLightSandboxProvider",
    "HyperlightBackend",
    "HyperlightConfig",
    "IsolationRuntime",
    "MxcConfig",
    "MxcSandboxProvider",
    "NonoConfig",
    "NonoSandboxProvider",
    "SandboxCheckpoint",
    "SandboxConfig",
    "SandboxProvider",
    "SandboxResult",
    "SandboxStateManager",
    "SessionHandle",
    "SessionStatus",
    "SnapshotHandle",
    "hyperlight_config_from_policy",
    "mxc_config_from_policy",
    "nono_config_from_policy",
]
