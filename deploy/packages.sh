#!/bin/sh
# Installs the Debian packages that Holdfast and its tests use, where they are missing; with the argument kubernetes also those that
# `make kubernetes` uses.
set -eu
missing=""
need() { # program package
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
PATH=$PATH:/usr/sbin:/sbin
need mkfs.ext4 e2fsprogs
need mkfs.xfs xfsprogs
need losetup util-linux
need mount mount
need linux.uml user-mode-linux
need busybox busybox-static
need git git
need drbdadm drbd-utils
need lvm lvm2
need cryptsetup cryptsetup-bin
need thin_check thin-provisioning-tools
need nft nftables
need ip iproute2
need insmod kmod
need fio fio
need promtool prometheus
need gcc gcc
need patchelf patchelf
[ -f /usr/include/stdlib.h ] || missing="$missing libc6-dev"
if [ "${1:-}" = kubernetes ]; then
  need containerd containerd
  need runc runc
  need nsenter util-linux
  need iptables iptables
  need ipset ipset
  [ -x /usr/lib/cni/ptp ] || missing="$missing containernetworking-plugins"
fi
install_missing() {
  if [ "$(id -u)" != 0 ]; then
    echo "packages are missing and only root can install them: apt-get install$missing" >&2
    exit 1
  fi
  echo "installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # No daemon of these packages starts on this host: this file is what their scripts ask.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt-get update -qq
  # shellcheck disable=SC2086 # one word a package
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
[ -z "$missing" ] || install_missing
# Only root runs guests. Without this kernel they have that of the host's release.
[ "$(id -u)" != 0 ] || sh "$(dirname "$0")/user-mode-linux.sh" ||
  echo "the kernel for guests could not be installed; with that of this host's release, which the lab takes instead, guests are slow" >&2
