package oci

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

func TestImageIsTheSameTwice(t *testing.T) {
	first, second := testImage(t, "v1"), testImage(t, "v1")
	a, err := first.Digest()
	require.NoError(t, err)
	b, err := second.Digest()
	require.NoError(t, err)
	require.Equal(t, a, b)

	other, err := testImage(t, "v2").Digest()
	require.NoError(t, err)
	require.NotEqual(t, a, other)
}

// An upgrade fetches only the upper layer.
func TestVersionsShareTheLowerLayer(t *testing.T) {
	var digests [2][]v1.Hash
	for i, version := range []string{"v1", "v2"} {
		layers, err := testImage(t, version).Layers()
		require.NoError(t, err)
		for _, layer := range layers {
			digest, err := layer.Digest()
			require.NoError(t, err)
			digests[i] = append(digests[i], digest)
		}
	}
	require.Len(t, digests[0], 2)
	require.Equal(t, digests[0][0], digests[1][0])
	require.NotEqual(t, digests[0][1], digests[1][1])
}

// What is written twice is there once, and both forms are the image.
func TestWrite(t *testing.T) {
	dir, image := t.TempDir(), testImage(t, "v1")
	for range 2 {
		require.NoError(t, Write(dir, "v1", image))
	}
	want, err := image.Digest()
	require.NoError(t, err)
	tag, err := name.NewTag(Name("v1"))
	require.NoError(t, err)
	archived, err := tarball.ImageFromPath(filepath.Join(dir, "holdfast.tar"), &tag)
	require.NoError(t, err)
	wantConfig, err := image.ConfigName()
	require.NoError(t, err)
	gotConfig, err := archived.ConfigName()
	require.NoError(t, err)
	require.Equal(t, wantConfig, gotConfig)

	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "oci"))
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	require.Equal(t, want, manifest.Manifests[0].Digest)
	require.Error(t, Write(dir, "not a tag", image))
}

func TestProgramIsInTheImage(t *testing.T) {
	content := mutate.Extract(testImage(t, "v1"))
	defer func() { _ = content.Close() }()
	found := map[string]*tar.Header{}
	for archive := tar.NewReader(content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		found[h.Name] = h
	}
	require.EqualValues(t, 0o755, found["usr/bin/holdfast"].Mode)
	require.Equal(t, "holdfast", found["usr/bin/kubectl-holdfast"].Linkname)
	require.Contains(t, found, SBOM)
	require.Equal(t, rootfs.UserID, found["var/lib/holdfast"].Uid)
	require.EqualValues(t, 0o700, found["var/lib/holdfast"].Mode)
}

func testImage(t *testing.T, version string) v1.Image {
	binary := filepath.Join(t.TempDir(), "holdfast")
	require.NoError(t, os.WriteFile(binary, []byte("program "+version), 0o600))
	program, err := Program(binary, []byte("{}"))
	require.NoError(t, err)
	base := rootfs.NewTree()
	base.Put("usr/sbin/lvm", 0o755, []byte("lvm"))
	image, err := Image(Release{Version: version, Time: time.Unix(2_000, 0)},
		Layer{Tree: base, Epoch: time.Unix(1_000, 0), CreatedBy: "packages"}, Layer{Tree: program, Epoch: time.Unix(2_000, 0), CreatedBy: version})
	require.NoError(t, err)
	return image
}
