package bundle

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// format is what this build writes and the only one it reads.
const format = 1

// The files of a bundle that commands read.
const (
	manifestFile = "manifest.json"
	doctorFile   = "doctor.json"
	auditFile    = "audit.json"
	stateFile    = "state.dump"
	baseFile     = "base.dump"
	journalFile  = "journal.pb"
)

// Manifest is the first file of a bundle.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of the build that wrote it
	Log     Log       `json:"log"`
	Files   []File    `json:"files"`
	Missing []Missing `json:"missing"`
}

// Log is which part of the log is there.
type Log struct {
	Member    string `json:"member,omitempty"` // whose journal it is
	Index     uint64 `json:"index"`            // of state.dump, and up to which the journal goes
	From      uint64 `json:"from"`             // from which the journal is there; 0: it is missing
	KnownFrom uint64 `json:"known_from"`       // from which the member had it
	Base      uint64 `json:"base"`             // of base.dump; 0: there is none
}

// File is one file, and the log index at which it was read; 0: none was told.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Index  uint64 `json:"index"`
}

// Missing is a part that could not be gathered.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// missing is why a file is not there.
func (m *Manifest) missing(name string) error {
	for _, part := range m.Missing {
		if part.Name == name {
			return fmt.Errorf("the bundle has no %s: %s", name, part.Reason)
		}
	}
	return fmt.Errorf("the bundle has no %s", name)
}

func (m *Manifest) file(name string) (File, bool) {
	for _, file := range m.Files {
		if file.Name == name {
			return file, true
		}
	}
	return File{}, false
}

// check refuses a manifest whose names lead elsewhere.
func (m *Manifest) check() error {
	if m.Format != format {
		return fmt.Errorf("its format is %d, and this build reads %d", m.Format, format)
	}
	seen := map[string]bool{manifestFile: true}
	for _, file := range m.Files {
		if seen[file.Name] || file.Name != filepath.Base(file.Name) || strings.HasPrefix(file.Name, ".") || file.Bytes < 0 {
			return fmt.Errorf("its manifest names a file %q", file.Name)
		}
		seen[file.Name] = true
	}
	return nil
}
