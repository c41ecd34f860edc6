"""What each engine would do, as its script or manifest: held against files in golden/.

DRLNET_WRITE_GOLDEN=1 pytest tests/launch/test_engines.py writes them anew.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app
from drlnet.config import load
from drlnet.config.keys import KEY_VARIABLE
from drlnet.errors import ConfigError, Insecure, NotInstalled
from drlnet.launch.engines import kubernetes, ray, shell, slurm, ssh
from drlnet.launch.plan import Plan, joining_plan, plan_of

GOLDEN = Path(__file__).with_name("golden")
SSH_HOSTS = [ssh.SshHost("node1", "10.0.0.1"), ssh.SshHost("node2", drlnet="/opt/bin/drlnet")]


def made(key: Path | None = None, **more: object) -> Plan:
    given = {"actor.num_actors": 5, "algo.n_step": 5, "run.folder": "runs/mine", **more}
    return plan_of(load("CartPole-v1", sets=given), key=key)


SCRIPTS: dict[str, Callable[[Plan], str]] = {
    "shell": shell.script,
    "ssh": lambda plan: ssh.script(plan, SSH_HOSTS, "ssh"),
    "ray": lambda plan: ray.script(plan, "auto", most=2),
    "slurm": lambda plan: slurm.script(plan, ["--partition=gpu", "--time=60"]),
    "kubernetes": lambda plan: kubernetes.manifest(plan, "me/drlnet:1"),
}


def _object(required: str = "", /, **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def _list(of: object) -> dict[str, object]:
    return {"type": "array", "items": of, "minItems": 1}


TEXT, COUNT, FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_QUANTITIES = {
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": "^[0-9]+(Mi)?$"},
}
_CONTAINER = _object(
    "name image",
    name=NAME,
    image=TEXT,
    command=_list(TEXT),
    restartPolicy={"const": "Always"},
    resources=_object(requests=_QUANTITIES, limits=_QUANTITIES),
    volumeMounts=_list(_object("name mountPath", name=NAME, mountPath=TEXT, readOnly=FLAG)),
)
_SECRET = _object(
    "secretName",
    secretName=NAME,
    defaultMode={"type": "integer", "minimum": 0, "maximum": 0o777},
    items=_list(_object("key path", key=TEXT, path=TEXT)),
)
_POD = _object(
    "containers restartPolicy",
    restartPolicy={"enum": ["Never", "OnFailure"]},  # what a Job allows
    initContainers=_list(_CONTAINER),
    containers=_list(_CONTAINER),
    volumes=_list(_object("name", name=NAME, secret=_SECRET)),
)
_JOB = _object(
    "template",
    **dict.fromkeys(("parallelism", "completions", "backoffLimit"), COUNT),
    template=_object("spec", spec=_POD),
)
# What a manifest may have of jobset.x-k8s.io/v1alpha2 and of batch/v1's Job in it: fields that the
# API's reference does not name are refused, as the server does.
JOBSET = _object(
    "apiVersion kind metadata spec",
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=_object("name", name=NAME),
    spec=_object(
        "replicatedJobs",
        network=_object(enableDNSHostnames=FLAG, subdomain=NAME, publishNotReadyAddresses=FLAG),
        successPolicy=_object(
            "operator", operator={"enum": ["All", "Any"]}, targetReplicatedJobs=_list(NAME)
        ),
        failurePolicy=_object(maxRestarts=COUNT),
        startupPolicy=_object(startupPolicyOrder={"enum": ["AnyOrder", "InOrder"]}),
        replicatedJobs=_list(
            _object("name template", name=NAME, replicas=COUNT, template=_object("spec", spec=_JOB))
        ),
    ),
)


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_the_script_of(name: str) -> None:
    plan = made(**{"learner.device": "cuda", "policy.where": "central"})
    text = f"{plan.table()}\n\n{SCRIPTS[name](plan)}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("DRLNET_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_the_script_of_actors_that_join(name: str) -> None:
    given = {"actor.num_actors": 3, "server.poll": "block"}
    config = load("CartPole-v1", sets=given)
    text = SCRIPTS[name](joining_plan(config, given, "udp://10.0.0.1:7447"))
    path = GOLDEN / f"join.{name}.txt"
    if os.environ.get("DRLNET_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["shell", "ssh", "ray"])
def test_the_script_of_shards_on_other_hosts(name: str) -> None:
    text = SCRIPTS[name](made(**{"server.elsewhere": 2}))
    path = GOLDEN / f"shards.{name}.txt"
    if os.environ.get("DRLNET_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_engines_that_start_no_shard_elsewhere_say_so(name: str) -> None:
    with pytest.raises(ConfigError, match=f"server.elsewhere with --on {name}") as refused:
        SCRIPTS[name](made(**{"server.elsewhere": 1}))
    assert "drlnet serve --join" in refused.value.remedy


def test_a_manifest_is_a_jobset() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which Ray brings")
    jsonschema = pytest.importorskip("jsonschema", reason="Ray brings it")
    checker = jsonschema.Draft202012Validator(JOBSET)
    checker.check_schema(JOBSET)
    given = {"actor.num_actors": 3}
    joining = joining_plan(load("CartPole-v1", sets=given), given, "udp://10.0.0.1:7447")
    central = {"learner.device": "cuda", "policy.where": "central"}
    for plan in (made(), made(**central), joining, made(Path("/keys"), **central)):
        manifest = yaml.safe_load(SCRIPTS["kubernetes"](plan))
        checker.validate(manifest)
        jobs = manifest["spec"]["replicatedJobs"]
        targets = manifest["spec"].get("successPolicy", {}).get("targetReplicatedJobs", [])
        assert set(targets) <= {job["name"] for job in jobs}
        # The server has this pod's name, which the API makes of these (63 characters at most).
        longest = max(len(f"{manifest['metadata']['name']}-{job['name']}-0-0") for job in jobs)
        assert longest + 6 <= 63
        if len(jobs) > 1:
            pod = f"{manifest['metadata']['name']}-main-0-0.{manifest['metadata']['name']}"
            actor = jobs[1]["template"]["spec"]["template"]["spec"]["containers"][0]
            assert f"udp://{pod}:7447" in actor["command"]
            assert manifest["spec"]["startupPolicy"] == {"startupPolicyOrder": "InOrder"}
            assert jobs[1]["template"]["spec"]["backoffLimit"] > 1000


def test_a_batch_script_takes_a_folder_of_any_name() -> None:
    folder = "a b/SERVER(1)"
    text = slurm.script(made(**{"run.folder": folder}))
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    lines = {words[0]: words for line in text.splitlines() if (words := shlex.split(line, True))}
    assert lines["mkdir"] == ["mkdir", "-p", folder]
    learning = next(line for line in text.splitlines() if line.startswith("drlnet learn"))
    words = shlex.split(learning)
    assert words[words.index("--server") + 1] == "$server" and '--server "$server"' in learning
    assert f'run.folder="{folder}"' in words


def test_engines_that_are_not_there_name_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotInstalled, match="sbatch is not installed") as raised:
        slurm.require_installed()
    assert "slurm-client" in raised.value.remedy
    monkeypatch.setattr("sys.meta_path", [])  # nothing can be found any more
    monkeypatch.setattr("sys.modules", {k: v for k, v in sys.modules.items() if k != "ray"})
    with pytest.raises(NotInstalled, match="ray is not installed") as raised:
        ray.require_installed()
    assert "drlnet[ray]" in raised.value.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one color=red\n", "hosts:1: color is nothing that a host has"),
        ("one address\n", "hosts:1: address has no value"),
        ("one\ntwo\none\n", "hosts:3: one is there already"),
        ("one\ntwo drlnet='x\n", "hosts:2: No closing quotation"),
        ("one drlnet='\"x'\n", "hosts:1: No closing quotation"),
        ("one\xff\n", "hosts: not UTF-8"),
    ],
)
def test_a_hosts_file_that_is_wrong_is_told_by_its_line(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError) as refused:
        ssh.read_hosts(tmp_path / "hosts")
    assert words in refused.value.cause and refused.value.remedy


def test_ipv6_addresses_stand_in_brackets() -> None:
    hosts = [ssh.SshHost("one", "2001:db8::5"), ssh.SshHost("two", "2001:db8::6")]
    text = ssh.script(made(**{"server.elsewhere": 1}), hosts, "ssh")
    text = text.replace("'", "").replace('"', "")
    assert "serve --listen udp://[2001:db8::5]:7447" in text
    assert "--join udp://[2001:db8::5]:7447 --listen udp://[2001:db8::6]:0" in text


def test_a_command_that_is_no_ssh_is_refused() -> None:
    with pytest.raises(NotInstalled, match="--ssh nowhere/ssh -v: there is no such program"):
        ssh.require_program("nowhere/ssh -v")
    with pytest.raises(ConfigError, match='--ssh ssh "x: No closing quotation'):
        ssh.require_program('ssh "x')
    ssh.require_program(f"{shlex.quote(sys.executable)} -v")


@pytest.mark.parametrize(
    ("on", "option", "value"),
    [
        ("local", "--hosts", "hosts"),
        ("ray", "--ssh", "ssh -v"),
        ("slurm", "--address", "auto"),
        ("local", "--slurm-args", "-p gpu"),
        ("slurm", "--image", "me/drlnet:1"),
    ],
)
def test_an_option_of_another_engine_is_refused(on: str, option: str, value: str) -> None:
    ended = CliRunner().invoke(app, ["launch", "CartPole-v1", "--on", on, option, value])
    assert isinstance(ended.exception, ConfigError)
    assert f"{option} with --on {on}" in ended.exception.cause


def test_a_config_that_can_be_read_once_is_in_the_script() -> None:
    reading, writing = os.pipe()  # as --config <(...)
    try:
        os.write(writing, b"[algo]\nn_step = 2\n")
        os.close(writing)
        given = ["launch", "CartPole-v1", "--print", "--config", f"/dev/fd/{reading}"]
        ended = CliRunner().invoke(app, given)
    finally:
        os.close(reading)
    assert "--set algo.n_step=2" in ended.stdout


@pytest.mark.parametrize("command", ["run", "launch"])
def test_scripts_of_two_runs_name_two_folders(command: str) -> None:
    texts = [
        CliRunner().invoke(app, [command, "CartPole-v1", "--seed", seed, "--print"]).stdout
        for seed in "12"
    ]
    folders = [re.findall(r'run\.folder="(runs/CartPole-v1-\d{8}-\d{6}-\d)"', one) for one in texts]
    assert [[name[-2:] for name in found] for found in folders] == [["-1"], ["-2"]]


def test_a_script_for_this_machine_has_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "/others")  # --key sets it, for processes that are started
    script = CliRunner().invoke(app, ["run", "CartPole-v1", "--print", "--key", "/keys"]).stdout
    assert script.count("--key /keys") == 3


@pytest.mark.parametrize("command", ["run", "launch"])
def test_a_script_for_another_transport_is_refused(command: str) -> None:
    given = [command, "CartPole-v1", "--print", "--set", "server.transport=dpdk:local"]
    ended = CliRunner().invoke(app, given)
    assert isinstance(ended.exception, ConfigError)
    assert "server.transport = 'dpdk:local': a script uses udp" in ended.exception.cause


def test_a_job_whose_server_has_no_keys_is_not_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "require_installed", lambda: None)
    ended = CliRunner().invoke(app, ["launch", "CartPole-v1", "--on", "slurm"])
    assert isinstance(ended.exception, Insecure)
    assert "a server on the job's node" in ended.exception.cause


@pytest.mark.parametrize("name", ["shell", "ssh"])
def test_every_role_is_in_the_script_as_often_as_in_the_plan(name: str) -> None:
    words = shlex.split(SCRIPTS[name](made()).replace("'", " "), comments=True)
    assert [words.count(role) for role in ("serve", "learn")] == [1, 1]
    counts = [words[at + 1] for at, word in enumerate(words) if word == "--num-actors"]
    assert sum(map(int, counts)) == 5


def started(folder: Path, name: str, learner: str) -> subprocess.Popen[str]:
    """The script, where each command of drlnet says its process id; the learner then does that."""
    does = f'echo $$; case "$*" in *learn*) {learner};; esac; exec sleep 600'
    for command in ("drlnet", "ssh"):
        (folder / command).write_text(f"#!/bin/sh\n{does}\n")
        (folder / command).chmod(0o755)
    return subprocess.Popen(
        ["sh", "-c", SCRIPTS[name](made())],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("name", "count"), [("shell", 3), ("ssh", 4)])
def test_a_signal_ends_what_the_script_has_started(name: str, count: int, tmp_path: Path) -> None:
    with started(tmp_path, name, ":") as script:
        assert script.stdout is not None
        ids = [int(script.stdout.readline()) for _ in range(count)]
        try:
            script.terminate()
            assert script.wait(60) == 143
            assert not [one for one in ids if Path(f"/proc/{one}").exists()]
        finally:
            for one in ids:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)


@pytest.mark.parametrize("name", ["shell", "ssh"])
def test_a_script_ends_with_its_learner_and_its_exit_code(name: str, tmp_path: Path) -> None:
    with started(tmp_path, name, "exit 7") as script:
        assert script.wait(60) == 7


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_with_keys_every_role_is_told_where_they_are(name: str) -> None:
    script = SCRIPTS[name](made(Path("/keys"), **{"policy.where": "central"}))
    assert "--insecure" not in script
    assert script.replace('", "', " ").count("--key /keys") >= 4
    if name == "kubernetes":
        main, actors = script.split("name: actors")
        assert all(f'"path": "{role}.key"' in main for role in ("server", "learner"))
        assert '"path": "actor.key"' in actors and "server.key" not in actors


def test_bundles_hold_the_plan() -> None:
    plan = made()
    main, *others = ray.bundles(plan, most=2)
    assert main["CPU"] == plan.cores("server", "learner")
    assert sum(bundle["CPU"] for bundle in others) >= plan.cores("actor")
    assert {bundle["CPU"] for bundle in others} == {3}
