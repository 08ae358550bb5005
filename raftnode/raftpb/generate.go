// Package raftpb is generated from the .proto file beside it.
package raftpb

//go:generate go run github.com/holdfast-storage/holdfast/cmd/protogen
