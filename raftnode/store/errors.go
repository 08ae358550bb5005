package store

import (
	"errors"
	"fmt"
)

// The reasons for which Open refuses a data folder.
var (
	// ErrRefused: the data folder is damaged or not this member's (S21, S22).
	ErrRefused = errors.New("data folder refused")
	// ErrInUse: another process holds the folder's lock.
	ErrInUse = errors.New("data folder is in use by another process")
	// ErrNewer: a Raft snapshot is valid, but written by a newer build. Options.Verify returns it.
	ErrNewer = errors.New("written by a newer build")
	// ErrQuarantined: this member diverged and keeps its files for study (S23).
	ErrQuarantined = errors.New("member is quarantined")
)

// remedyRejoin is the remedy for damage that a single member cannot repair. The others hold the
// same data; a member with doubtful files must not vote on it.
const remedyRejoin = "remove this member from the cluster and join it again with an empty folder"

// remedyNewerBuild is the remedy for what a newer build wrote: the files are intact.
const remedyNewerBuild = "start the build that wrote it, or a newer one, on this folder"

// refuse makes an ErrRefused that names the file, what is wrong with it, and the remedy.
func refuse(file, remedy, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w; remedy: %s", ErrRefused, file, fmt.Errorf(format, args...), remedy)
}
