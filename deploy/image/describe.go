package main

import (
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/holdfast-storage/holdfast/deploy/image/oci"
)

// size is what a host fetches, and what it then stores, in bytes.
type size struct{ compressed, unpacked int64 }

func sizeOf(image v1.Image) (size, error) {
	layers, err := image.Layers()
	if err != nil {
		return size{}, err
	}
	var s size
	for _, layer := range layers {
		n, err := layer.Size()
		if err != nil {
			return s, err
		}
		s.compressed += n
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	s.unpacked, err = io.Copy(io.Discard, content)
	return s, err
}

func describe(o *options, image v1.Image) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	s, err := sizeOf(image)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %d MB to fetch, %d MB unpacked, in %s\n", oci.Name(o.version), digest, megabytes(s.compressed), megabytes(s.unpacked), o.out)
	return nil
}

func megabytes(n int64) int64 { return (n + 500_000) / 1_000_000 }
