package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const suffix = ".pb.go"

// find lists the files with a suffix below root, as slash-separated paths relative to it.
func find(root, suffix string) ([]string, error) {
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != "." && (name[0] == '.' || name == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// differing lists the generated files that differ from the disk: changed, missing, or left over from a
// deleted .proto file.
func differing(root string, generated map[string][]byte) ([]string, error) {
	present, err := find(root, suffix)
	if err != nil {
		return nil, err
	}
	var stale []string
	for _, path := range present {
		if _, ok := generated[path]; !ok {
			stale = append(stale, path)
		}
	}
	for path, content := range generated {
		onDisk, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(onDisk, content) {
			stale = append(stale, path)
		}
	}
	slices.Sort(stale)
	return stale, nil
}

// write writes the named files as generated, and removes those that are not generated any more.
func write(root string, stale []string, generated map[string][]byte) error {
	for _, path := range stale {
		file := filepath.Join(root, path)
		content, ok := generated[path]
		if !ok {
			if err := os.Remove(file); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
