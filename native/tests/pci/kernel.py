"""What the guest boots: Debian's kernel, and a small initramfs with the modules that it needs."""

from __future__ import annotations

import lzma
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOWNLOAD_S = 600.0
META_PACKAGE = "linux-image-amd64"
# What tools are called, and Debian's packages that bring them.
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "dpkg-deb": "dpkg",
}


class CannotRun(Exception):
    """This machine lacks something that the guest needs; says what to install."""


def check_tools() -> None:
    """Raises CannotRun where a program is missing, and names its package."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise CannotRun(f"apt-get install {' '.join(missing)}")


def kernel_package() -> str:
    """The package that Debian's meta-package stands for today."""
    if shutil.which("apt-cache") is None:
        raise CannotRun("needs apt and Debian's packages")
    told = subprocess.run(
        ["apt-cache", "depends", META_PACKAGE], capture_output=True, text=True, check=False
    )
    found = re.search(r"Depends: (linux-image-\S+)", told.stdout)
    if not found:
        raise CannotRun(f"apt knows no {META_PACKAGE}: apt-get update")
    return found[1]


class Kernel:
    """An unpacked kernel: `image` to boot, modules with what they depend on."""

    def __init__(self, folder: Path) -> None:
        self.image = next(folder.glob("boot/vmlinuz-*"))
        self._modules = {
            _module_name(path): path for path in folder.glob("lib/modules/*/kernel/**/*.ko*")
        }

    def load_order(self, names: Iterable[str]) -> list[Path]:
        """These modules, each behind those that it depends on. What is built in needs none."""
        order: dict[Path, None] = {}

        def add(name: str) -> None:
            path = self._modules.get(name.replace("-", "_"))
            if path is None:
                return
            depends = re.search(rb"\0depends=([^\0]*)\0", read_module(path))
            for needed in depends[1].decode().split(",") if depends else ():
                add(needed)
            order.setdefault(path)

        for name in names:
            add(name)
        return list(order)


def _module_name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def read_module(path: Path) -> bytes:
    """A module's bytes; newer kernels come with them compressed."""
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def fetch_kernel(cache: Path) -> Kernel:
    """Downloads and unpacks the kernel's package below `cache`, unless it is there.

    Nothing is installed. Raises CannotRun without apt or without the network.
    """
    unpacked = sorted(cache.glob("linux-image-*"))
    if unpacked:
        return Kernel(unpacked[-1])
    package = kernel_package()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch.") as temporary:
        folder = Path(temporary)
        told = subprocess.run(
            ["apt-get", "download", "-qq", package],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=DOWNLOAD_S,
        )
        if told.returncode != 0:
            raise CannotRun(f"cannot download {package}: {told.stderr.strip()}")
        archive = next(folder.glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive.name, "unpacked"], cwd=folder, check=True)
        # Whole or not at all: a folder of this name is never half unpacked.
        (folder / "unpacked").rename(cache / package)
    return Kernel(cache / package)


def build_initramfs(
    to: Path, kernel: Kernel, modules: Iterable[str], job: Mapping[str, str]
) -> None:
    """Writes an archive of busybox, the init script, the modules, and the job's variables."""
    with tempfile.TemporaryDirectory(dir=to.parent) as temporary:
        root = Path(temporary)
        for name in ("bin", "modules"):
            (root / name).mkdir()
        busybox = shutil.which("busybox")
        assert busybox is not None
        shutil.copy(busybox, root / "bin" / "busybox")
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755)
        order = kernel.load_order(modules)
        for path in order:
            (root / "modules" / f"{_module_name(path)}.ko").write_bytes(read_module(path))
        names = " ".join(f"{_module_name(path)}.ko" for path in order)
        variables = {**job, "JOB_MODULES": names}
        (root / "job").write_text(
            "".join(f"{key}={shlex.quote(value)}\n" for key, value in variables.items())
        )
        files = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with to.open("wb") as archive:
            subprocess.run(
                ["cpio", "--quiet", "--create", "--format=newc"],
                input=files.encode(),
                stdout=archive,
                cwd=root,
                check=True,
            )
