// Package adminpb is generated from the .proto file beside it.
package adminpb

//go:generate sh ../../deploy/protoc.sh admin/adminpb
