"""Sessions in containers of a Docker engine."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any, Callable, ClassVar, Optional, Union

import stockade
from stockade import WallReport

from .._output import Output, staged
from .._policies import written
from .._walls import WallProvider
from ..isolation_runtime import IsolationRuntime
from ..sandbox_provider import SandboxConfig, SandboxResult
from .state import SandboxCheckpoint, SandboxStateManager

# The isolation of a container, as Stockade reports it, by the runtime behind it.
_RUNTIMES = {"user-kernel": IsolationRuntime.GVISOR, "vm": IsolationRuntime.KATA}

# What builds the hardened image. No registry has it.
_BUILD = "stockade image build --hardened"


def has_iptables() -> bool:
    """Whether the host has the command ``iptables``, which no provider needs."""
    return shutil.which("iptables") is not None


def docker_config_from_policy(policy: Any, base: SandboxConfig) -> SandboxConfig:
    """A config with what a policy says about limits, mounts and the network."""
    said = written(policy)[0]
    limits, mounts = said.get("defaults", {}), said.get("sandbox_mounts", {})
    return replace(
        base,
        env_vars=dict(base.env_vars),
        timeout_seconds=limits.get("timeout_seconds", base.timeout_seconds),
        memory_mb=limits.get("max_memory_mb", base.memory_mb),
        cpu_limit=limits.get("max_cpu", base.cpu_limit),
        network_default=limits.get("network_default", base.network_default),
        network_enabled=base.network_enabled
        or bool(said.get("network_allowlist"))
        or limits.get("network_default") == "allow",
        network_allowlist=list(said.get("network_allowlist", base.network_allowlist)),
        tool_allowlist=list(said.get("tool_allowlist", base.tool_allowlist)),
        input_dir=mounts.get("input_dir", base.input_dir),
        output_dir=mounts.get("output_dir", base.output_dir),
    )


class DockerSandboxProvider(WallProvider):
    """Sessions in hardened containers. The engine needs no network and no registry for them."""

    HARDENED_IMAGE_TAG: str = "agt-sandbox/python-minimal-path:3.11"
    """The image with few programs, which is used where the engine has it."""

    _wall: ClassVar[str] = "docker"
    _title: ClassVar[str] = "Docker daemon is not available"

    _PLAIN_IMAGE: ClassVar[str] = "python:3.11-slim"

    def __init__(
        self,
        image: Optional[str] = None,
        docker_url: Optional[str] = None,
        runtime: Union[IsolationRuntime, str] = IsolationRuntime.AUTO,
        tools: Optional[dict[str, Callable[..., Any]]] = None,
        require_hardened_image: bool = False,
    ) -> None:
        """Connects to no engine yet, unless `require_hardened_image` looks for its image."""
        super().__init__(tools)
        if image is not None and require_hardened_image:
            raise ValueError("image and require_hardened_image cannot be used together")
        self._image, self._url = image, docker_url
        self._asked = IsolationRuntime(runtime)
        if require_hardened_image:
            self._image = self._hardened()

    @property
    def runtime(self) -> IsolationRuntime:
        """The runtime of containers: with AUTO, the strongest that starts on this engine."""
        if self._asked is not IsolationRuntime.AUTO:
            return self._asked
        report = self._report()
        if not report.usable:
            return IsolationRuntime.AUTO
        return _RUNTIMES.get(report.isolation, IsolationRuntime.RUNC)

    @property
    def kernel_isolated(self) -> bool:
        """Whether containers have a kernel of their own."""
        return self.runtime in (IsolationRuntime.GVISOR, IsolationRuntime.KATA)

    def ensure_image(self, image: Optional[str] = None) -> None:
        """Checks that the engine has an image; RuntimeError with the command that brings it."""
        wanted = image or self._chosen()
        try:
            is_there = stockade.has_image(wanted, docker_url=self._url)
        except stockade.StockadeError as error:
            raise RuntimeError(f"Docker daemon is not available: {error}") from error
        if not is_there:
            remedy = _BUILD if wanted == self.HARDENED_IMAGE_TAG else f"docker pull {wanted}"
            raise RuntimeError(f"the engine has no image {wanted}; run `{remedy}`")

    def run(
        self,
        agent_id: str,
        command: list[str],
        config: Optional[SandboxConfig] = None,
        *,
        session_id: Optional[str] = None,
    ) -> SandboxResult:
        """Runs a command in a session of an agent."""
        session = self._registry.latest(agent_id, session_id)
        if session is None:
            return SandboxResult(False, -1, stderr=f"No container found for agent '{agent_id}'")
        return self._run_in(session, command, config)

    def save_state(self, agent_id: str, session_id: str, name: str) -> SandboxCheckpoint:
        """Keeps the files of a session, under a name of its agent."""
        return SandboxStateManager(self).save(agent_id, session_id, name)

    def restore_state(
        self, agent_id: str, session_id: str, name: str, config: Optional[SandboxConfig] = None
    ) -> None:
        """Brings the files of a session back to a kept state. Executions must have ended."""
        SandboxStateManager(self).restore(agent_id, session_id, name, config)

    def list_checkpoints(self, agent_id: str) -> list[SandboxCheckpoint]:
        """The kept states of an agent, oldest first."""
        return SandboxStateManager(self).list_checkpoints(agent_id)

    def delete_checkpoint(self, agent_id: str, name: str) -> None:
        """Removes a kept state."""
        SandboxStateManager(self).delete_checkpoint(agent_id, name)

    def _report(self) -> WallReport:
        runtime = self._asked.value
        return stockade.wall_report("docker", quick=True, docker_url=self._url, runtime=runtime)

    def _open(
        self, policy: stockade.Policy, config: SandboxConfig, context: dict[str, Any]
    ) -> tuple[stockade.Sandbox, Output]:
        policy, output = staged(policy)
        try:
            sandbox, _ = super()._open(policy, config, context)
        except BaseException:
            output.remove()
            raise
        return sandbox, output

    def _options(self, config: SandboxConfig) -> dict[str, Any]:
        runtime = config.runtime or self._asked.value
        return {"image": self._chosen(), "docker_url": self._url, "runtime": runtime}

    def _chosen(self) -> str:
        """The image of sessions: the named one, else the hardened one, else the plain one."""
        if self._image is None:
            is_there = False
            try:
                is_there = stockade.has_image(self.HARDENED_IMAGE_TAG, docker_url=self._url)
            except stockade.StockadeError:
                # The session reports why the engine does not answer.
                return self._PLAIN_IMAGE
            self._image = self.HARDENED_IMAGE_TAG if is_there else self._PLAIN_IMAGE
        return self._image

    def _hardened(self) -> str:
        try:
            is_there = stockade.has_image(self.HARDENED_IMAGE_TAG, docker_url=self._url)
        except stockade.StockadeError as error:
            raise RuntimeError(f"cannot look for {self.HARDENED_IMAGE_TAG}: {error}") from error
        if not is_there:
            message = f"Hardened sandbox image '{self.HARDENED_IMAGE_TAG}' is required"
            raise RuntimeError(f"{message} but the engine does not have it; run `{_BUILD}`")
        return self.HARDENED_IMAGE_TAG
