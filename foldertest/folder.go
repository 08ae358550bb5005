// Package foldertest shows tests what a folder holds, where something must leave it as it is.
package foldertest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files are the files below a folder, byte by byte, and the folders: all by their paths.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			files[path] = "folder"
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	}))
	return files
}

// Changes say which of the Files differ, whose content is not for reading, in order of their paths.
func Changes(before, after map[string]string) (changes []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, had := before[path]
		is, has := after[path]
		switch {
		case !has:
			changes = append(changes, path+" is gone")
		case !had:
			changes = append(changes, path+" is new")
		case was != is:
			changes = append(changes, path+" was changed")
		}
	}
	return changes
}

// Tree is a line for all that is below a folder: its path, mode and time of change, and the checksum of a file's content.
func Tree(t testing.TB, dir string) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		sum, err := checksum(path, info.Mode())
		lines = append(lines, fmt.Sprintf("%s %s %d %x", path, info.Mode(), info.ModTime().UnixNano(), sum))
		return err
	}))
	return lines
}

// checksum is of a file's content; of what is no file it is that of no content.
func checksum(path string, mode fs.FileMode) ([]byte, error) {
	sum := sha256.New()
	if !mode.IsRegular() {
		return sum.Sum(nil), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}
