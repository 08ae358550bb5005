#!/bin/sh
# Installs what `make image` and `make deb` use of Debian, where it is missing.
set -eu
[ "$(id -u)" = 0 ] || { echo "mmdebstrap is missing and only root can install it: apt-get install mmdebstrap" >&2; exit 1; }
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
