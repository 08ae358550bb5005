// Package machine makes computers of namespaces: each has processes, mounts, a network, a name, cgroups and disks of its own, and ends
// with its first process, whatever runs in it. Nothing of it is left on the host but its folder, its cgroups and the loop devices of its
// disks, which Remove takes away.
package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Disk is an XFS filesystem in a sparse file of the machine's folder.
type Disk struct {
	Name string // of the file
	Size int64  // bytes
	At   string // where it is mounted; empty: it is raw, for a machine with a kernel of its own
}

// Config is what a machine is made of.
type Config struct {
	Name string
	// Dir is the folder of the machines that belong together; they see it under its own path. This machine's is Dir/Name.
	Dir string
	// Disks beside the one of the machine itself, which holds what it changes of the host's files.
	Disks []Disk
	// Kept are the folders that lie on the machine's disk and not above the host's: what needs more than an overlay offers.
	Kept []string
	// Files are the contents of files that differ from the host's, by path.
	Files map[string]string
	// Kernel is one of the machine's own; nil: the host's.
	Kernel *Kernel
	// guest is set in the machine's own kernel.
	guest bool
}

// Folder has the machine's disks, logs and state.
func (c Config) Folder() string { return filepath.Join(c.Dir, c.Name) }

// Log is where a unit's output goes.
func (c Config) Log(unit string) string { return filepath.Join(c.Folder(), "log", unit+".log") }

func (c Config) path(name string) string { return filepath.Join(c.Folder(), name) }

// cgroup is the machine's place in each of the host's hierarchies.
func (c Config) cgroup() string { return filepath.Join("holdfast-kubernetes", digest(c.Dir), c.Name) }

func (c Config) save() error {
	if err := os.MkdirAll(c.path("log"), 0o755); err != nil {
		return err
	}
	return writeJSON(c.path("config.json"), c)
}

// Open reads the config of the machine in Dir/name.
func Open(dir, name string) (Config, error) {
	var c Config
	return c, readJSON(filepath.Join(dir, name, "config.json"), &c)
}

// Names lists the machines whose folders are in dir.
func Names(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", "config.json"))
	names := make([]string, 0, len(found))
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names, err
}

func writeJSON(path string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func readJSON(path string, v any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
