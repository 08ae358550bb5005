// Package fsm is every decision of Holdfast: one pure function, State.Apply, folds
// the log of commands into a state. It does no input and output, reads no clock,
// draws no random number and starts no goroutine, so that every member that applied
// the same log holds the same state; cmd/lint refuses what would break that.
//
// # How it is laid out
//
// commands.go is the table of all commands; each row leads to a handler that checks
// first and writes last. A rejection is a decision: the same on every member, told
// to the caller, the state unchanged. A fault (a command this build does not know, a
// rejection that wrote) panics, before the states of two members part.
//
// Records (cluster, nodes, volumes, snapshots, groups of them, answers) live in
// ordered copy-on-write maps. Values are immutable and replaced whole, by the one put
// of their table in tables.go or snapshot_tables.go, which also moves the hash
// (hash.go) and what is derived: ordered indexes that forks share (index.go,
// snapshot_tables.go), maps that each state owns alone (find.go).
//
// Time is the leader's, from the command, clamped to be monotonic; it decides nothing
// about safety (S27). Facts from outside travel in the command.
//
// # Invariants
//
// State.Check verifies S101 to S118, and S151 to S160 of replicated volumes: after every
// Apply in tests and fuzzing, and in any program built with the tag `invariants`. What they
// say, and what each prevents, is in SAFETY.md.
//
// # Sweeps
//
// Nothing that Apply does for one entry takes longer the more there is, from feature level
// 2 on: what an entry changes of every volume of a host (its loss, its new boot, that it
// replicates otherwise) or of all (a restore) is recorded as a Sweep, which every read
// applies to the records that do not have it yet. The leader proposes ContinueSweep until
// all have it. So safety waits for no batch; only who is to be told waits for its own.
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
// what is hashed is the same in both. level.go has the numbers. To add a level:
//
//   - Say the number: the next constant, and MaxFeatureLevel is it.
//   - Gate what Apply decides or writes otherwise than before: ask State.atLevel, and
//     keep the old branch. Only where the old build stopped is nothing to be kept.
//   - A new command, observation, or field of one says `since` in command.proto, from
//     which LeastLevel follows; the leader writes that into the envelope and proposes
//     nothing above the cluster's level (TooNew). A new value of an enum is not seen by
//     this: carry it in a new field.
//   - A new field of a record is set at the new level only, and encoded at the record's
//     end where it is set, so that the records before it hash as they did. The dump
//     carries it as well; an older build refuses a dump of a higher level.
//   - Who proposes asks the cluster's level first, and at a lower one does what the
//     builds of that level do: State.Cluster on a controller, executor.Update on a host.
//   - The golden logs of the levels before stay as they are, and replay to their hashes;
//     the new level gets one of its own.
//   - jepsen/cluster rolls a cluster between the two builds, under load, forward and back.
//
// Apply stops at a command, a fact or a field that it does not know, at any depth. Texts
// of rejections are hashed at level 1, so that level's texts never change.
package fsm
