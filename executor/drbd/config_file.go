package drbd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	filePrefix = "holdfast-"
	fileSuffix = ".res"
)

// resourceFiles are the resources' files on this host, one for each volume.
type resourceFiles struct{ config *Config }

func (f *resourceFiles) path(id fsm.VolumeID) string {
	return filepath.Join(f.config.Dir, filePrefix+string(id)+fileSuffix)
}

// write replaces a volume's file atomically. It is readable by root only, since it holds the
// secret.
func (f *resourceFiles) write(id fsm.VolumeID, text []byte) error {
	path := f.path(id)
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, text) {
		return os.Chmod(path, 0o600)
	}
	if err := os.MkdirAll(f.config.Dir, 0o755); err != nil {
		return fmt.Errorf("configure %s: %w", id, err)
	}
	if err := durablefile.Write(path, text, 0o600); err != nil {
		return fmt.Errorf("configure %s: %w", id, err)
	}
	return nil
}

var (
	minorInFile   = regexp.MustCompile(`(?m)^\s*device minor (\d+);$`)
	backingInFile = regexp.MustCompile(`(?m)^\s*disk "([^"]+)";$`)
)

func (f *resourceFiles) read(id fsm.VolumeID) (string, bool, error) {
	text, err := os.ReadFile(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the configuration of %s: %w", id, err)
	}
	return string(text), true, nil
}

// minor returns the minor that the resource's file names; false without a file.
func (f *resourceFiles) minor(id fsm.VolumeID) (uint32, bool, error) {
	text, found, err := f.read(id)
	if err != nil || !found {
		return 0, false, err
	}
	m := minorInFile.FindStringSubmatch(text)
	if m == nil {
		return 0, false, fmt.Errorf("the configuration of %s names no minor", id)
	}
	minor, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil {
		return 0, false, fmt.Errorf("the configuration of %s: %w", id, err)
	}
	return uint32(minor), true, nil
}

// backing returns the path of the backing device that the resource's file names.
func (f *resourceFiles) backing(id fsm.VolumeID) (string, error) {
	text, _, err := f.read(id)
	if err != nil {
		return "", err
	}
	m := backingInFile.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("the configuration of %s names no device below", id)
	}
	return m[1], nil
}

// volumes returns the volumes that have a file, by minor.
func (f *resourceFiles) volumes() (map[uint32]fsm.VolumeID, error) {
	entries, err := os.ReadDir(f.config.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the configured volumes: %w", err)
	}
	volumes := map[uint32]fsm.VolumeID{}
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), filePrefix)
		name, resource := strings.CutSuffix(name, fileSuffix)
		id := fsm.VolumeID(name)
		if !ours || !resource || !id.Valid() {
			continue
		}
		if minor, found, err := f.minor(id); err != nil {
			return nil, err
		} else if found {
			volumes[minor] = id
		}
	}
	return volumes, nil
}
