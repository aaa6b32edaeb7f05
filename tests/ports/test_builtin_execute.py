"""Code in a real sandbox with real limits: what it may do, what it may not, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.machine import Cut, Fact
from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, builtin_tools, isolation
from callsheet.ports.builtin.execute.jobs import find_program, limited_job
from callsheet.ports.builtin.execute.process import Finished, requirement, run_job
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.outcome_texts import clean_output
from callsheet.ports.tools import Registry

CONTEXT = CallContext("run", "S1", "key")


def settings_in(place: Path, **execution: Any) -> BuiltinSettings:
    return BuiltinSettings(workspace=place, data=place / "data", execution=ExecutionSettings(**execution))


with tempfile.TemporaryDirectory() as _place:
    ISOLATION = isolation(settings_in(Path(_place)))
sandboxed = pytest.mark.skipif(ISOLATION.kind != "namespaces", reason=f"here is {ISOLATION}")


async def run(
    place: Path, code: str, tool: str = "EXEC_CODE", execution: dict[str, Any] | None = None, **more: Any
) -> Any:
    tools = Registry(builtin_tools(settings_in(place, **{"require": "best-effort", **(execution or {})})))
    value = await tools.require(tool).handler({"code": code, **more}, CONTEXT)
    assert value["isolation"] in (ISOLATION.kind, "interpreter")
    return clean_output(tool, value)


async def run_limited(place: Path, code: str, language: str = "python", **execution: Any) -> Finished:
    """Run code without a sandbox on any machine."""
    settings = settings_in(place, **execution)
    with tempfile.TemporaryDirectory() as scratch:
        job = limited_job(find_program(language, code), settings, scratch)
        return await run_job(job, "", settings.execution.timeout, settings.execution.output_bytes)


async def listed(*options: str) -> str:
    """The output of ps about the processes of this machine."""
    command = ["ps", *(options or ("axww", "-o", "args"))]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    return done.stdout


def mark_of_test() -> str:
    return f"callsheet-test-{os.getpid()}-{time.monotonic_ns()}"


async def test_code_returns_its_output(tmp_path):
    assert await run(tmp_path, "print('Grüße'); print(6 * 7)") == "Grüße\n42"
    assert await run(tmp_path, "echo $((6 * 7))", "SHELL_EXEC") == "42"
    assert await run(tmp_path, "echo hi", language="shell") == "hi"


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("class A:\n    x = 6\nprint(A.x * 7)", "interpreter"),
        ("import json\nprint(json.dumps(sorted({2: 1, 1: 2}.items())))", "interpreter"),
        ("import os\nprint(os.getpid() > 0)", ISOLATION.kind),
        ("import sys\nprint(sys.stdin.read())", ISOLATION.kind),
        ("from datetime import date\nprint(date.today().year > 2000)", ISOLATION.kind),
    ],
)
async def test_python_that_touches_nothing_runs_in_the_interpreter(tmp_path, code, place):
    tools = Registry(builtin_tools(settings_in(tmp_path, require="best-effort")))
    value = await tools.require("EXEC_CODE").handler({"code": code}, CONTEXT)
    assert (value["isolation"], value["exit_code"], value["stderr"]) == (place, 0, "")
    assert value["stdout"].endswith("\n")


async def test_time_of_pure_python_is_limited(tmp_path):
    with pytest.raises(ToolFailed, match="more than 1 seconds of processor time"):
        await run(tmp_path, "while True: pass", execution={"cpu_seconds": 1})


async def test_failure_of_pure_python_is_told_as_cpython_tells_it(tmp_path):
    with pytest.raises(
        ToolFailed, match=r"Traceback[^$]*ZeroDivisionError: division by zero[^$]*exit code 1"
    ):
        await run(tmp_path, "print('before')\n1 / 0")


async def test_program_that_declares_files_runs_in_the_sandbox(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    tools = Registry(builtin_tools(settings_in(tmp_path, require="best-effort")))
    value = await tools.require("EXEC_CODE").handler({"code": "print(1)", "reads": ["a.txt"]}, CONTEXT)
    assert value["isolation"] == ISOLATION.kind


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here")
async def test_javascript_runs_where_node_is_installed(tmp_path):
    assert await run(tmp_path, "console.log(await 42)", language="javascript") == "42"


async def test_data_is_passed_on_stdin(tmp_path):
    data = "'; import os; os._exit(3) #\n" * 10_000
    assert await run(tmp_path, "import sys; print(len(sys.stdin.read()))", stdin=data) == str(len(data))


async def test_unread_input_is_harmless(tmp_path):
    assert await run(tmp_path, "import os; print(1)", stdin="x" * 5_000_000) == "1"


async def test_failing_code_is_failure_with_stderr(tmp_path):
    with pytest.raises(ToolFailed, match=r"ModuleNotFoundError[^$]*exit code 1"):
        await run(tmp_path, "import no_such_module")
    with pytest.raises(ToolFailed, match=r"before\nafter\n.*exit code 168"):
        await run(tmp_path, "echo before; echo after >&2; exit 168", "SHELL_EXEC")


async def test_unknown_language_is_refused(tmp_path):
    with pytest.raises(ToolFailed, match="python, shell, javascript"):
        await run(tmp_path, "x", language="cobol")


async def test_environment_secrets_are_hidden(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", "canary-secret")
    seen = await run(tmp_path, "import os; print(dict(os.environ))")
    assert "canary" not in seen.lower()


async def test_runs_have_separate_empty_folders(tmp_path):
    code = (
        "import os, tempfile\n"
        "print(os.listdir(), os.getcwd() == os.environ['HOME'] == tempfile.gettempdir())\n"
        "open('x', 'w').close()"
    )
    for _ in range(2):
        assert await run(tmp_path, code) == "['main.py'] True"


async def test_workspace_is_visible_if_configured(tmp_path):
    tmp_path.chmod(0o755)  # in a sandbox that root makes, code is nobody
    (tmp_path / "server.py").write_text("print('served')")
    assert await run(tmp_path, "cat server.py", "SHELL_EXEC", {"workspace": "read"}) == "print('served')"
    with pytest.raises(ToolFailed, match="No such file"):
        await run(tmp_path, "cat server.py", "SHELL_EXEC")


@sandboxed
async def test_sandboxed_workspace_is_read_only(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ToolFailed, match="Read-only file system"):
        await run(tmp_path, "open('new', 'w')", execution={"workspace": "read"})
    assert not (tmp_path / "new").exists()


async def test_endless_program_is_killed(tmp_path):
    code = "import time\nprint('here', flush=True)\ntime.sleep(600)"
    with pytest.raises(ToolFailed, match=r"(?s)here.*longer than 3 seconds"):
        await run(tmp_path, code, execution={"timeout": 3})


async def test_cpu_time_is_limited(tmp_path):
    with pytest.raises(ToolFailed, match="more than 1 seconds of processor time"):
        await run(tmp_path, "import os\nwhile True: pass", execution={"cpu_seconds": 1})


async def test_memory_is_limited(tmp_path):
    with pytest.raises(ToolFailed, match="MemoryError"):
        await run(tmp_path, "x = b'x' * 400_000_000", execution={"memory_bytes": 200_000_000})


async def test_file_size_is_limited(tmp_path):
    with pytest.raises(ToolFailed, match="File too large"):
        await run(tmp_path, "open('x', 'wb').write(b'x' * 2_000_000)", execution={"file_bytes": 1_000_000})


async def test_long_output_is_truncated_with_mark(tmp_path):
    text = await run(tmp_path, "print('x' * 3_000_000)", execution={"output_bytes": 1_000})
    assert text.startswith("x" * 1_000)
    assert "[2999001 more bytes of output were cut]" in text


@sandboxed
async def test_fork_bomb_is_limited_and_ends(tmp_path):
    bomb = (
        "import os, time\n"
        "made = 0\n"
        "while True:\n"
        "    try:\n"
        "        pid = os.fork()\n"
        "    except OSError:\n"
        "        break\n"
        "    if pid == 0:\n"
        "        time.sleep(60)\n"
        "    made += 1\n"
        "print(made)"
    )
    assert 0 < int(await run(tmp_path, bomb, execution={"processes": 20, "timeout": 50})) < 20
    endless = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    with pytest.raises(ToolFailed, match="longer than 1 seconds"):
        await run(tmp_path, endless, execution={"processes": 20, "timeout": 1})


@sandboxed
async def test_no_sandbox_process_outlives_call(tmp_path):
    mark = mark_of_test()
    code = (
        "import subprocess, sys\n"
        f"command = [sys.executable, '-c', 'import time; time.sleep(60)', '{mark}']\n"
        "subprocess.Popen(command, start_new_session=True)"
    )
    await run(tmp_path, code)
    assert mark not in await listed()


@sandboxed
async def test_sandbox_has_no_network(tmp_path):
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('connected')"
    async with listener:
        with pytest.raises(ToolFailed, match=r"OSError|ConnectionRefused"):
            await run(tmp_path, code)
        assert await run(tmp_path, code, execution={"network": True}) == "connected"


@sandboxed
@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/shadow').read()",
        "open('/proc/1/root/etc/shadow').read()",
        f"open({str(Path(__file__))!r}).read()",
        "open('/usr/callsheet-test', 'w')",
        "open('/callsheet-test', 'w')",
        "open('/proc/sys/kernel/hostname', 'w').write('x')",
        "import os; os.setuid(0)",
        "import os; os.mknod('disk', 0o60600, os.makedev(8, 0))",
        "import os; os.kill(1, 9); os.chroot('/')",
        "import ctypes; ctypes.CDLL(None).unshare(0x10000000) and open('/not-made')",
        "import ctypes; ctypes.CDLL(None).mount(b'none', b'/', None, 32 | 4096, None) and open('/not-made')",
    ],
)
async def test_sandbox_hides_and_protects_machine(tmp_path, code):
    with pytest.raises(ToolFailed, match=r"No such file|Permission|permitted|Read-only"):
        await run(tmp_path, code)


@sandboxed
async def test_sandbox_sees_only_its_own_processes(tmp_path):
    code = "import os; print(os.getpid(), sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))"
    assert await run(tmp_path, code) in ("2 [1, 2]", "2 []")


@sandboxed
async def test_scratch_space_is_limited(tmp_path):
    fill = "for n in range(40): open(f'f{n}', 'wb').write(b'x' * 1_000_000)"
    with pytest.raises(ToolFailed, match="No space left"):
        await run(tmp_path, fill, execution={"scratch_bytes": 10_000_000})


@sandboxed
@pytest.mark.parametrize("place", ["/scratch", "/dev/shm"])
async def test_number_of_files_is_limited(tmp_path, place):
    code = f"""
import os, errno
for number in range(300_000):
    try:
        os.mkdir("{place}/%d" % number)
    except OSError as error:
        print(number < 40_000, errno.errorcode[error.errno])
        break
"""
    assert await run(tmp_path, code) == "True ENOSPC"


CALLS = {
    "io_uring": "libc.syscall(425, 8, ctypes.create_string_buffer(256))",
    "vsock": "socket.socket(40)",
    "kernel crypto": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "netfilter": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)",
    "pair": "socket.socketpair(40)",
    "namespace": "libc.unshare(0x10000000)",
    "namespace of child": "libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "libc.syscall(435, 0, 0)",
    "shared memory": "libc.shmget(0, 4096, 0o1600)",
    "semaphores": "libc.semget(0, 9, 0o1600)",
    "messages": "libc.msgget(0, 0o1600)",
    "keys": "libc.syscall(250 if os.uname().machine == 'x86_64' else 219, 0, -3, 1)",
    "bpf": "libc.syscall(321 if os.uname().machine == 'x86_64' else 280, 0, 0, 0)",
}
REFUSALS = {"EPERM", "ENOSYS", "EAFNOSUPPORT"}


@sandboxed
@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="its calls are not filtered")
async def test_calls_that_widen_the_kernel_are_refused(tmp_path):
    tries = "".join(f"attempt({name!r}, lambda: {call})\n" for name, call in CALLS.items())
    code = f"""
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
clone = 56 if os.uname().machine == "x86_64" else 220
seen = {{}}
def attempt(name, call):
    try:
        result = call()
        seen[name] = errno.errorcode[ctypes.get_errno()] if result == -1 else "made"
    except OSError as error:
        seen[name] = errno.errorcode[error.errno]
{tries}
print(json.dumps(seen))
"""
    seen = json.loads(await run(tmp_path, code))
    assert {name: said for name, said in seen.items() if said not in REFUSALS} == {}
    assert seen["vsock"] == seen["pair"] == seen["netfilter"] == "EAFNOSUPPORT"


@sandboxed
async def test_filtered_programs_can_do_what_they_need(tmp_path):
    code = """
import multiprocessing, socket, subprocess, threading
multiprocessing.set_start_method("fork")
def work(n): return n * n
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(work, range(4)))
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
    server = socket.socket(); server.close()
    one, other = socket.socketpair(); one.sendall(b"pair"); print(other.recv(4).decode())
    print([name for _, name in socket.if_nameindex()])
"""
    assert (await run(tmp_path, code)).splitlines() == ["[0, 1, 4, 9]", "thread", "child", "pair", "['lo']"]


@sandboxed
async def test_program_of_another_architecture_makes_no_call(tmp_path):
    code = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # getpid of 32-bit programs, through int 0x80
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    if os.uname().machine != "x86_64":
        pytest.skip("no second architecture")
    assert await run(tmp_path, code) in ("-38", "-14")


async def test_cancelled_call_kills_its_program(tmp_path):
    mark = mark_of_test()
    task = asyncio.create_task(run(tmp_path, f"exec -a {mark} sleep 60", language="shell"))
    for _ in range(200):
        if mark in await listed():
            break
    else:
        pytest.fail("the program never started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert mark not in await listed()


async def test_limits_hold_without_sandbox(tmp_path):
    assert (await run_limited(tmp_path, "print(1)")).stdout == "1\n"
    assert (
        "MemoryError"
        in (await run_limited(tmp_path, "x = b'x' * 400_000_000", memory_bytes=200_000_000)).stderr
    )
    assert (await run_limited(tmp_path, "while True: pass", timeout=1)).timed_out
    assert (await run_limited(tmp_path, "while True: pass", cpu_seconds=1)).exit_code == -24


async def test_background_process_without_sandbox_ends_with_its_program(tmp_path):
    finished = await run_limited(tmp_path, "sleep 600 & echo $!", "shell")
    assert not finished.timed_out
    assert (await listed("-o", "stat=", "-p", finished.stdout.strip())).strip()[:1] in ("", "Z")


async def test_program_holding_output_open_does_not_block_run(tmp_path):
    end = tmp_path / "end"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    while not os.path.exists({str(end)!r}):\n"
        "        time.sleep(0.05)\n"
        "else:\n"
        "    print('done')"
    )
    try:
        finished = await run_limited(tmp_path, code)
    finally:
        end.touch()
    assert (finished.stdout, finished.timed_out) == ("done\n", False)


@sandboxed
@pytest.mark.parametrize("require", ["sandbox", "best-effort"])
def test_code_without_namespaces_is_refused_or_limited_as_configured(tmp_path, require):
    """A process without namespaces, as in many containers, reports this and follows the setting."""
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, pathlib, sys\n"
        "from callsheet.ports.builtin import BuiltinSettings, ExecutionSettings, builtin_tools, isolation\n"
        "from callsheet.ports.calls import CallContext, ToolFailed\n"
        "from callsheet.ports.tools import Registry\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "execution = ExecutionSettings(require=sys.argv[2])\n"
        "settings = BuiltinSettings(workspace=place, data=place, execution=execution)\n"
        "print(isolation(settings))\n"
        "tool = Registry(builtin_tools(settings)).require('EXEC_CODE')\n"
        "try:\n"
        "    code = 'import os; print(os.getpid() * 0 + 42)'\n"
        "    print(asyncio.run(tool.handler({'code': code}, CallContext('r', 'k', 'i'))))\n"
        "except ToolFailed as failure:\n"
        "    print(failure)\n"
    )
    command = (
        f"echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} {script} {tmp_path} {require}"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no sandbox (unshare: ")
    if require == "sandbox":
        assert "code is refused" in done.stdout
        assert "TOL102" in done.stdout
    else:
        assert "'stdout': '42\\n'" in done.stdout
        assert "'isolation': 'limits'" in done.stdout


async def install(place: Path, packages: Any, **execution: Any) -> Any:
    tool = Registry(builtin_tools(settings_in(place, **execution))).require("INSTALL_PKG")
    return await tool.handler({"language": "python", "packages": packages}, CONTEXT)


async def test_installing_is_refused_unless_allowed(tmp_path):
    with pytest.raises(ToolFailed, match="TOL104"):
        await install(tmp_path, ["numpy"])
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "name",
    [
        "--index-url=x",
        "-r x",
        "./here",
        "git+https://x.test/y",
        "a @ https://x.test/y",
        "https://x.test/a.whl",
        "a; b",
        "",
    ],
)
async def test_only_names_with_versions_are_installable(tmp_path, name):
    with pytest.raises(ToolFailed, match="not the name of a package"):
        await install(tmp_path, [name], allow_install=True)


def test_names_with_versions_are_packages():
    assert [requirement(text) for text in ("a", "a[b,c] >= 1.0, < 2", "A.b-c==1.*")] == [
        "a",
        "a[b,c]>=1.0,<2",
        "A.b-c==1.*",
    ]


@pytest.fixture
def folder_on_disk() -> Iterator[Path]:
    """A folder outside of /dev, where `tmp_path` may be: a sandbox has a /dev of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


async def test_installed_package_is_available_in_its_namespace(folder_on_disk, monkeypatch):
    """A locally built wheel is installed from a folder, without any index."""
    wheels = folder_on_disk / "wheels"
    wheels.mkdir()
    make_wheel(wheels)
    for variable in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(variable, "1")
    for variable in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(variable, str(wheels))
    assert (
        await install(folder_on_disk, ["callsheet-test-thing"], allow_install=True)
        == "installed callsheet-test-thing"
    )
    assert await run(folder_on_disk, "import callsheet_test_thing; print(callsheet_test_thing.VALUE)") == "42"
    with pytest.raises(ToolFailed, match="could not be installed"):
        await install(folder_on_disk, ["callsheet-no-such-thing"], allow_install=True)


def make_wheel(folder: Path) -> None:
    import zipfile

    info = "callsheet_test_thing-1.0.dist-info"
    with zipfile.ZipFile(folder / "callsheet_test_thing-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("callsheet_test_thing.py", "VALUE = 42\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: callsheet-test-thing\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize(
    ("code", "remarks"),
    [
        ("print('x' * 99)", ()),
        ("print('x' * 500)", (Cut("stdout", 100, 501, "bytes"),)),
        ("import sys; sys.stderr.write('x' * 101)", (Cut("stderr", 100, 101, "bytes"),)),
        (
            "import os; os.write(1, b'ab\\xff')",
            (Fact("not UTF-8", "stdout, from byte 2 on; invalid bytes are shown as U+FFFD"),),
        ),
        ("print('x' * 500); raise SystemExit(3)", (Cut("stdout", 100, 501, "bytes"),)),
    ],
)
async def test_truncated_or_binary_output_is_remarked(tmp_path, code, remarks):
    tools = Registry(builtin_tools(settings_in(tmp_path, require="best-effort", output_bytes=100)))
    context = CallContext("run", "S1")
    with contextlib.suppress(ToolFailed):
        await tools.require("EXEC_CODE").handler({"code": code}, context)
    assert context.remarks == remarks
