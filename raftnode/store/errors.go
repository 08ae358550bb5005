package store

import (
	"errors"
	"fmt"
)

// Why Open refuses a data folder.
var (
	// ErrRefused: the folder is not what it says, or is damaged (S21, S22).
	ErrRefused = errors.New("data folder refused")
	// ErrInUse: another process holds the folder.
	ErrInUse = errors.New("data folder is in use by another process")
	// ErrNewer: a Raft snapshot is valid, and of a newer build. Options.Verify returns it.
	ErrNewer = errors.New("written by a newer build")
	// ErrQuarantined: this member diverged and keeps its files for study (S23).
	ErrQuarantined = errors.New("member is quarantined")
)

// remedyRejoin is the remedy for whatever a single member cannot repair by itself. The
// others hold the same data; a member with doubtful files must not vote on it.
const remedyRejoin = "remove this member from the cluster and join it again with an empty folder"

// remedyNewerBuild is the remedy for what a newer build wrote: nothing is wrong with the files.
const remedyNewerBuild = "start the build that wrote it, or a newer one, on this folder"

// refuse makes a refusal out of what is wrong with which file, and what to do about it.
func refuse(file, remedy, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w; remedy: %s", ErrRefused, file, fmt.Errorf(format, args...), remedy)
}
