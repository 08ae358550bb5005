#!/bin/sh
# Generates Go code for the .proto files of one folder (named from the project's
# root), with protoc from Debian and the plugins that go.mod pins as tools.
set -eu
folder=${1:?usage: deploy/protoc.sh FOLDER}
cd "$(dirname "$0")/.."
bin=$(pwd)/.cache/bin
mkdir -p "$bin"
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH=$bin:$PATH protoc --proto_path=. \
  --go_out=. --go_opt=module=github.com/holdfast-storage/holdfast \
  --go-grpc_out=. --go-grpc_opt=module=github.com/holdfast-storage/holdfast \
  "$folder"/*.proto
