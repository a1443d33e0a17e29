"""The classes of tutorials about sandboxes, each in front of a real wall.

    from stockade.simple import ProcessSandbox, SandboxConfig

    sandbox = ProcessSandbox(SandboxConfig(max_execution_time_seconds=5))
    print(sandbox.execute("print(1 + 1)")["stdout"])
    sandbox.cleanup()
"""

from .filesystem import FilesystemSandbox, ResourceExhaustedError, SecurityError
from .functions import SubprocessSandbox, run_code_in_sandbox, safe_shell
from .manager import SandboxManager
from .network import NetworkPolicy, NetworkSandbox, ProxiedNetworkSandbox
from .sandboxes import DockerSandbox, ProcessSandbox, Sandbox, SandboxConfig

__all__ = [
    "DockerSandbox",
    "FilesystemSandbox",
    "NetworkPolicy",
    "NetworkSandbox",
    "ProcessSandbox",
    "ProxiedNetworkSandbox",
    "ResourceExhaustedError",
    "Sandbox",
    "SandboxConfig",
    "SandboxManager",
    "SecurityError",
    "SubprocessSandbox",
    "run_code_in_sandbox",
    "safe_shell",
]
