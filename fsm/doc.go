// Package fsm is every decision of Holdfast: one pure function, State.Apply, folds
// the log of commands into a state. It does no input and output, reads no clock,
// draws no random number and starts no goroutine, so that every member that applied
// the same log holds the same state; cmd/lint refuses what would break that.
//
// # The files
//
// Entities: the handlers of an entity are beside its type.
//
//	volume_     create, publish, stage, target, expand, modify, unpublish, delete; reports of its device
//	replica_    replicas of replicated volumes: attach, observe, primary, outdate, force, add and remove
//	snapshot_   snapshots and kept copies; group_ snapshots of several volumes at one instant
//	operation_  work that is pending on hosts, as records: begin, fail, cancel, retry
//	node_       hosts: register, reachability, topology; cluster.go the cluster itself
//	fence_      fences of hosts by their addresses, and the way back
//	failure_    what would happen if hosts stopped, and how many may; it only reads
//	revocation  certificates of identities that every listener refuses
//	join_token  tokens with which hosts get a certificate, once
//	report.go   what hosts observed, handed to the entity that it is about
//	placement_  which hosts and pools a volume gets
//
// The file of an entity, or its _record, has its type and beside it what of it is hashed, written to
// a dump and read from one. _desired is what the state wants of a host for it, _progress tells callers
// how far hosts are with what was decided, _known what there is for them, _check its invariants
// (of volumes and the rest: state_check.go).
//
// The machine:
//
//	commands.go, rejection.go   the table of all commands; why one is rejected
//	state.go, state_            the tables, indexes, reads, the memory of answers, trial forks
//	hash.go, hash_encoder.go    the sum over all records, and the bytes that a record is hashed as
//	dump.go, dump_              a state as a stream of records: order, dictionary, ids
//	sweep_                      changes of many records, written batch by batch
//	feature_level.go            which build decides what
//	convert.go, words.go, ids.go, text.go, uuid.go, constants.go   values
//
// Tests: player_ plays commands at random, sim_ plays two hosts with a model of DRBD, and
// state_fields_test.go finds a field that the hash or the dump forgets.
//
// # How a command is decided
//
// commands.go is the table of all commands; each row leads to a handler that checks
// first and writes last. A rejection is a decision: the same on every member, returned
// to the caller, the state unchanged. A fault (a command that this build does not know, a
// rejection that wrote) panics, before the states of two members diverge.
//
// Records (cluster, nodes, volumes, snapshots, group snapshots, fences, answers) live in
// ordered copy-on-write maps. Values are immutable and replaced whole, by the one put
// of their table in state_tables.go or snapshot_tables.go, which also moves the hash
// (hash.go) and what is derived: ordered indexes that forks share (state_index.go,
// snapshot_tables.go), and maps that each state owns alone (state_lookups.go).
//
// Time is the leader's, from the command, clamped to be monotonic; it decides nothing
// about safety (S27). Facts from outside, as how full a pool is, travel in the command.
//
// # Invariants
//
// State.Check verifies S101 to S118, and S151 to S160 of replicated volumes: after every
// Apply in tests and fuzzing, and in any program built with the tag `invariants`. What they
// require, and what each prevents, is in SAFETY.md.
//
// # Sweeps
//
// From feature level 2 on, no entry takes longer to apply the more volumes there are: what
// an entry changes of every volume of a host (its loss, a new boot, another replication
// address) or of all volumes (a restore) is recorded as a Sweep. Every read applies it to the
// records that do not have it yet, so the change is in force at once; the leader proposes
// ContinueSweep until it is written into all of them. Only the announcement to watchers waits
// for the batch.
//
// # Replicated volumes
//
// DESIGN.md says what the log decides about the replicas of a volume (S5 to S11), and
// why that is safe.
//
// # Feature levels (S72)
//
// A cluster runs at a feature level, and builds of several levels may apply its log. At
// level N each decides as the build that introduced N did, to the byte of every record:
// what is hashed is the same in both. feature_level.go has the numbers. To add a level:
//
//   - Add the next constant, and raise MaxFeatureLevel to it.
//   - Gate what Apply decides or writes in another way than before: ask State.atLevel, and
//     keep the old branch. Where the old build only faulted there is no branch to keep.
//   - A new command, observation, or field of one has the option `since` in command.proto.
//     LeastLevel follows from it; the leader writes that into the envelope and proposes
//     nothing above the cluster's level (TooNew). A new value of an enum is not seen by
//     this: carry it in a new field.
//   - A new field of a record is set at the new level only, and encoded at the record's
//     end where it is set, so that the records before it hash as they did. The dump
//     carries it as well; an older build refuses a dump of a higher level.
//   - A proposer asks for the cluster's level first, and at a lower one does what the
//     builds of that level do: State.Cluster on a controller, executor.Update on a host.
//   - The golden logs of earlier levels stay as they are, and replay to their hashes;
//     the new level gets its own: golden_levels_test.go has the command that writes them
//     (again, after each change of a level of which no build was released).
//   - jepsen/cluster rolls a cluster between the two builds, under load, forward and back.
//
// Apply faults on a command, a fact or a field that it does not know, at any depth. Texts
// of rejections are hashed at level 1, so that level's texts never change.
package fsm
