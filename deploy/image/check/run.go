package check

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// call is a command line and a word of what it prints.
type call struct{ line, prints string }

// calls are made in the image's tree, without devices: versions, and filesystems in files.
func calls(version string) []call {
	return []call{
		{"holdfast version", "holdfast " + version},
		{"kubectl-holdfast version", "holdfast " + version},
		{"lvm version", "LVM version:"},
		{"dmsetup version", "Library version:"},
		{"thin_check -V", "0."},
		{"thin_dump -V", "0."},
		{"thin_ls -V", "0."},
		{"cryptsetup --version", "cryptsetup 2."},
		{"drbdadm --version", "DRBDADM_VERSION="},
		{"modprobe --version", "kmod version"},
		{"losetup --version", "util-linux"},
		{"wipefs --version", "util-linux"},
		{"truncate -s 400M /tmp/disk", ""},
		{"mkfs.ext4 -q -F /tmp/disk", ""},
		{"e2fsck -f -y /tmp/disk", "/tmp/disk: 11/"},
		{"tune2fs -O ^metadata_csum_seed /tmp/disk", "tune2fs"},
		{"resize2fs /tmp/disk 300M", "is now"},
		{"wipefs --no-act --noheadings --output TYPE /tmp/disk", "ext4"},
		{"mkfs.xfs -q -f /tmp/disk", ""},
		{"xfs_db -x -c uuid /tmp/disk", "UUID ="},
		{"xfs_repair -n /tmp/disk", "No modify flag set"},
	}
}

// Run unpacks an image into an empty folder and calls its programs there, as root; some end with an error for want of
// devices, and have then printed what they should all the same.
func Run(image v1.Image, dir, version string) error {
	if err := unpack(image, dir); err != nil {
		return err
	}
	// What some tools look at is empty here: nothing is mounted.
	for _, name := range []string{"dev/null", "proc/mounts"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil { // #nosec G306 -- as the device is
			return err
		}
	}
	for _, c := range calls(version) {
		words := strings.Fields(c.line)
		cmd := exec.Command("chroot", append([]string{dir, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin", "LC_ALL=C"}, words...)...)
		out, err := cmd.CombinedOutput()
		if (c.prints == "" && err != nil) || !strings.Contains(string(out), c.prints) {
			return fmt.Errorf("in the image `%s` should print %q: %v\n%s", c.line, c.prints, err, out)
		}
	}
	return nil
}

func unpack(image v1.Image, dir string) error {
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	cmd := exec.Command("tar", "-x", "-p", "--numeric-owner", "-C", dir)
	cmd.Stdin = io.Reader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the image: %w: %s", err, out)
	}
	return nil
}
