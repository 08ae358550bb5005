// Package drbd replicates volumes with the kernel's DRBD: it implements
// executor.Replicator. It decides nothing. Each method is one step that the
// executor was told to take, looks at the kernel before it does anything, and may
// be asked again.
//
//	config.go   the resource's file, for the kernel's version (config9.go: DRBD 9)
//	proc.go     what /proc/drbd says, and gi.go what a disk's metadata say
//	observe.go  both as one observation; watch.go the kernel's stream of changes
//	steps.go    attach, connect, roles; grow.go resize, verify, invalidate; tear.go the way down
//	errors.go   one table from what the tools say to refusals
//	size.go     what the metadata take
//	secret.go   what two hosts know each other by
//	check.go    whether this host can do it at all (S13)
//
// Never used here: `up` and `adjust`, which connect by themselves, a plain
// `disconnect`, and `down` of a connected or a primary resource: these outdate the
// good side, or take a device away from who writes to it (S8, S9).
//
// DESIGN.md says what was proven of DRBD 8.4 in guests, and what was not.
package drbd
