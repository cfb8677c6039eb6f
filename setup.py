"""Package nicemu; ship p4/, firmware/, host/ and examples/ programs inside it as data."""

import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

PROGRAMS = {"p4": "*.p4", "firmware": "*.py", "host": "*.py", "examples": "*"}


class BuildPyWithPrograms(build_py):
    """build_py that also copies the program folders to nicemu/_programs/."""

    def run(self) -> None:
        """Build the package, then copy the programs unless this is an editable install."""
        super().run()
        if self.editable_mode:
            return
        for folder, pattern in PROGRAMS.items():
            for source in Path(folder).rglob(pattern):
                if not source.is_file() or "__pycache__" in source.parts:
                    continue
                target = Path(self.build_lib, "nicemu", "_programs", source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


setup(
    packages=find_packages(include=["nicemu", "nicemu.*"]),
    package_dir={"": "."},  # keeps editable installs readable by type checkers
    package_data={
        "nicemu": ["py.typed"],
        "nicemu.control": ["protos/*.binpb"],
        "nicemu.model": ["profiles/*.toml", "servers/*.toml"],
    },
    cmdclass={"build_py": BuildPyWithPrograms},
)
