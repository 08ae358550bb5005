// Package drbd replicates volumes with the kernel's DRBD: it implements
// executor.Replicator. It decides nothing. Each method is one step that the
// executor chose; it checks the kernel's state before it changes anything, and may
// be repeated.
//
//	config_file.go      the resource's file; config_template.go renders it for DRBD 8.4 and 9
//	proc.go             /proc/drbd
//	metadata.go         a disk's metadata: metadata_netlink.go from the module, metadata_size.go
//	                    their size, metadata_wipe.go their removal
//	observe.go          all of that as one observation; watch.go the kernel's stream of events
//	step.go             one step at a time for each resource
//	steps.go            metadata, attach, connect, roles, down
//	steps_resize.go     resize, verify, invalidate, adjust
//	kernel_errors.go    the kernel's error codes as rejections
//	secret.go           how two hosts authenticate each other
//	check_host.go       whether this host can hold replicas at all (S13)
//
// Never used here: `up` and `adjust`, which connect implicitly, a plain
// `disconnect`, and `down` of a connected or a primary resource: these outdate the
// good replica, or remove a device that is being written to (S8, S9).
//
// DESIGN.md says what was proven of DRBD 8.4 in guests, and what was not.
package drbd
