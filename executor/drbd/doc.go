// Package drbd replicates volumes with the kernel's DRBD: it implements
// executor.Replicator. It decides nothing. Each method is one step that the
// executor chose; it checks the kernel's state before it changes anything, and may
// be repeated.
//
//	replicator.go       what executor asks for, composed of the parts below; replicator_*.go are its
//	                    steps: config, metadata, disk, connection, role, resync, resize, down
//	step.go             how a step runs; command_slots.go: one at a time for each resource
//	observe.go          all that is known of a resource as one observation; replicator_watch.go
//	                    the kernel's stream of events
//	kernel.go           what the kernel says: proc.go reads /proc/drbd, events.go the events,
//	                    kernel_owner.go tells whose a minor is, kernel_errors.go maps the kernel's
//	                    error codes to rejections
//	metadata.go         a disk's metadata: metadata_netlink.go from the module, metadata_size.go
//	                    their size
//	config_file.go      the resources' files: config_resource.go validates what goes into one,
//	                    config_template.go renders it for DRBD 8.4 and 9
//	config.go           where things are on this host, and DRBD's options
//	secret.go           how two hosts authenticate each other
//	check_host.go       whether this host can hold replicas at all (S13)
//
// Never used here: `up` and `adjust`, which connect implicitly, a plain
// `disconnect`, and `down` of a connected or a primary resource: these outdate the
// good replica, or remove a device that is being written to (S8, S9).
//
// DESIGN.md says what was proven of DRBD 8.4 in guests, and what was not. Package drbdmodel repeats
// that as a model for tests.
package drbd
