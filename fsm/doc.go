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
// Records (cluster, nodes, volumes, answers) live in ordered copy-on-write maps.
// Values are immutable and replaced whole, by the one put of their table in
// tables.go, which also moves the hash (hash.go) and what is derived: ordered
// indexes that forks share (index.go), maps that each state owns alone (find.go).
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
//	I8  Reservations: what the pools' index says is the sum over the replicas.
//	I9  Format is monotone (S15), and whoever staged a volume has been given a format:
//	    staged and done means formatted or raw.
//	I10 Obligations are named: a volume that is Creating or Deleting, or owes a
//	    teardown, has an operation of that kind, and no two have the same id.
//	I11 The hash is the sum over the records.
//	I12 Values are well formed: ids valid, lists sorted and without duplicates, sizes
//	    multiples of the unit, indexes not above the state's.
package fsm
