package oci

import (
	"fmt"
	"os"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

// SBOM is where the image has the list of what is in it.
const SBOM = "usr/share/holdfast/sbom.spdx.json"

// Program is the tree of the upper layer: the program, the name under which kubectl calls it, the folders that it uses, and
// the list of what is in the image.
func Program(binary string, sbom []byte) (*rootfs.Tree, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the program for the image: %w", err)
	}
	t := rootfs.NewTree()
	t.Put("usr/bin/holdfast", 0o755, program)
	t.Link("usr/bin/kubectl-holdfast", "holdfast")
	t.Put(SBOM, 0o644, sbom)
	t.Folder("etc/holdfast", 0o755, 0, 0)
	t.Folder("var/lib/holdfast", 0o700, rootfs.UserID, rootfs.UserID)
	t.Folder("run/holdfast", 0o700, rootfs.UserID, rootfs.UserID)
	return t, nil
}
