package rootfs

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// UserID is the uid and gid of the user holdfast, as which controllers run.
const UserID = 9800

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nholdfast:x:9800:9800:Holdfast:/var/lib/holdfast:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group  = "root:x:0:\ntty:x:5:\ndisk:x:6:\nholdfast:x:9800:\nnogroup:x:65534:\n"
	names  = "passwd: files\ngroup: files\nhosts: files dns\n"

	certificates = "usr/share/ca-certificates"
)

// Trim removes what the file excluded-paths of dir names, and of the documents all but licences.
func (t *Tree) Trim(dir string) error {
	excluded, err := Names(filepath.Join(dir, "excluded-paths"))
	if err != nil {
		return err
	}
	for _, name := range excluded {
		t.Remove(strings.TrimSuffix(name, "/"))
	}
	for _, name := range t.Names() {
		if rest, ok := strings.CutPrefix(name, "usr/share/doc/"); ok && strings.Contains(rest, "/") && !strings.HasSuffix(name, "/copyright") {
			t.Remove(name)
		}
	}
	return nil
}

// Finish does what the packages' scripts would: users, the certificates in one file, and the folders that are the same on
// every Debian.
func (t *Tree) Finish() error {
	var bundle bytes.Buffer
	for _, name := range t.Names() {
		if strings.HasPrefix(name, certificates+"/") && strings.HasSuffix(name, ".crt") {
			bundle.Write(t.entries[name].data)
		}
	}
	if bundle.Len() == 0 {
		return fmt.Errorf("no certificate is below /%s", certificates)
	}
	t.Remove(certificates)
	t.Put("etc/ssl/certs/ca-certificates.crt", 0o644, bundle.Bytes())
	t.Put("etc/passwd", 0o644, []byte(passwd))
	t.Put("etc/group", 0o644, []byte(group))
	t.Put("etc/nsswitch.conf", 0o644, []byte(names))
	t.Link("etc/mtab", "/proc/mounts")
	t.Link("var/run", "/run")
	t.Link("var/lock", "/run/lock")
	t.Folder("root", 0o700, 0, 0)
	t.Folder("tmp", 0o1777, 0, 0)
	t.Folder("run", 0o755, 0, 0)
	t.Folder("run/lock", 0o1777, 0, 0)
	for _, mountPoint := range []string{"dev", "proc", "sys"} {
		t.Folder(mountPoint, 0o755, 0, 0)
	}
	return nil
}
