#!/bin/sh
# Installs the Debian packages that Holdfast and its tests use, where they are missing.
set -eu
missing=""
need() { # program package
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
PATH=$PATH:/usr/sbin:/sbin
need protoc protobuf-compiler
need mkfs.ext4 e2fsprogs
need mkfs.xfs xfsprogs
need losetup util-linux
need mount mount
need linux.uml user-mode-linux
need busybox busybox-static
need git git
need gcc gcc
[ -f /usr/include/stdlib.h ] || missing="$missing libc6-dev"
[ -f /usr/include/google/protobuf/descriptor.proto ] || missing="$missing libprotobuf-dev"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
  echo "packages are missing and only root can install them: apt-get install$missing" >&2
  exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # one word a package
apt-get install -y -qq --no-install-recommends $missing >/dev/null
