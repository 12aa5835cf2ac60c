#!/usr/bin/env python3
"""Fills a configured build folder with what another build folder of the same sources has built, so
that `meson install --no-rebuild` installs that.

Usage: take_built.py FOLDER OTHER
"""

import json
import pathlib
import shutil
import subprocess
import sys


def main():
    folder, other = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    installed = subprocess.run(["meson", "introspect", "--installed", folder], check=True,
                               capture_output=True, text=True).stdout
    for name in json.loads(installed):
        target = pathlib.Path(name)
        # Sources, and what depends on the configuration, are there already.
        if not target.is_relative_to(folder) or target.exists():
            continue
        source = other / target.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target, follow_symlinks=False)


main()
