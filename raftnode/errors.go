package raftnode

import "errors"

// The ways in which Propose and Read fail. Outside all are UNAVAILABLE.
var (
	// ErrNotLeader: no leader took the command; nothing happened.
	ErrNotLeader = errors.New("no leader took the command")
	// ErrOutcomeUnknown: it may or may not have been applied; the same command
	// may be proposed again with the same request id.
	ErrOutcomeUnknown = errors.New("the outcome of the command is not known")
	// ErrShutdown: this member is stopping.
	ErrShutdown = errors.New("this member is shutting down")
	// ErrDiskFull: the Raft folder is nearly full, so mutations are refused (S28).
	ErrDiskFull = errors.New("the Raft folder's disk is full")
	// ErrDiverged: this member's state is not the majority's, or no majority agrees on
	// one (S23). Nothing happened.
	ErrDiverged = errors.New("the members do not agree on the state")
	// ErrRefused: the change of the membership could do harm. Nothing happened, and
	// trying again does not help.
	ErrRefused = errors.New("refused")
)

// IsUnavailable tells whether an error of this package means that the caller
// should try again, here or at another member.
func IsUnavailable(err error) bool {
	for _, known := range []error{ErrNotLeader, ErrOutcomeUnknown, ErrShutdown, ErrDiskFull, ErrDiverged} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// The exit codes of a member that ends its process.
const (
	// ExitRestart: a restart is safe and may heal it, or refuses with the remedy.
	ExitRestart = 75
	// ExitRemoved: the cluster removed this member; its folder is of no more use.
	ExitRemoved = 1
)
