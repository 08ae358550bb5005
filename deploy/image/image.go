package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast-storage/holdfast/deploy/image/oci"
	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
	"github.com/holdfast-storage/holdfast/deploy/image/sbom"
)

// lock writes the versions that the mirrors have now.
func lock(o *options) error {
	recipe, err := o.recipe()
	if err != nil {
		return err
	}
	versions, err := recipe.Resolve(time.Now())
	if err != nil {
		return err
	}
	return os.WriteFile(o.lock, []byte(versions.String()), 0o644) // #nosec G306 -- a file of the repository
}

// image makes the image and says what it is.
func image(o *options) error {
	base, lock, err := o.base()
	if err != nil {
		return err
	}
	built, err := o.build(o.out, base, lock)
	if err != nil {
		return err
	}
	return describe(o, built)
}

func (o *options) recipe() (rootfs.Recipe, error) {
	sources, err := rootfs.Sources(o.mirrors())
	return rootfs.Recipe{Dir: o.dir, Sources: sources}, err
}

// base is the lower layer's tree.
func (o *options) base() (*rootfs.Tree, rootfs.Lock, error) {
	lock, err := rootfs.ReadLock(o.lock)
	if err != nil {
		return nil, lock, err
	}
	recipe, err := o.recipe()
	if err != nil {
		return nil, lock, err
	}
	tree, err := recipe.Fetch(o.lock, lock.Epoch)
	if err != nil {
		return nil, lock, fmt.Errorf("%w\nif a mirror has other versions by now: set IMAGE_MIRROR to the day of the lock, or run `make image-lock`", err)
	}
	if err := errors.Join(tree.Trim(o.dir), tree.Finish()); err != nil {
		return nil, lock, err
	}
	if missing := tree.Missing(); len(missing) > 0 {
		return nil, lock, fmt.Errorf("packages are left out that the image needs:\n%s", strings.Join(missing, "\n"))
	}
	return tree, lock, nil
}

// build makes the image on a base, and writes it with its name and the list of what is in it to a folder.
func (o *options) build(dir string, base *rootfs.Tree, lock rootfs.Lock) (v1.Image, error) {
	list, err := sbom.Document(sbom.Source{Version: o.version, Time: o.time(), Status: string(base.Content("var/lib/dpkg/status")), Program: o.binary})
	if err != nil {
		return nil, err
	}
	program, err := oci.Program(o.binary, list)
	if err != nil {
		return nil, err
	}
	built, err := oci.Image(oci.Release{Version: o.version, Revision: o.revision, Time: o.time()},
		oci.Layer{Tree: base, Epoch: lock.Epoch, CreatedBy: "mmdebstrap: Debian packages of packages.lock"},
		oci.Layer{Tree: program, Epoch: o.time(), CreatedBy: "holdfast " + o.version})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- nothing secret
		return nil, err
	}
	for name, content := range map[string][]byte{"sbom.spdx.json": list, "name": []byte(oci.Name(o.version) + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { // #nosec G306 -- as above
			return nil, err
		}
	}
	return built, oci.Write(dir, o.version, built)
}
