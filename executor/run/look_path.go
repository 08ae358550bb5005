package run

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// systemDirs are the only directories in which tools are looked up.
var systemDirs = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// packages name the package of each tool, as Debian calls it.
var packages = map[string]string{
	"e2fsck":    "e2fsprogs",
	"mkfs.ext4": "e2fsprogs",
	"resize2fs": "e2fsprogs",
	"tune2fs":   "e2fsprogs",
	"mkfs.xfs":  "xfsprogs",
	"xfs_db":    "xfsprogs",

	"xfs_repair": "xfsprogs",

	"dmsetup":    "dmsetup",
	"lvm":        "lvm2",
	"thin_check": "thin-provisioning-tools",
	"thin_dump":  "thin-provisioning-tools",
	"thin_ls":    "thin-provisioning-tools",

	"cryptsetup": "cryptsetup-bin",

	"wipefs": "util-linux",

	"drbdadm":   "drbd-utils",
	"drbdmeta":  "drbd-utils",
	"drbdsetup": "drbd-utils",
}

// finder caches where each tool was found.
type finder struct {
	dirs  []string
	mu    sync.Mutex
	paths map[string]string
}

func (f *finder) lookPath(tool string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if path, ok := f.paths[tool]; ok {
		return path, nil
	}
	for _, dir := range f.dirs {
		path := filepath.Join(dir, tool)
		if !strings.Contains(tool, "/") && executable(path) {
			if f.paths == nil {
				f.paths = map[string]string{}
			}
			f.paths[tool] = path
			return path, nil
		}
	}
	return "", &MissingError{Tool: tool, Package: packages[tool]}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
