#!/bin/sh
# user-mode-linux.sh [DIR]
#
# Installs a kernel for guests in DIR (/usr/local/lib/user-mode-linux): that of Debian's coming release, with the C library it was
# linked with, so that nothing of the host's own release changes. From version 6.16 on such a kernel runs the programs of its guests
# under seccomp and not under ptrace: where ptrace is dear, a guest begins a process in a quarter of the time, and a cluster of three
# guests is ready in seconds and not in minutes. Where it cannot be had, the lab takes the kernel of the host's release.
set -eu
dir=${1:-/usr/local/lib/user-mode-linux}
suite=forky
[ ! -x "$dir/linux.uml" ] || exit 0
part=$dir.part
rm -rf "$part"
mkdir -p "$part/apt/lists/partial" "$part/apt/archives/partial" "$part/root"
trap 'rm -rf "$part"' EXIT INT TERM
: >"$part/apt/status"
mirror=$(sed -n 's#^URIs: *\([^ ]*/debian\)/*$#\1#p; s#^deb .*\(http[^ ]*/debian\)/* .*#\1#p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $suite main" >"$part/apt/sources"
# The host's own lists and packages stay as they are.
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$part/apt/sources" -o Dir::Etc::sourceparts=- -o Dir::State="$part/apt" -o Dir::State::lists="$part/apt/lists" \
    -o Dir::State::status="$part/apt/status" -o Dir::Cache="$part/apt" -o Dir::Cache::archives="$part/apt/archives" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}
apt update
(cd "$part/apt" && apt download user-mode-linux libc6)
for deb in "$part"/apt/*.deb; do dpkg-deb -x "$deb" "$part/root"; done
mkdir "$part/lib"
cp -a "$part"/root/usr/lib/x86_64-linux-gnu/*.so* "$part/lib/"
mv "$part/root/usr/lib/uml/modules" "$part/modules"
patchelf --set-interpreter "$dir/lib/ld-linux-x86-64.so.2" --set-rpath "$dir/lib" --output "$part/linux.uml" "$part/root/usr/bin/linux.uml"
chmod 755 "$part/linux.uml"
rm -rf "$part/root" "$part/apt" "$dir"
mv "$part" "$dir"
"$dir/linux.uml" --help >/dev/null || { rm -rf "$dir"; exit 1; }
