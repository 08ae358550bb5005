package drbd

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// open tells whether somebody has a minor's device: another device above it, a mount
// in this namespace, or a process, as far as its name is below /dev. It opens nothing
// itself, since that would keep the device from becoming secondary. SetSecondary's
// Busy is the kernel's own word.
func (r *Replicator) open(minor uint32) bool {
	held, err := os.ReadDir(filepath.Join(r.config.sys, "block", "drbd"+number(minor), "holders"))
	if err == nil && len(held) > 0 {
		return true
	}
	return r.mounted(minor) || r.inProcess(minor)
}

func (r *Replicator) mounted(minor uint32) bool {
	f, err := os.Open(filepath.Join(r.config.proc, "self", "mountinfo"))
	if err != nil {
		return false
	}
	defer f.Close()
	device := strconv.Itoa(drbdMajor) + ":" + number(minor)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == device {
			return true
		}
	}
	return false
}

func (r *Replicator) inProcess(minor uint32) bool {
	links, err := filepath.Glob(filepath.Join(r.config.proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return false
	}
	device := unix.Mkdev(drbdMajor, minor)
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || !strings.HasPrefix(target, "/dev/") {
			continue
		}
		var stat unix.Stat_t
		if unix.Stat(link, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK && stat.Rdev == device {
			return true
		}
	}
	return false
}
