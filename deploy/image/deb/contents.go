package deb

import (
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2/files"
)

// unitNames are the services of deploy/systemd.
var unitNames = []string{"holdfast-controller.service", "holdfast-node.service", "holdfast-mount@.service", "holdfast-mounts.service"}

// The program is in /usr/sbin, where the kernel's handler and the units name it; links give it the names under which mount,
// kubectl and people call it.
func (s Source) contents() files.Contents {
	var all files.Contents
	add := func(kind, from, to string, mode os.FileMode) {
		all = append(all, &files.Content{Type: kind, Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, Owner: "root", Group: "root", MTime: s.Time}})
	}
	here := func(name string) string { return filepath.Join(s.Repository, "deploy", name) }
	add(files.TypeFile, s.Binary, "/usr/sbin/holdfast", 0o755)
	for _, link := range []string{"/usr/bin/holdfast", "/usr/bin/kubectl-holdfast"} {
		add(files.TypeSymlink, "../sbin/holdfast", link, 0o777)
	}
	for _, link := range []string{"/usr/sbin/mount.holdfast", "/usr/sbin/umount.holdfast"} {
		add(files.TypeSymlink, "holdfast", link, 0o777)
	}
	for _, unit := range unitNames {
		add(files.TypeFile, here("systemd/"+unit), "/usr/lib/systemd/system/"+unit, 0o644)
	}
	add(files.TypeFile, here("systemd/sysusers.conf"), "/usr/lib/sysusers.d/holdfast.conf", 0o644)
	add(files.TypeFile, here("systemd/tmpfiles.conf"), "/usr/lib/tmpfiles.d/holdfast.conf", 0o644)
	add(files.TypeConfigNoReplace, here("systemd/controller.yaml"), "/etc/holdfast/controller.yaml", 0o644)
	add(files.TypeConfigNoReplace, here("systemd/node.yaml"), "/etc/holdfast/node.yaml", 0o644)
	add(files.TypeFile, filepath.Join(s.Repository, "LICENSE"), "/usr/share/doc/holdfast/copyright", 0o644)
	return all
}
