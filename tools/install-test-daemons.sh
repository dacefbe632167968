#!/bin/sh
# Installs the real daemons that tests run our files in (Debian or Ubuntu, as root). Nothing is started.
set -eu
packages="frr haproxy keepalived nftables opensm ibsim-utils infiniband-diags ibutils netplan.io shellcheck conntrackd dnsmasq-base bind9-utils \
    gir1.2-nm-1.0 python3-gi"
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Tests need:$missing. Install with: sudo apt-get install$missing" >&2
    exit 3
fi
# Packages must not start their daemons here; a policy file that stands already is left alone.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
