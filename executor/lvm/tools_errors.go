package lvm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// Failures that callers handle.
var (
	errNoGroup        = errors.New("there is no such volume group")
	errMissing        = errors.New("it does not exist")
	errExists         = errors.New("it exists already")
	errInUse          = errors.New("it is in use")
	errFull           = errors.New("the pool is full")
	errSameSize       = errors.New("it has this size already")
	errOrphan         = errors.New("the pool's metadata has a thin device that LVM does not know")
	errNoMetadataSnap = errors.New("the pool's metadata has no snapshot")
	errDMInUse        = errors.New("the device is in use")
	errNoMapping      = errors.New("there is no such device")
)

// knownFailures maps the tools' exit codes and messages to errors. The messages are those of lvm2
// 2.03 and thin-provisioning-tools 0.9, in English.
var knownFailures = []struct {
	tool string
	code int
	text string // that its output contains
	err  error
}{
	{"lvm", 5, "Cannot process volume group", errNoGroup},
	{"lvm", 5, "Failed to find logical volume", errMissing},
	{"lvm", 5, "already exists in volume group", errExists},
	{"lvm", 5, "is used by another device", errInUse},
	{"lvm", 5, "contains a filesystem in use", errInUse},
	{"lvm", 5, " in use", errInUse},
	{"lvm", 5, "reached threshold", errFull},
	{"lvm", 5, "is above threshold", errFull},
	{"lvm", 5, "matches existing size", errSameSize},
	{"lvm", 5, "already contain thin device", errOrphan},
	{"dmsetup", 1, "Device or resource busy", errDMInUse},
	{"dmsetup", 1, "No such device or address", errNoMapping},
	{"dmsetup", 1, "Device does not exist", errNoMapping},
	{"dmsetup", 1, "Invalid argument", errNoMetadataSnap},
	{"thin_dump", 1, "no current metadata snap", errNoMetadataSnap},
	{"thin_ls", 1, "no current metadata snap", errNoMetadataSnap},
}

// classifyError wraps a command's failure in one of the errors above, if it is known.
func classifyError(err error) error {
	var failed *run.Error
	if !errors.As(err, &failed) {
		return err
	}
	for _, f := range knownFailures {
		if f.tool == failed.Tool && f.code == failed.Code && strings.Contains(failed.Output, f.text) {
			return fmt.Errorf("%w: %w", f.err, err)
		}
	}
	return err
}
