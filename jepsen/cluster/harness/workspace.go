package harness

import (
	"os"
	"path/filepath"
)

// workspace is where one cluster is on this host, and how it was started.
type workspace struct {
	Base string // everything of this cluster
	Dir  string // --dir
	opts Options
}

func newWorkspace(opts Options) (*workspace, error) {
	made, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		return nil, err
	}
	base, err := filepath.EvalSymlinks(made) // as the kernel will name it
	if err != nil {
		return nil, err
	}
	w := &workspace{Base: base, Dir: filepath.Join(base, "d"), opts: opts}
	return w, os.MkdirAll(w.Mounts(), 0o755)
}

// Mounts is the directory below which staging and target paths are.
func (w *workspace) Mounts() string { return filepath.Join(w.Base, "mnt") }

// LogPath is the file with all that `dev` printed.
func (w *workspace) LogPath() string { return filepath.Join(w.Base, "dev.log") }

// Layout reads cluster.json as it is now.
func (w *workspace) Layout() (Layout, error) { return ReadLayout(w.Dir) }
