package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// mountedVolume is a volume in use, with the data that was written to it.
type mountedVolume struct {
	*harness.Volume
	data []byte
}

func (u *mountedVolume) kind() string {
	if u.Block {
		return "raw"
	}
	return u.FSType
}

func (u *mountedVolume) sum() string {
	sum := sha256.Sum256(u.data)
	return hex.EncodeToString(sum[:])
}

// path returns where the data is written: a file, or the device itself.
func (u *mountedVolume) path() string {
	if u.Block {
		return u.Target
	}
	return filepath.Join(u.Target, "data")
}

// write writes and syncs a mebibyte of random bytes.
func (u *mountedVolume) write() error {
	u.data = make([]byte, harness.Mi)
	if _, err := rand.Read(u.data); err != nil {
		return err
	}
	f, err := os.OpenFile(u.path(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(u.data)
	return errors.Join(err, f.Sync(), f.Close())
}

// verify reads the data back.
func (u *mountedVolume) verify() error {
	f, err := os.Open(u.path())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	got := make([]byte, len(u.data))
	if _, err := f.ReadAt(got, 0); err != nil {
		return fmt.Errorf("read %s back: %w", u.Name, err)
	}
	if !bytes.Equal(got, u.data) {
		return fmt.Errorf("read %s back: it is not what was written", u.Name)
	}
	return nil
}
