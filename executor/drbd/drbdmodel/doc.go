// Package drbdmodel is a model of one volume's DRBD on two hosts, for tests: what the two kernels
// decide of disks, connections, roles and generations, and which host's disk has which write. It
// is a value without a clock, a random number, a lock or a goroutine: the same calls give the same
// states, and a copy of a Pair is independent of it. Whoever uses it orders the events.
//
//	blocks.go      sets of blocks: contents and bitmaps
//	generation.go  the generation UUIDs, and the kernel's comparison of two replicas'
//	pair.go        the two replicas, what is observed of them, and the rules that must hold
//	disk.go        metadata, attach, detach, I/O errors
//	connection.go  connect, disconnect, down, the link
//	handshake.go   what becomes of two replicas that meet: nothing, a synchronisation, a refusal
//	sync.go        a synchronisation by bitmap or of everything, invalidate, verify
//	role.go        promotion and what precedes it, suspended I/O
//	peers.go       a replica whose host gets another peer
//	io.go          the writes of the volume's user, and the loss of a host's power
//
// The rules are those of DRBD 8.4.11, the version of which ../testdata holds what the kernel said
// and ../DESIGN.md what it did; generation_test.go compares the two. DRBD 9 was never run. For one
// peer it has the same UUIDs and decides in the same order, with more slots of history.
//
// Each write goes to a block of its own, which is the bitmap's unit too. So a disk lacks a write
// exactly where it lacks a block, and what a wrong bitmap leaves out is seen. Not modelled:
// packets that are lost within a handshake (the kernel's rules 34 to 37, 51 and 71 repair them),
// resize, checksums, stacked resources.
package drbdmodel
