"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from system.command import server

import drlnet

ROOT = Path(__file__).resolve().parents[2]


def test_the_notebook_example(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    with server(tmp_path) as address:
        code = found.group(1).replace("udp://127.0.0.1:7447", address)
        # With the package that these tests meet, wherever it lies.
        package = Path(drlnet.__file__).parents[1]
        code = f"import sys; sys.path.append({str(package)!r})\n{code}"
        code += "\nassert 'torch' not in sys.modules\n"
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("(32, 3)")


def test_ci_runs_the_same_test_line() -> None:
    install, test = "pip install '.[test]'", "pytest"
    assert f"{install} && {test}" in (ROOT / "README.md").read_text(encoding="utf-8")
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    begun = steps.index(install.replace("install", "install -q") + " </dev/null")
    # In three processes: what one is given is left out by the last, and nothing else is.
    computing = f'  {test} -p no:cacheprovider "${{computing[@]}}"'
    assert computing in steps and "start_beside 0 computing_tests" in steps[begun:]
    assert 'apart=("${computing[@]}" "${commands[@]}")' in steps
    run = [step.split(" </dev/null")[0] for step in steps[begun:] if step.startswith(f"{test} ")]
    assert run == [f'{test} "${{commands[@]}}"', f'{test} "${{apart[@]/#/--ignore=}}"']
    started = {step.split()[2] for step in steps if step.startswith("start_beside ")}
    joined = {step.split()[1] for step in steps if step.startswith("join ")}
    assert started - joined == {"sanitized_core"}  # the last steps go on with it
