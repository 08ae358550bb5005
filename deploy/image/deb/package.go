package deb

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

// Source is what a package is made of.
type Source struct {
	Version    string    // as git describes it
	Time       time.Time // that all files have
	Binary     string    // the static program
	Repository string    // the product's source
}

// Write writes DIR/holdfast_VERSION_amd64.deb, the same for the same source, and returns its path.
func Write(dir string, source Source) (string, error) {
	info := nfpm.WithDefaults(source.info())
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return "", fmt.Errorf("prepare the Debian package: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- nothing secret
		return "", err
	}
	file := filepath.Join(dir, deb.Default.ConventionalFileName(info))
	out, err := os.Create(file) // #nosec G304 -- named by the caller
	if err != nil {
		return "", err
	}
	if err := deb.Default.Package(info, out); err != nil {
		_ = out.Close()
		return "", fmt.Errorf("make %s: %w", file, err)
	}
	return file, out.Close()
}

func (s Source) info() *nfpm.Info {
	scripts := filepath.Join(s.Repository, "deploy/image/deb/scripts")
	return &nfpm.Info{
		Name: "holdfast", Arch: "amd64", Platform: "linux", Version: Version(s.Version, s.Time), VersionSchema: "none", MTime: s.Time,
		Section: "admin", Priority: "optional", Maintainer: "Holdfast <holdfast@localhost>", Homepage: "https://github.com/holdfast-storage/holdfast",
		License: "Apache-2.0",
		Description: "storage control plane and CSI driver whose memory is a replicated log\n" +
			"Three controllers keep a Raft log, and a node process on each storage host makes\n" +
			"true what the log says: volumes on files, LVM thin pools and DRBD, their\n" +
			"snapshots, filesystems and mounts. Neither service is enabled by installing it.",
		Overridables: nfpm.Overridables{
			Depends:    []string{"e2fsprogs", "xfsprogs", "util-linux", "mount", "kmod", "ca-certificates", "systemd"},
			Recommends: []string{"lvm2", "dmsetup", "thin-provisioning-tools", "cryptsetup-bin"},
			Suggests:   []string{"drbd-utils"},
			Contents:   s.contents(),
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinst"), PreRemove: filepath.Join(scripts, "prerm"), PostRemove: filepath.Join(scripts, "postrm"),
			},
		},
	}
}
