package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// bootstrapMarker stays outside of the data directory when a cluster was bootstrapped from
// it (S69). The member's id tells a directory whose bootstrap was interrupted from one that
// was lost.
type bootstrapMarker struct {
	Member string `json:"member"`
}

// readBootstrapMarker is nil when there is no marker. One that cannot be read is an error:
// it may say that a cluster was bootstrapped.
func (b *bootstrapper) readBootstrapMarker() (*bootstrapMarker, error) {
	text, err := os.ReadFile(b.cfg.BootstrapMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var marker bootstrapMarker
	if err == nil {
		err = json.Unmarshal(text, &marker)
	}
	if err != nil {
		return nil, fmt.Errorf("read the marker %s, which says whether a cluster was founded here: %w; mend it, or remove it if no cluster was", b.cfg.BootstrapMarker, err)
	}
	return &marker, nil
}

// writeBootstrapMarker makes the marker durable. Where the default path cannot be written, only
// the other controllers remember the bootstrap; a path that the operator chose must be written.
func (b *bootstrapper) writeBootstrapMarker() error {
	if marker, err := b.readBootstrapMarker(); err == nil && marker != nil && marker.Member == b.id {
		return nil
	}
	text, err := json.Marshal(bootstrapMarker{Member: b.id})
	if err == nil {
		err = replaceDurably(b.cfg.BootstrapMarker, append(text, '\n'))
	}
	if err != nil && b.cfg.defaultMarker {
		b.log.Warn("cannot write the bootstrap marker, so that only the data folder knows that a cluster was founded here: name the other controllers with --join, or another file with --bootstrap-marker", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the marker that a cluster was founded: %w", err)
	}
	return nil
}

func replaceDurably(path string, data []byte) (err error) {
	parent := filepath.Dir(path)
	temp, err := os.CreateTemp(parent, ".founded-*") // 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	dir, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
