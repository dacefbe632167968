#!/bin/sh
# Makes sure that a C++ compiler and Python's venv module are there: installs them by apt when root, otherwise names the command.
set -eu
python=${PYTHON:-python3}
missing=""
command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || missing="$missing g++"
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "railwright needs Python 3.11 or newer; $python is $("$python" --version). Set PYTHON=… to another one." >&2
    exit 3
}
[ -f "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || missing="$missing python3-dev"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
else
    echo "Missing:$missing. Install with: sudo apt-get install$missing" >&2
    exit 3
fi
