package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast-storage/holdfast/deploy/image/check"
	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

// checkImage builds the image twice, the second time in another folder, compares both, and calls the programs in it.
func checkImage(o *options) error {
	scratch, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	base, lock, err := o.baseOrToday(scratch)
	if err != nil {
		return err
	}
	if err := check.HasPrograms(base, o.repository); err != nil {
		return err
	}
	first, err := o.build(o.out, base, lock)
	if err != nil {
		return err
	}
	if err := o.again(scratch); err != nil {
		return err
	}
	if err := o.callPrograms(first, scratch); err != nil {
		return err
	}
	s, err := sizeOf(first)
	if err != nil {
		return err
	}
	if err := check.Readme(filepath.Join(o.repository, "README.md"), megabytes(s.compressed)); err != nil {
		return err
	}
	return describe(o, first)
}

// baseOrToday is the base of the lock where the mirrors have its packages. Mirrors without a date forget them in time: then it
// says so, and what is checked is how an image is made of today's.
func (o *options) baseOrToday(scratch string) (*rootfs.Tree, rootfs.Lock, error) {
	base, lock, failure := o.base()
	if failure == nil {
		return base, lock, nil
	}
	recipe, err := o.recipe()
	if err != nil {
		return nil, lock, errors.Join(failure, err)
	}
	today, err := recipe.Resolve(o.time())
	if err != nil {
		return nil, lock, errors.Join(failure, err)
	}
	changed := lock.Changed(today)
	if len(changed) == 0 {
		return nil, lock, failure
	}
	fmt.Printf("the mirrors do not have all that packages.lock names, so the image is checked with today's packages; changed: %v\n", changed)
	o.lock = filepath.Join(scratch, "packages.lock")
	if err := os.WriteFile(o.lock, []byte(today.String()), 0o644); err != nil { // #nosec G306 -- nothing secret
		return nil, lock, err
	}
	return o.base()
}

// again builds the image once more, from nothing, and compares the archives byte for byte.
func (o *options) again(scratch string) error {
	other := filepath.Join(scratch, "again")
	base, lock, err := o.base()
	if err != nil {
		return err
	}
	if _, err := o.build(other, base, lock); err != nil {
		return err
	}
	for _, name := range []string{"holdfast.tar", "sbom.spdx.json", "oci/index.json"} {
		a, err := sum(filepath.Join(o.out, name))
		if err != nil {
			return err
		}
		b, err := sum(filepath.Join(other, name))
		if err != nil {
			return err
		}
		if a != b {
			return fmt.Errorf("two builds of %s differ: sha256 %x and %x", name, a, b)
		}
	}
	return nil
}

func sum(file string) ([sha256.Size]byte, error) {
	content, err := os.ReadFile(file)
	return sha256.Sum256(content), err
}

func (o *options) callPrograms(image v1.Image, scratch string) error {
	if os.Geteuid() != 0 {
		fmt.Println("the programs in the image were not called: that needs root")
		return nil
	}
	dir := filepath.Join(scratch, "root")
	if err := os.Mkdir(dir, 0o755); err != nil { // #nosec G301 -- a file system's root
		return err
	}
	return check.Run(image, dir, o.version)
}
