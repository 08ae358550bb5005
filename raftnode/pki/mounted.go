package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Where a Secret of Kubernetes is mounted, each file is a link into `..data`, which is a link to the folder of one
// version: kubelet replaces all files at once by replacing that link, and then removes the former version. So files that
// belong together are read below one version. The mount's folder is everybody's (mode 1777) and belongs to the pod; what
// counts there is each file: its owner and who may read it.

// dataLink leads to the version that is mounted now.
const dataLink = "..data"

// readAttempts bounds how often files are read again whose version was removed meanwhile.
const readAttempts = 5

// location is where a file is read now.
type location struct {
	given   string // as it was named, for errors
	path    string
	mounted bool // path is below a version of a mount
}

// locate finds files, those of one mount in one version of it.
func locate(paths ...string) ([]location, error) {
	versions := map[string]string{}
	found := make([]location, len(paths))
	for i, path := range paths {
		mount, rest, ok := mountOf(path)
		if !ok {
			found[i] = location{given: path, path: path}
			continue
		}
		if versions[mount] == "" {
			version, err := versionIn(mount)
			if err != nil {
				return nil, fmt.Errorf("look at %s: %w", path, err)
			}
			versions[mount] = version
		}
		found[i] = location{given: path, path: filepath.Join(versions[mount], rest), mounted: true}
	}
	return found, nil
}

// mountOf splits a path that leads through `..data` into the mount's folder and what follows that link.
func mountOf(path string) (mount, rest string, ok bool) {
	for at := filepath.Clean(path); at != filepath.Dir(at); at = filepath.Dir(at) {
		target, err := os.Readlink(at)
		if err != nil {
			continue
		}
		below, _ := filepath.Rel(at, filepath.Clean(path))
		if filepath.Base(at) == dataLink {
			return filepath.Dir(at), below, true
		}
		if inside, found := strings.CutPrefix(target, dataLink+"/"); found {
			rest = filepath.Join(inside, below)
			return filepath.Dir(at), rest, filepath.IsLocal(rest)
		}
	}
	return "", "", false
}

// versionIn is the folder of the version that is mounted now. It is a folder of the mount itself.
func versionIn(mount string) (string, error) {
	name, err := os.Readlink(filepath.Join(mount, dataLink))
	if err != nil {
		return "", err
	}
	if filepath.Base(name) != name || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s leads out of its folder, to %q", filepath.Join(mount, dataLink), name)
	}
	return filepath.Join(mount, name), nil
}

// isMount tells whether a folder is where a Secret is mounted.
func isMount(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, dataLink))
	return err == nil && info.Mode().Type() == fs.ModeSymlink
}

// owner is who reads files.
type owner struct {
	uid    int
	groups []int
}

func thisProcess() owner {
	groups, _ := os.Getgroups() // without them fewer files are accepted
	return owner{uid: os.Geteuid(), groups: append(groups, os.Getegid())}
}

// checkMounted refuses a file of a mount that others than root and this process can read or replace.
func (o owner) checkMounted(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok || !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case stat.Uid != 0 && int(stat.Uid) != o.uid:
		return fmt.Errorf("%s belongs to the user %d, neither to root nor to this process's user %d", path, stat.Uid, o.uid)
	case mode&0o037 != 0:
		return fmt.Errorf("%s has mode %#o, so others than its owner can reach it: mount the Secret with defaultMode 0400", path, mode)
	case mode&0o040 != 0 && !slices.Contains(o.groups, int(stat.Gid)):
		return fmt.Errorf("%s can be read by the group %d, of which this process is no member: mount the Secret with defaultMode 0400, or make it the pod's fsGroup", path, stat.Gid)
	}
	return nil
}

// readTogether reads files that only their owner can reach. Those of a mount are of one version.
func readTogether(paths ...string) (content [][]byte, err error) {
	content, _, err = readStamped(paths...)
	return content, err
}

// readStamped reads files and says, from before that, what tells whether they changed since.
func readStamped(paths ...string) (content [][]byte, stamps []fileStamp, err error) {
	for range readAttempts {
		var at []location
		if at, err = locate(paths...); err == nil {
			content, stamps, err = readAt(at)
		}
		if !errors.Is(err, fs.ErrNotExist) || !slices.ContainsFunc(at, func(l location) bool { return l.mounted }) {
			break // else the version was removed meanwhile
		}
	}
	return content, stamps, err
}

func readAt(at []location) (content [][]byte, stamps []fileStamp, err error) {
	if stamps, err = stampAt(at); err != nil {
		return nil, nil, err
	}
	for _, file := range at {
		text, err := file.read()
		if err != nil {
			return nil, nil, err
		}
		content = append(content, text)
	}
	return content, stamps, nil
}
