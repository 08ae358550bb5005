// Package image writes container images as the archives that docker save writes, without Docker.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
)

// File is a file of an image: a program of the host, or a link.
type File struct {
	At   string // absolute path in the image
	From string // the host's file
	Link string // or where the link leads
}

// Image is one layer of files under the names by which pods ask for it.
type Image struct {
	Names      []string
	Files      []File
	Entrypoint []string
	Cmd        []string
	User       string
}

// Write writes the archive of an image.
func Write(to string, img Image) error {
	layer, err := layerOf(img.Files)
	if err != nil {
		return fmt.Errorf("make the image %s: %w", img.Names[0], err)
	}
	config, err := json.Marshal(configOf(img, hexOf(layer)))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": hexOf(config) + ".json", "RepoTags": img.Names, "Layers": []string{hexOf(layer) + "/layer.tar"}}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		content []byte
	}{{hexOf(layer) + "/layer.tar", layer}, {hexOf(config) + ".json", config}, {"manifest.json", manifest}} {
		if err := add(w, tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))}, f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

func configOf(img Image, layer string) map[string]any {
	return map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": img.Entrypoint, "Cmd": img.Cmd, "User": img.User,
			"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
	}
}

func layerOf(files []File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, f := range files {
		name := strings.TrimPrefix(f.At, "/")
		if err := addFolders(w, made, path.Dir(name)); err != nil {
			return nil, err
		}
		if err := addFile(w, name, f); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func addFolders(w *tar.Writer, made map[string]bool, dir string) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := addFolders(w, made, path.Dir(dir)); err != nil {
		return err
	}
	made[dir] = true
	mode := int64(0o755)
	if dir == "tmp" {
		mode = 0o1777
	}
	return add(w, tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: mode}, nil)
}

func addFile(w *tar.Writer, name string, f File) error {
	if f.Link != "" {
		return add(w, tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: f.Link, Mode: 0o777}, nil)
	}
	content, err := os.ReadFile(f.From)
	if err != nil {
		return err
	}
	info, err := os.Stat(f.From)
	if err != nil {
		return err
	}
	return add(w, tar.Header{Name: name, Mode: int64(info.Mode() & fs.ModePerm), Size: int64(len(content))}, content)
}

func add(w *tar.Writer, h tar.Header, content []byte) error {
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func hexOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
