package mount

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// maxPathBytes is the kernel's PATH_MAX, which includes the terminating zero.
const maxPathBytes = 4096

// allowedRoot is a directory below which paths are allowed.
type allowedRoot struct {
	configured string // the configured path, cleaned
	real       string // the resolved path
	fd         int
}

func openAllowedRoot(dir string) (allowedRoot, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return allowedRoot{}, fmt.Errorf("allowed folder %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return allowedRoot{}, fmt.Errorf("allowed folder %s: %w", dir, err)
	}
	fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return allowedRoot{}, fmt.Errorf("open the allowed folder %s: %w", dir, err)
	}
	return allowedRoot{configured: abs, real: real, fd: fd}, nil
}

// below returns the path relative to the root, given by either of the root's paths.
func (r allowedRoot) below(path string) (string, bool) {
	for _, name := range []string{r.configured, r.real} {
		rel, ok := strings.CutPrefix(path, strings.TrimSuffix(name, "/")+"/")
		if ok && rel != "" {
			return rel, true
		}
	}
	return "", false
}

// rootedPath is a path below an allowed root. It is resolved again at each use.
type rootedPath struct {
	root allowedRoot
	rel  string
}

func (p rootedPath) String() string { return p.real() }

// real is the path as the kernel's mount table has it.
func (p rootedPath) real() string { return filepath.Join(p.root.real, p.rel) }

// resolveRoot finds the root that a path is below; Invalid when there is none.
func (m *Mounter) resolveRoot(path string) (rootedPath, error) {
	clean := strings.TrimRight(path, "/")
	switch {
	case !filepath.IsAbs(path) || strings.ContainsRune(path, 0):
		return rootedPath{}, fsm.Reject(fsm.Invalid, "the path %q is not absolute", path)
	case len(path) >= maxPathBytes:
		return rootedPath{}, fsm.Reject(fsm.Invalid, "the path has %d bytes, more than the %d that the system allows", len(path), maxPathBytes-1)
	case filepath.Clean(path) != clean:
		return rootedPath{}, fsm.Reject(fsm.Invalid, "the path %q holds empty, '.' or '..' parts", path)
	}
	best := rootedPath{}
	for _, r := range m.roots {
		if rel, ok := r.below(clean); ok && (best.rel == "" || len(rel) < len(best.rel)) {
			best = rootedPath{root: r, rel: rel}
		}
	}
	if best.rel == "" {
		return rootedPath{}, fsm.Reject(fsm.Invalid, "the path %s is not below a folder that is allowed for mounts", clean)
	}
	return best, nil
}

// CheckMount reports by an error whether a path, and flags for a filesystem type, may be used.
func (m *Mounter) CheckMount(path, fsType string, flags []string) error {
	if _, err := m.resolveRoot(path); err != nil {
		return err
	}
	_, err := parseFlags(m.policy, fsType, flags)
	return err
}

// RealPath returns the path as the kernel's mount table has it; Invalid when it is not below an
// allowed root.
func (m *Mounter) RealPath(path string) (string, error) {
	p, err := m.resolveRoot(path)
	if err != nil {
		return "", err
	}
	return p.real(), nil
}

// open opens the path without following any symbolic link, as an O_PATH descriptor.
func (p rootedPath) open(flags uint64) (int, error) {
	fd, err := openBelow(p.root.fd, p.rel, flags|unix.O_PATH)
	return fd, p.pathRejection(err)
}

// parent opens the path's parent directory and returns the name of the last element.
func (p rootedPath) parent() (int, string, error) {
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

// pathRejection turns an error of a path lookup into a rejection that explains it.
func (p rootedPath) pathRejection(err error) error {
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
