package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// refuseNewer refuses a folder that a newer build wrote. It only reads: the stores write as soon as they are opened.
func (d dataDir) refuseNewer(checkHeader func(io.Reader) error) error {
	var id identity
	if err := readChecksummed(d.identityPath(), "", &id); err == nil && id.Format > formatVersion {
		return refuse(d.identityPath(), remedyNewerBuild, "format %d is not known, only %d: %w", id.Format, formatVersion, ErrNewer)
	}
	if checkHeader == nil {
		return nil
	}
	folders, err := os.ReadDir(d.snapshotsPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the Raft snapshots: %w", err)
	}
	for _, folder := range folders {
		if err := d.checkHeaderOf(filepath.Join(d.snapshotsPath(), folder.Name()), checkHeader); err != nil {
			return err
		}
	}
	return nil
}

// checkHeaderOf looks at a Raft snapshot that is finished; what is wrong with its files is said when they are verified.
func (d dataDir) checkHeaderOf(folder string, checkHeader func(io.Reader) error) error {
	if _, err := os.Lstat(filepath.Join(folder, checksumFile)); err != nil {
		return nil //nolint:nilerr // Raft was not told that it was finished
	}
	content, err := os.Open(filepath.Join(folder, "state.bin"))
	if err != nil {
		return nil //nolint:nilerr // it is damaged
	}
	defer func() { _ = content.Close() }() // only read
	if err := checkHeader(content); err != nil {
		return refuse(folder, remedyNewerBuild, "the Raft snapshot is not for this build: %w", err)
	}
	return nil
}
