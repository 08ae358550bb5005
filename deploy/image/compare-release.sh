#!/bin/sh
# Compares RELEASED, a program that was built here, with one that GO builds of the same commit in another folder.
set -eu
released=$1 go=$2 ldflags=$3
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT INT TERM
git diff --quiet HEAD || { echo "commit first: what is compared is built of the last commit" >&2; exit 1; }
git clone -q . "$other/source"
CGO_ENABLED=0 $go build -C "$other/source" -trimpath -buildvcs=false -ldflags "$ldflags" -o "$other/holdfast" ./cmd/holdfast
cmp "$released" "$other/holdfast"
