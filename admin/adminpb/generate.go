// Package adminpb is generated from the .proto file beside it.
package adminpb

//go:generate go run github.com/holdfast-storage/holdfast/cmd/protogen
