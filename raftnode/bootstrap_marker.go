package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-storage/holdfast/durablefile"
)

// bootstrapMarker stays outside of the data directory when a cluster was bootstrapped from
// it (S69). The member's id tells a directory whose bootstrap was interrupted from one that
// was lost.
type bootstrapMarker struct {
	Member string `json:"member"`
	// Cluster is empty until the cluster has an id, and where an older build wrote the marker.
	Cluster string `json:"cluster,omitempty"`
}

// FoundedCluster is the id of the cluster that was founded, restored or recovered from a data directory, as the marker beside
// it says, also when the directory is lost. It is empty where there is no marker, or one without an id. marker is its path,
// beside dir when empty.
func FoundedCluster(dir, marker string) (string, error) {
	m, err := readMarker(markerPath(dir, marker))
	if err != nil || m == nil {
		return "", err
	}
	return m.Cluster, nil
}

func (b *bootstrapper) readBootstrapMarker() (*bootstrapMarker, error) {
	if b.cfg.NoBootstrapMarker {
		return nil, nil
	}
	return readMarker(b.cfg.BootstrapMarker)
}

// readMarker is nil when there is no marker. One that cannot be read is an error: it may say
// that a cluster was bootstrapped.
func readMarker(path string) (*bootstrapMarker, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var marker bootstrapMarker
	if err == nil {
		err = json.Unmarshal(text, &marker)
	}
	if err != nil {
		return nil, fmt.Errorf("read the marker %s, which says whether a cluster was founded here: %w; mend it, or remove it if no cluster was", path, err)
	}
	return &marker, nil
}

// nameCluster adds the cluster's id to the marker of the member that founded it. Without it a restore cannot tell a backup of
// another cluster, and that is all: the member goes on.
func (b *bootstrapper) nameCluster(cluster string) {
	marker, err := b.readBootstrapMarker()
	if cluster == "" || err != nil || marker == nil || marker.Member != b.id || marker.Cluster == cluster {
		return
	}
	text, err := json.Marshal(bootstrapMarker{Member: b.id, Cluster: cluster})
	if err == nil {
		err = durablefile.Write(b.cfg.BootstrapMarker, append(text, '\n'), 0o600)
	}
	if err != nil {
		b.log.Warn("cannot write which cluster was founded here into the bootstrap marker", "marker", b.cfg.BootstrapMarker, "error", err)
	}
}

// writeBootstrapMarker makes the marker durable. Where the default path cannot be written, only
// the other controllers remember the bootstrap; a path that the operator chose must be written.
func (b *bootstrapper) writeBootstrapMarker() error {
	if b.cfg.NoBootstrapMarker {
		return nil
	}
	if marker, err := b.readBootstrapMarker(); err == nil && marker != nil && marker.Member == b.id {
		return nil
	}
	text, err := json.Marshal(bootstrapMarker{Member: b.id})
	if err == nil {
		err = durablefile.Write(b.cfg.BootstrapMarker, append(text, '\n'), 0o600)
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
