"""Build hook: the widget's front end is in every wheel, sdist and editable install.

The bundle (`lowerscope_widgets/static/explorer.js` and `.css`) is built by npm when it is missing or stale. Stale means
that the front end's sources have another digest than those it was built from: times say nothing after a clone or an
unpacked sdist. Without npm, the bundle that is there is used; a wheel or sdist that would ship none is not built.

Run as a program, it makes the front end ready to be checked and tested too: its packages are installed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FRONT_END = Path("widgets/front-end")
STATIC = Path("widgets/lowerscope_widgets/static")
BUNDLE = ("explorer.js", "explorer.css")
DIGEST = "sources.sha256"
CONFIGURATION = (
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "build.mjs",
    "internal_names.mjs",
    "no_queue.mjs",
)


class BundleError(RuntimeError):
    """The bundle cannot be built here."""


class NpmMissingError(BundleError):
    """The bundle is missing, and so is npm, which builds it."""


class BundleHook(BuildHookInterface):
    """Sees to the bundle before hatchling collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle where needed.

        An editable install (`version` is "editable") without npm goes on without a bundle: the engine and its tests
        need none. Every other build raises `NpmMissingError` then, and all raise `BundleError` when npm fails.
        """
        try:
            ensure_bundle(Path(self.root))
        except NpmMissingError as error:
            if version != "editable":
                raise
            self.app.display_warning(str(error))


def ensure_bundle(root: Path) -> bool:
    """Make the bundle fresh; return whether it was built.

    Raises `NpmMissingError` when there is neither a bundle nor npm, and `BundleError` when npm fails: a broken source
    must not be hidden by an older bundle.
    """
    static = root / STATIC
    present = all((static / name).is_file() for name in BUNDLE)
    digest = sources_digest(root / FRONT_END)
    stamp = static / DIGEST
    if present and stamp.is_file() and stamp.read_text().strip() == digest:
        return False
    npm = shutil.which("npm")
    if npm is None:
        if present:
            return False
        raise NpmMissingError(
            f"{STATIC / BUNDLE[0]} is missing and npm is not on the PATH: install Node.js 20 or newer and build again, "
            "or take a released wheel or sdist, which carry it."
        )
    build(npm, root / FRONT_END)
    stamp.write_text(digest + "\n")
    return True


def build(npm: str, front_end: Path) -> None:
    """Install the locked packages where needed and build the bundle."""
    install_packages(npm, front_end)
    run_npm(npm, front_end, "run", "build")


def install_packages(npm: str, front_end: Path) -> None:
    """Install what the lock file names, unless what is there is newer than the lock file."""
    lock, installed = front_end / "package-lock.json", front_end / "node_modules" / ".package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        run_npm(npm, front_end, "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def run_npm(npm: str, front_end: Path, *arguments: str) -> None:
    """Run one npm command; raises `BundleError` naming it when it fails."""
    code = subprocess.run([npm, *arguments], cwd=front_end).returncode
    if code != 0:
        command = " ".join(["npm", *arguments])
        raise BundleError(f"`{command}` failed in {FRONT_END} with exit code {code}; what it printed above says why.")


def sources_digest(front_end: Path) -> str:
    """SHA-256 over the names and bytes of everything the bundle is made from."""
    sources = [front_end / name for name in CONFIGURATION]
    sources += sorted(path for path in (front_end / "src").rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in sources:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(front_end).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def main() -> None:
    """Make the front end ready to be used, checked and tested: its packages, and the bundle."""
    root = Path(__file__).resolve().parent.parent
    try:
        npm = shutil.which("npm")
        if npm is not None:
            install_packages(npm, root / FRONT_END)
        built = ensure_bundle(root)
    except BundleError as error:
        sys.exit(f"error: {error}")
    print("bundle: built" if built else "bundle: up to date")


if __name__ == "__main__":
    main()
