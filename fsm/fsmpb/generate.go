// Package fsmpb holds what is durable: the commands of the log, what they
// answered, and the records of a Raft snapshot.
package fsmpb

//go:generate go run github.com/holdfast-storage/holdfast/cmd/protogen
