// Package blocks writes numbered blocks to a file, each durable before the next, and finds out later which of them are there. It is what
// the pods of `holdfast certify --write` do.
//
// The file is a ring: block n is at place (n-1) modulo the number of places. A block has the run that wrote it, its number and content that
// follows from both, below a checksum: nothing that was there before, or that another volume has, is taken for it.
package blocks
