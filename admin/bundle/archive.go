package bundle

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// CheckName refuses a name that does not say how the archive is compressed.
func CheckName(path string) error {
	if _, err := compressionOf(path); err != nil {
		return err
	}
	return nil
}

func compressionOf(path string) (string, error) {
	switch {
	case strings.HasSuffix(path, ".tar.gz"), strings.HasSuffix(path, ".tgz"):
		return "gzip", nil
	case strings.HasSuffix(path, ".tar.zst"):
		return "zstd", nil
	}
	return "", fmt.Errorf("the name %q ends neither in .tar.gz nor in .tar.zst", path)
}

func compressor(path string, w io.Writer) (io.WriteCloser, error) {
	kind, err := compressionOf(path)
	if err != nil {
		return nil, err
	}
	if kind == "zstd" {
		return zstd.NewWriter(w)
	}
	return gzip.NewWriter(w), nil
}

func decompressor(path string, r io.Reader) (io.ReadCloser, error) {
	kind, err := compressionOf(path)
	if err != nil {
		return nil, err
	}
	if kind == "zstd" {
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return gzip.NewReader(r)
}

// writeArchive writes the manifest and its files, which are in dir, to a file that appears under its name when it is
// whole. A file of that name is not replaced.
func writeArchive(path, dir string, m *Manifest) (err error) {
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	err = fill(path, out, dir, m)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Link(out.Name(), path); err != nil { // unlike a rename it replaces nothing
		return fmt.Errorf("name the bundle: %w", err)
	}
	return os.Remove(out.Name())
}

func fill(path string, out io.Writer, dir string, m *Manifest) error {
	packed, err := compressor(path, out)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(header(manifestFile, int64(len(text)), m)); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	for _, file := range m.Files {
		if err := addFile(archive, dir, file, m); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

func header(name string, size int64, m *Manifest) *tar.Header {
	return &tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Made, Typeflag: tar.TypeReg}
}

func addFile(archive *tar.Writer, dir string, file File, m *Manifest) (err error) {
	content, err := os.Open(filepath.Join(dir, file.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if err := archive.WriteHeader(header(file.Name, file.Bytes, m)); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}
