"""Where packages come from: the mirror and the proxies that apt uses on this machine."""

import subprocess

DEFAULT = "http://deb.debian.org/debian"


def _lines(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except FileNotFoundError:
        return []  # not a Debian


def debian():
    """The mirror of Debian's archive from which apt installs here, else Debian's own."""
    rows = _lines("apt-get", "indextargets", "--format",
                  "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)", "Created-By: Packages")
    for row in rows:
        if row.startswith("Debian|Debian|main|"):
            return row.rpartition("|")[2].rstrip("/")
    return DEFAULT


def settings():
    """Arguments of mmdebstrap for a new system's apt: the proxies of this one, no translations."""
    proxies = [line for line in _lines("apt-config", "dump")
               if line.startswith(("Acquire::http::Proxy ", "Acquire::https::Proxy "))]
    return [f"--aptopt={line}" for line in [*proxies, 'Acquire::Languages "none";']]
