// Package fsm is every decision of Holdfast: one pure function, State.Apply, folds
// the log of commands into a state. It does no input and output, reads no clock,
// draws no random number and starts no goroutine, so that every member that applied
// the same log holds the same state; cmd/fsmvet refuses what would break that.
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
// State.Check verifies them: after every Apply in tests and fuzzing, and in any
// program built with the tag `invariants`:
//
//	I1  One name, one live volume: the name index and the volumes agree.
//	I2  A command applied twice leaves what it left once: within the dedupe window
//	    every answer is remembered, under its request id and its index (S4).
//	I3  A volume has at most one publication, as all modes served here are of one
//	    node, on a host that has its replica; its epoch is not above the state's.
//	I4  A report counts only under the epoch it names: staging and targets exist
//	    only inside a publication.
//	I5  Nothing is forgotten until its hosts report it gone, or an operator recorded
//	    the host as lost: every volume but a Failed one has a replica somewhere, a
//	    lost host holds and owes nothing.
//	I6  A volume is in at most one group. There are no groups at feature level 1.
//	I7  A fenced node holds no publication. There is no fencing at feature level 1;
//	    a lost node holds none.
//	I8  Reservations: what the pools' index says is the sum over the replicas and the
//	    snapshots.
//	I9  Format is monotone (S15), and whoever staged a volume has been given a format:
//	    staged and done means formatted or raw.
//	I10 Obligations are named: a volume that is Creating or Deleting, or owes a
//	    teardown, has an operation of that kind, and no two have the same id. From feature
//	    level 2 on a Ready volume has one of each kind at most, before that one at most.
//	I11 The hash is the sum over the records.
//	I12 Values are well formed: ids valid, lists sorted and without duplicates, sizes
//	    multiples of the unit, indexes not above the state's.
//	I13 One name, one live snapshot, one live group snapshot: their indexes and the
//	    records agree.
//	I14 A member of a group is listed by it and has the group's operation only.
//	I15 A group is cut under one freeze or not at all (S19): none of its members is
//	    cut while it is freezing, all are frozen while it is cutting, all are Ready
//	    when it is, none counts when it was given up.
//	I16 What a volume is being made from is there, in the same pool, until it is made.
//	I17 A size that its hosts have not reached has an operation that asks for it; no
//	    device is larger than its volume; limits are in force only where it is staged. A
//	    replica that was taken back smaller than its volume is grown before it is used,
//	    and no failure takes back the size.
//	I18 A sweep that is under way is in force: what is read has it, whether it is in the
//	    records or not. Names, ids and pools are given again only once it is written
//	    into the records that had them.
//	I19 Whose wish an entry changes is told (Touch), where the entry began a sweep when
//	    that is written: no host waits for a word that was said before it asked.
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
// why that is safe. Its invariants, beside those above:
//
//	R1  There is one grant to be primary at most, the last one made, under the one
//	    publication; a decision to force names a host that has a replica.
//	R2  A minor belongs to one volume, until its last host reported it gone; a port on a
//	    host to one replica, until its record is gone.
//	R3  No replica is up to date and outdated; the peer of one that went on alone is
//	    outdated, until both were seen together.
//	R4  Who may be primary is not outdated.
//	R5  Generations only grow, with every grant; what is known of contents is of the
//	    past, and what both had is of no earlier grant than the last.
//	R6  Legs and replicas that are neither gone nor leaving are of the same hosts, each
//	    once, two at most.
//	R7  Ready is born, Creating is not.
//	R8  A replica is up to date in its host's current boot and in the attachment that
//	    the log knows; what was seen is of that attachment.
//	R9  Local volumes have one replica, which does not leave.
//	R10 From feature level 2 on: the last copy of a Ready volume is never asked to be
//	    removed; while a replica that was given up is not gone, a side of the volume
//	    has its content, or lost it after no other could come back (S71).
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
