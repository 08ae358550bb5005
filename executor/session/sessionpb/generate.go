// Package sessionpb is generated from the .proto file beside it.
package sessionpb

//go:generate go run github.com/holdfast-storage/holdfast/cmd/protogen
