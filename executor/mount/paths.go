package mount

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// pathLimit is the kernel's own, with the zero at the end.
const pathLimit = 4096

// root is one allowed folder.
type root struct {
	given string // as configured, cleaned
	real  string // as the kernel names it
	fd    int
}

func openRoot(dir string) (root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return root{}, fmt.Errorf("allowed folder %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return root{}, fmt.Errorf("allowed folder %s: %w", dir, err)
	}
	fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return root{}, fmt.Errorf("open the allowed folder %s: %w", dir, err)
	}
	return root{given: abs, real: real, fd: fd}, nil
}

// below is the path relative to the root, by either of its names.
func (r root) below(path string) (string, bool) {
	for _, name := range []string{r.given, r.real} {
		rel, ok := strings.CutPrefix(path, strings.TrimSuffix(name, "/")+"/")
		if ok && rel != "" {
			return rel, true
		}
	}
	return "", false
}

// place is a path below an allowed root. It is resolved anew at each use.
type place struct {
	root root
	rel  string
}

func (p place) String() string { return p.real() }

// real is the path as the kernel's table names it.
func (p place) real() string { return filepath.Join(p.root.real, p.rel) }

// locate finds the root that a path is below; Invalid when there is none.
func (m *Mounter) locate(path string) (place, error) {
	clean := strings.TrimRight(path, "/")
	switch {
	case !filepath.IsAbs(path) || strings.ContainsRune(path, 0):
		return place{}, fsm.Reject(fsm.Invalid, "the path %q is not absolute", path)
	case len(path) >= pathLimit:
		return place{}, fsm.Reject(fsm.Invalid, "the path has %d bytes, more than the %d that the system allows", len(path), pathLimit-1)
	case filepath.Clean(path) != clean:
		return place{}, fsm.Reject(fsm.Invalid, "the path %q holds empty, '.' or '..' parts", path)
	}
	best := place{}
	for _, r := range m.roots {
		if rel, ok := r.below(clean); ok && (best.rel == "" || len(rel) < len(best.rel)) {
			best = place{root: r, rel: rel}
		}
	}
	if best.rel == "" {
		return place{}, fsm.Reject(fsm.Invalid, "the path %s is not below a folder that is allowed for mounts", clean)
	}
	return best, nil
}

// CheckMount tells whether a path, and flags for a filesystem, may be used at all.
func (m *Mounter) CheckMount(path, fsType string, flags []string) error {
	if _, err := m.locate(path); err != nil {
		return err
	}
	_, err := parseFlags(m.mounts, fsType, flags)
	return err
}

// RealPath is the path as the kernel's table names it.
func (m *Mounter) RealPath(path string) (string, error) {
	p, err := m.locate(path)
	if err != nil {
		return "", err
	}
	return p.real(), nil
}

// open opens the file itself, without following a symbolic link anywhere, and
// without looking inside it.
func (p place) open(flags uint64) (int, error) {
	fd, err := openBelow(p.root.fd, p.rel, flags|unix.O_PATH)
	return fd, p.refuse(err)
}

// parent opens the folder that the path is in and returns the last part's name.
func (p place) parent() (int, string, error) {
	dir, base := filepath.Split(p.rel)
	if dir == "" {
		dir = "."
	}
	fd, err := openBelow(p.root.fd, dir, unix.O_PATH|unix.O_DIRECTORY)
	return fd, base, err
}

func openBelow(dir int, rel string, flags uint64) (int, error) {
	return unix.Openat2(dir, rel, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// refuse turns what is wrong with a path into a refusal that says it.
func (p place) refuse(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ELOOP):
		return fsm.Reject(fsm.Invalid, "the path %s passes through a symbolic link", p)
	case errors.Is(err, unix.ENOTDIR):
		return fsm.Reject(fsm.Invalid, "the path %s is not a folder", p)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fsm.Reject(fsm.Invalid, "the path %s is longer than the system allows", p)
	case errors.Is(err, unix.ENOENT):
		return fsm.Reject(fsm.Precondition, "the path %s does not exist", p)
	}
	return fmt.Errorf("open %s: %w", p, err)
}
