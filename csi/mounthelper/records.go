package mounthelper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Record is what this host mounts, or has yet to give back.
type Record struct {
	ID     fsm.VolumeID `json:"id"`
	Name   string       `json:"name"`
	Node   string       `json:"node"`
	Target string       `json:"target"`
	Block  bool         `json:"block,omitempty"`
	// Mode, UID and GID are those of the folder that is mounted on: the node removes it when it unmounts.
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

const recordSuffix = ".json"

// records are the files of a folder, one for each volume, with the folders where the volumes are staged.
type records string

func (r records) file(id fsm.VolumeID) string {
	return filepath.Join(string(r), string(id)+recordSuffix)
}

// staging is where a volume is staged.
func (r records) staging(id fsm.VolumeID) string {
	return filepath.Join(string(r), "staging", string(id))
}

// list returns the records in order of the volumes' ids. No folder is no records.
func (r records) list() (all []Record, err error) {
	entries, err := os.ReadDir(string(r))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), recordSuffix)
		if !isRecord || !fsm.VolumeID(id).Valid() {
			continue
		}
		record, err := r.read(fsm.VolumeID(id))
		if err != nil {
			return nil, err
		}
		if record != nil {
			all = append(all, *record)
		}
	}
	return all, nil
}

// read returns nil where there is no record.
func (r records) read(id fsm.VolumeID) (*Record, error) {
	text, err := os.ReadFile(r.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var record Record
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err == nil && record.ID != id {
		err = fmt.Errorf("it names volume %q", record.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("read the record %s: %w; remove the file when nothing of the volume is mounted here", r.file(id), err)
	}
	return &record, nil
}

// at finds the record of a target.
func (r records) at(target string) (*Record, error) {
	all, err := r.list()
	if i := slices.IndexFunc(all, func(record Record) bool { return record.Target == target }); err == nil && i >= 0 {
		return &all[i], nil
	}
	return nil, err
}

// write replaces the record, on the disk when it returns.
func (r records) write(record *Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := durablefile.Write(r.file(record.ID), text, 0o600); err != nil {
		return fmt.Errorf("write the record of volume %s: %w", record.Name, err)
	}
	return nil
}

func (r records) remove(id fsm.VolumeID) error {
	if err := durablefile.Remove(r.file(id)); err != nil {
		return fmt.Errorf("remove the record of volume %s: %w", id, err)
	}
	return nil
}

// lock keeps other helpers from a volume until unlock. It ends with the process. The file stays: who waits for it would
// hold a lock on one that is gone.
func (r records) lock(id fsm.VolumeID) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(string(r), "lock"), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of mounts: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(string(r), "lock", string(id)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock volume %s: %w", id, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, busy("volume %s is being mounted or unmounted here by another process", id)
	}
	return func() { _ = file.Close() }, nil // closing ends the lock
}
