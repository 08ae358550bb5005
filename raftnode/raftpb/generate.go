// Package raftpb is generated from the .proto file beside it.
package raftpb

//go:generate sh ../../deploy/protoc.sh raftnode/raftpb
