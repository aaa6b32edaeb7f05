"""Starting the language server, and what prevents it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tests import forked

from callsheet.apps.cli.main import main


def test_missing_package_error_names_extra(tmp_path):
    code = "import sys; sys.modules['pygls'] = None; from callsheet.apps.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "lsp"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "LSP001" in done.stderr
    assert "callsheet[lsp]" in done.stderr


@pytest.mark.parametrize(
    "line", [("--stdio", "--tcp", "0"), ("--tcp", "99999"), ("--policy", "nosuch"), ("--tools", "nosuch.py")]
)
def test_wrong_command_lines_are_reported_at_once(line):
    done = CliRunner().invoke(main, ["lsp", "--tcp", "0", *line] if line[0] != "--tcp" else ["lsp", *line])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_editor_exit_without_shutdown_ends_server(editor):
    code = "from callsheet.apps.cli.main import main; main()"
    server = forked.Popen(
        [sys.executable, "-c", code, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=editor.folder
    )
    server.communicate(timeout=60)
    assert server.returncode == 0


def test_ctrl_c_ends_idle_server(tmp_path):
    with forked.Popen(
        [sys.executable, "-m", "callsheet", "lsp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as server:
        told = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}'
        server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(told), told))
        server.stdin.flush()
        assert server.stdout.readline().startswith(b"Content-Length")
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == -signal.SIGINT
        assert server.stderr.read() == b""


def test_closed_stdout_is_error(tmp_path):
    command = f'exec "{sys.executable}" -m callsheet lsp >&-'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "CFG010" in done.stderr) == (2, True)
