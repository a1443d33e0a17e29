"""Runs one program inside a sandbox of the managed wall. Stockade uploads this file.

    runner.py setup ID   checks that this machine can hold what a policy asks for
    runner.py run ID     runs the program of ID/spec.json, and prints how it ended
    runner.py kill ID    kills the programs; further verbs send other signals

It runs as root, and programs as another user: they can neither read nor stop it. Every file that it
shares with the host is below one directory of root. It prints one JSON object and nothing else.
"""

import base64
import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time

HOME = os.path.dirname(os.path.abspath(__file__))
# No service of a disk image has this user.
USER = 20000
WORKSPACE = "/workspace"
TOOLS = "/run/stockade"
CODE = HOME + "-code"
SOCKET = TOOLS + "/tools.sock"
SIGNALS = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "int": signal.SIGINT,
    "hup": signal.SIGHUP,
    "quit": signal.SIGQUIT,
    "usr1": signal.SIGUSR1,
    "usr2": signal.SIGUSR2,
    "stop": signal.SIGSTOP,
    "cont": signal.SIGCONT,
}
# What the service sets so that programs reach the network through it.
SERVICE = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]
SERVICE += [name.lower() for name in SERVICE]
SERVICE += ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]
SERVICE += ["NODE_EXTRA_CA_CERTS"]

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE = 38, 22, 36, 4
LIBC = ctypes.CDLL(None, use_errno=True)


class Unable(Exception):
    """This machine cannot do what is asked."""


def prctl(option, second=0, third=0):
    arguments = [ctypes.c_ulong(value) for value in (second, third, 0, 0)]
    if LIBC.prctl(option, *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def become(user):
    """Becomes the user of programs, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def is_alive():
    """Whether the user has a process that has not ended."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file if b":" in line)
        except OSError:
            continue
        state, users = fields[b"State"].split()[0], fields[b"Uid"].split()
        # The owner of the directory is another one if the process cannot be dumped.
        if str(USER).encode() in users and state not in (b"Z", b"X"):
            return True
    return False


def signal_all(number):
    """Sends a signal to every process of the user. Returns whether there was one."""
    if not is_alive():
        return False
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(USER)
            # All processes that this user may signal, except itself, kill(2).
            os.kill(-1, number)
            code = 0
        except ProcessLookupError:
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise Unable("the processes of programs cannot be signalled")
    return True


def reap():
    """Collects children that have ended; returns their statuses by process."""
    ended = {}
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if process == 0:
            return ended
        ended[process] = status


def clear():
    """Ends every process of the user."""
    deadline = time.monotonic() + 5
    ended = {}
    while signal_all(signal.SIGKILL):
        ended.update(reap())
        if time.monotonic() > deadline:
            raise Unable("processes of programs do not end")
        time.sleep(0.002)
    ended.update(reap())
    return ended


def directories(writable):
    """Makes the directories of programs."""
    for path, mode in (("/tmp", 0o1777), ("/var/tmp", 0o1777)):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
    os.makedirs(WORKSPACE, exist_ok=True)
    owner = USER if writable else 0
    os.chown(WORKSPACE, owner, owner)
    os.chmod(WORKSPACE, 0o755)


def adopt(directory):
    """Gives files that the host wrote to the user of programs. Follows no link."""
    for _, names, files, place in os.fwalk(directory, follow_symlinks=False):
        for name in names + files:
            found = os.stat(name, dir_fd=place, follow_symlinks=False)
            # A file with a second name may be one of the system's.
            if found.st_uid == 0 and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
                os.chown(name, USER, USER, dir_fd=place, follow_symlinks=False)


def setup():
    if os.getuid() != 0:
        raise Unable("its commands do not run as root, so programs cannot run as another user")
    directories(True)
    # A trial of everything that a program's start needs.
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(USER)
            prctl(PR_SET_NO_NEW_PRIVS, 1)
            code = 0 if os.getresuid() == (USER, USER, USER) else 1
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise Unable("programs cannot run as another user")
    return {"machine": os.uname().machine, "kernel": os.uname().release}


def readable(directory):
    """Lets programs read what the host wrote, and not change it."""
    if not os.path.isdir(directory):
        return
    for _, names, files, place in os.fwalk(directory, follow_symlinks=False):
        os.fchmod(place, 0o755)
        for name in files:
            os.chmod(name, 0o644, dir_fd=place)


class Stream:
    """An output stream of a program: its first bytes are kept, the rest is counted."""

    def __init__(self, path, most):
        self.read, self.write = os.pipe()
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.most, self.kept, self.dropped, self.open = most, 0, 0, True

    def take(self):
        try:
            data = os.read(self.read, 65536)
        except BlockingIOError:
            return False
        if not data:
            self.open = False
            return False
        part = data[: self.most - self.kept]
        view = memoryview(part)
        while view:
            view = view[os.write(self.file, view) :]
        self.kept += len(part)
        self.dropped += len(data) - len(part)
        return True


class Input:
    """The input of a program, which the host writes as numbered files."""

    def __init__(self, directory, wanted):
        self.directory, self.number, self.rest = directory, 0, b""
        self.read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        if not wanted:
            self.close()

    def close(self):
        if self.write is not None:
            os.close(self.write)
            self.write = None

    def pump(self):
        """Passes on what has come."""
        while self.write is not None:
            if not self.rest:
                found = whole(os.path.join(self.directory, str(self.number)))
                if found is None:
                    return
                self.number += 1
                if not found:
                    return self.close()
                self.rest = found
            try:
                self.rest = self.rest[os.write(self.write, self.rest) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                return self.close()


def whole(path):
    """A file that starts with its length, once it is complete; it is removed."""
    try:
        with open(path, "rb") as file:
            head, _, data = file.read().partition(b"\n")
    except FileNotFoundError:
        return None
    if not head.isdigit() or len(data) < int(head):
        return None
    os.unlink(path)
    return data[: int(head)]


class Tools:
    """Relays tool calls between programs and files that the host reads and writes."""

    def __init__(self, base):
        self.calls, self.answers = os.path.join(base, "calls"), os.path.join(base, "answers")
        os.makedirs(self.calls, 0o700)
        os.makedirs(self.answers, 0o700)
        self.clients, self.count = {}, 0
        try:
            os.unlink(SOCKET)
        except FileNotFoundError:
            pass
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(SOCKET)
        os.chmod(SOCKET, 0o666)
        self.listener.listen(64)
        self.listener.setblocking(False)

    def sockets(self):
        return [self.listener, *(it["socket"] for it in self.clients.values() if it["open"])]

    def accept(self):
        try:
            client, _ = self.listener.accept()
        except BlockingIOError:
            return
        if len(self.clients) >= 64:
            client.close()
            return
        client.setblocking(False)
        number, self.count = self.count, self.count + 1
        self.clients[number] = {"socket": client, "open": True, "sent": 0, "got": 0, "out": b""}

    def write(self, number, client, data):
        """Hands bytes of a program to the host; none is the end."""
        name = f"{number}-{client['sent']}"
        client["sent"] += 1
        path = os.path.join(self.calls, name)
        with open(path + ".new", "wb") as file:
            file.write(b"%d\n" % len(data) + data)
        os.rename(path + ".new", path)

    def pump(self, ready):
        """Passes on what has come from both sides."""
        if self.listener in ready:
            self.accept()
        for number, client in list(self.clients.items()):
            if client["open"] and client["socket"] in ready:
                try:
                    data = client["socket"].recv(65536)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                self.write(number, client, data)
                client["open"] = bool(data)
            while True:
                if not client["out"]:
                    name = f"{number}-{client['got']}"
                    found = whole(os.path.join(self.answers, name))
                    if found is None:
                        break
                    client["got"] += 1
                    if not found:
                        client["socket"].close()
                        del self.clients[number]
                        break
                    client["out"] = found
                try:
                    client["out"] = client["out"][client["socket"].send(client["out"]) :]
                except BlockingIOError:
                    break
                except OSError:
                    client["out"] = b""

    def close(self):
        self.listener.close()
        for client in self.clients.values():
            client["socket"].close()


class Watch:
    """Measures what no limit of the kernel holds here."""

    def __init__(self, limits):
        self.limits, self.traffic = limits, self.bytes()
        # A program that removes files first has a second for it.
        self.next = time.monotonic() + 1

    def bytes(self):
        """Bytes on the network, without loopback."""
        total = 0
        try:
            with open("/proc/net/dev") as file:
                lines = file.read().splitlines()[2:]
        except OSError:
            return 0
        for line in lines:
            name, _, counts = line.partition(":")
            fields = counts.split()
            if name.strip() != "lo" and len(fields) > 8:
                total += int(fields[0]) + int(fields[8])
        return total

    def connections(self):
        """Established connections of programs to other machines."""
        found = 0
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                with open(table) as file:
                    lines = file.read().splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                fields = line.split()
                if len(fields) > 7 and fields[3] == "01" and fields[7] == str(USER):
                    found += 1
        return found

    def files(self):
        """Bytes and inodes of programs in their directories; stops where both are over."""
        used, inodes = 0, 0
        for place in (WORKSPACE, "/tmp", "/var/tmp", "/dev/shm"):
            for _, names, files, here in os.fwalk(place, follow_symlinks=False):
                for name in names + files:
                    try:
                        found = os.stat(name, dir_fd=here, follow_symlinks=False)
                    except OSError:
                        continue
                    if found.st_uid == USER:
                        used += found.st_blocks * 512
                        inodes += 1
                if used > self.limits["disk_bytes"] or inodes > self.limits["inodes"]:
                    return used, inodes
        return used, inodes

    def exceeded(self):
        """The name of a limit that is exceeded, looked at once a second."""
        if time.monotonic() < self.next:
            return None
        used, inodes = self.files()
        # A slow look is followed by a pause of ten times its time.
        self.next = time.monotonic() + max(1, 10 * (time.monotonic() - self.next))
        if used > self.limits["disk_bytes"]:
            return "disk"
        if inodes > self.limits["inodes"]:
            return "inodes"
        if self.bytes() - self.traffic > self.limits["egress_bytes"]:
            return "egress_bytes"
        if self.connections() > self.limits["connections"]:
            return "connections"
        return None


def limit(kind, most):
    """Sets a limit of the kernel, or the lower one that holds already."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


def start(spec, streams, stdin, failed):
    """Becomes the program. Never returns."""
    step = "prepare"
    try:
        os.setsid()
        for number, descriptor in enumerate((stdin.read, streams[0].write, streams[1].write)):
            os.dup2(descriptor, number)
        limits = spec["limits"]
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_NOFILE, limits["open_files"])
        limit(resource.RLIMIT_NPROC, limits["pids"])
        if limits["cpu_seconds"] is not None:
            limit(resource.RLIMIT_CPU, limits["cpu_seconds"])
        os.umask(0o022)
        become(USER)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        step = "chdir"
        os.chdir(spec["directory"])
        step = "seccomp"
        environment = {name: os.environ[name] for name in SERVICE if name in os.environ}
        environment.update(spec["environment"])
        for signal_number in range(1, signal.NSIG):
            try:
                signal.signal(signal_number, signal.SIG_DFL)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.closerange(3, failed)
        os.closerange(failed + 1, 4096)
        for filter in spec["filters"]:
            code = base64.b64decode(filter)
            held = ctypes.create_string_buffer(code, len(code))
            program = ctypes.create_string_buffer(
                struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
            )
            prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))
        step = "exec"
        os.execvpe(spec["words"][0], spec["words"], environment)
    except OSError as error:
        os.write(failed, f"{step} {error.errno or 0}".encode())
    except BaseException:
        os.write(failed, f"{step} 0".encode())
    os._exit(127)


def oom_kills():
    """Processes that the kernel killed for want of memory, as far as it counts them."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            with open(path) as file:
                for line in file:
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value)
        except (OSError, ValueError):
            pass
    return 0


def run(identity):
    base = os.path.join(HOME, identity)
    os.chmod(base, 0o700)
    with open(os.path.join(base, "spec.json"), "rb") as file:
        spec = json.load(file)
    os.unlink(os.path.join(base, "spec.json"))
    if os.getuid() != 0 or os.uname().machine != spec["machine"]:
        raise Unable("the machine is another one than at its setup")
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    clear()
    directories(spec["writable"])
    adopt(WORKSPACE)
    readable(CODE)
    readable(TOOLS)
    kills = oom_kills()
    most = spec["limits"]["output_bytes"]
    streams = [Stream(os.path.join(base, name), most) for name in ("stdout", "stderr")]
    stdin = Input(os.path.join(base, "in"), spec["stdin"])
    tools = Tools(base) if spec["tools"] else None
    watch, killed = Watch(spec["limits"]), os.path.join(base, "killed")
    failed_read, failed = os.pipe()
    deadline = time.monotonic() + spec["limits"]["timeout_seconds"]
    child = os.fork()
    if child == 0:
        start(spec, streams, stdin, failed)
    for descriptor in (failed, streams[0].write, streams[1].write, stdin.read):
        os.close(descriptor)
    with open(os.path.join(base, "pid"), "w") as file:
        file.write(str(child))
    failure = os.read(failed_read, 64).decode()
    for stream in streams:
        os.set_blocking(stream.read, False)
    status, limit_name = None, None
    while status is None:
        inputs = [stream.read for stream in streams if stream.open]
        if tools:
            inputs += tools.sockets()
        ready, _, _ = select.select(inputs, [], [], 0.01)
        for stream in streams:
            if stream.read in ready:
                stream.take()
        stdin.pump()
        if tools:
            tools.pump(ready)
        status = reap().get(child)
        if status is None:
            # A kill may come before the program does.
            if os.path.exists(killed):
                break
            limit_name = "timeout" if time.monotonic() > deadline else watch.exceeded()
            if limit_name:
                break
    ended = clear()
    status = ended.get(child) if status is None else status
    for stream in streams:
        while stream.open and stream.take():
            pass
    if tools:
        tools.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "stdout": [streams[0].kept, streams[0].dropped],
        "stderr": [streams[1].kept, streams[1].dropped],
        "cpu_ms": int((used.ru_utime + used.ru_stime) * 1000),
        "memory_peak_bytes": used.ru_maxrss * 1024,
        "oom_kills": max(0, oom_kills() - kills),
    }
    if limit_name:
        return {**result, "end": "limit", "value": limit_name}
    if failure:
        step, _, code = failure.partition(" ")
        return {**result, "end": "not_started", "value": step, "errno": int(code)}
    if status is None:
        raise Unable("the end of the program was lost")
    most_cpu = spec["limits"]["cpu_seconds"]
    is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if is_killed and most_cpu is not None and used.ru_utime + used.ru_stime >= most_cpu:
        return {**result, "end": "limit", "value": "cpu_time"}
    if os.WIFSIGNALED(status):
        return {**result, "end": "signal", "value": os.WTERMSIG(status)}
    return {**result, "end": "exit", "value": os.WEXITSTATUS(status)}


def send(verb, identity):
    number = SIGNALS[verb]
    if verb == "kill":
        os.makedirs(os.path.join(HOME, identity), exist_ok=True)
        open(os.path.join(HOME, identity, "killed"), "w").close()
    if verb in ("kill", "stop", "cont"):
        return {"sent": signal_all(number)}
    with open(os.path.join(HOME, identity, "pid")) as file:
        process = int(file.read())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # With the rights of the user, so that no other process can be meant.
            become(USER)
            os.kill(process, number)
            code = 0
        finally:
            os._exit(code)
    return {"sent": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0}


def main():
    verb, identity = sys.argv[1:]
    try:
        if verb == "setup":
            answer = setup()
        elif verb == "run":
            answer = run(identity)
        else:
            answer = send(verb, identity)
    except (Unable, OSError, KeyError, ValueError) as error:
        answer = {"unable": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


main()
