// Package sessionpb is generated from the .proto file beside it.
package sessionpb

//go:generate sh ../../../deploy/protoc.sh executor/session/sessionpb
