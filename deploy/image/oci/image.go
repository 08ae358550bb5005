package oci

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

// Release is what an image says of itself.
type Release struct {
	Version  string
	Revision string    // the commit
	Time     time.Time // of the commit
}

// Layer is a tree with the time of its files and how it was made.
type Layer struct {
	Tree      *rootfs.Tree
	Epoch     time.Time
	CreatedBy string
}

// Image is the image of layers, the first one lowest. It is the same, byte for byte, for the same arguments.
func Image(release Release, layers ...Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		compressed, err := layer.compressed()
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: compressed, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: layer.Epoch.UTC()}, CreatedBy: layer.CreatedBy},
		})
		if err != nil {
			return nil, fmt.Errorf("append the layer of %q: %w", layer.CreatedBy, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = "linux", "amd64", v1.Time{Time: release.Time.UTC()}, configOf(release)
	return mutate.ConfigFile(image, config)
}

func (l Layer) compressed() (v1.Layer, error) {
	var archive bytes.Buffer
	if err := l.Tree.Write(&archive, l.Epoch); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// configOf is how a container of the image runs where nothing else is said: as the controllers' user.
func configOf(release Release) v1.Config {
	return v1.Config{
		User:       fmt.Sprintf("%d:%d", rootfs.UserID, rootfs.UserID),
		Entrypoint: []string{"/usr/bin/holdfast"},
		Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":         "holdfast",
			"org.opencontainers.image.description":   "Storage control plane and CSI driver whose memory is a replicated log",
			"org.opencontainers.image.source":        "https://github.com/holdfast-storage/holdfast",
			"org.opencontainers.image.url":           "https://github.com/holdfast-storage/holdfast",
			"org.opencontainers.image.documentation": "https://github.com/holdfast-storage/holdfast",
			"org.opencontainers.image.vendor":        "Holdfast",
			"org.opencontainers.image.licenses":      "Apache-2.0",
			"org.opencontainers.image.version":       release.Version,
			"org.opencontainers.image.revision":      release.Revision,
			"org.opencontainers.image.created":       release.Time.UTC().Format(time.RFC3339),
		},
	}
}
