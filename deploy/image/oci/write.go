package oci

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Name is the image's on this machine.
func Name(version string) string { return "localhost/holdfast:" + version }

// Write writes the image as DIR/holdfast.tar, which `ctr images import` and `docker load` read, and as the OCI layout
// DIR/oci, each in the place of an older one.
func Write(dir, version string, image v1.Image) error {
	tag, err := name.NewTag(Name(version))
	if err != nil {
		return fmt.Errorf("name the image: %w", err)
	}
	archive, unpacked := filepath.Join(dir, "holdfast.tar"), filepath.Join(dir, "oci")
	if err := tarball.WriteToFile(archive+".new", tag, image); err != nil {
		return fmt.Errorf("write %s: %w", archive, err)
	}
	if err := os.RemoveAll(unpacked); err != nil {
		return fmt.Errorf("remove the older image: %w", err)
	}
	path, err := layout.Write(unpacked, empty.Index)
	if err != nil {
		return fmt.Errorf("begin the OCI layout %s: %w", unpacked, err)
	}
	annotation := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})
	if err := path.AppendImage(image, annotation); err != nil {
		return fmt.Errorf("write the image to %s: %w", unpacked, err)
	}
	return os.Rename(archive+".new", archive)
}
