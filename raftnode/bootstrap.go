package raftnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

// bootstrapMarker is what stays outside of the data folder when a cluster was founded
// from it (S69). The member's id tells a folder whose founding was interrupted from
// one that was lost.
type bootstrapMarker struct {
	Member string `json:"member"`
}

// prepareBootstrap decides, in an empty folder, whether this member may make a new
// cluster. Without addresses to ask it makes it now; with them it is left to membershipLoop,
// which asks them all first.
func (m *Member) prepareBootstrap(bootstrap func() error) error {
	marker, err := m.readBootstrapMarker()
	switch {
	case err != nil:
		return err
	case marker != nil && marker.Member != m.id && len(m.cfg.Join) > 0:
		m.log.Warn("a cluster was founded from a data folder that is gone: this member only joins", "marker", m.cfg.BootstrapMarker)
		return nil
	case marker != nil && marker.Member != m.id:
		return fmt.Errorf("a cluster was founded here before, by member %s, and its data folder is gone (%s says so): start this controller with --join and the addresses of the others, then `holdfast members replace %s`; only if that cluster is given up, remove %s",
			marker.Member, m.cfg.BootstrapMarker, marker.Member, m.cfg.BootstrapMarker)
	case len(m.cfg.Join) > 0:
		m.bootstrapping.Store(true)
		return nil
	}
	if err := m.writeBootstrapMarker(); err != nil {
		return err
	}
	return bootstrap()
}

// bootstrapOrJoin asks every known address. One that knows a cluster is joined; a new one is
// made only when all said that they know none, and that they are not to make one either.
func (m *Member) bootstrapOrJoin(ctx context.Context) {
	unanswered, otherFounder, clusterExists := m.discoverCluster(ctx)
	switch {
	case ctx.Err() != nil:
	case clusterExists:
		m.joinThroughAny(ctx)
	case otherFounder != "":
		m.setJoinError(fmt.Errorf("%s is to make a new cluster too: start one controller only with --bootstrap, the others with --join", otherFounder))
	case len(unanswered) > 0:
		m.setJoinError(fmt.Errorf("a new cluster is made when all other controllers said that they know none; not yet asked: %s", strings.Join(unanswered, "; ")))
	default:
		m.bootstrapCluster()
	}
}

// discoverCluster asks all addresses of Join but the own one. silent are those that
// could not be asked, other is one that is to found a cluster as well.
func (m *Member) discoverCluster(ctx context.Context) (unanswered []string, otherFounder string, clusterExists bool) {
	for _, addr := range m.cfg.Join {
		if addr == m.cfg.Advertise {
			continue
		}
		s, err := m.peers.queryStatusAt(ctx, addr)
		switch {
		case err != nil:
			unanswered = append(unanswered, fmt.Sprintf("%s (%s)", addr, rpcMessage(err)))
		case s.GetMemberId() == m.id: // another name of its own address
		case s.GetClusterId() != "" || len(s.GetMemberIds()) > 0:
			return nil, "", true
		case s.GetFounding():
			otherFounder = fmt.Sprintf("%s at %s", s.GetName(), addr)
		}
	}
	return unanswered, otherFounder, false
}

// bootstrapCluster makes the new cluster, of this member alone.
func (m *Member) bootstrapCluster() {
	err := m.writeBootstrapMarker()
	if err == nil {
		err = m.raft.BootstrapCluster(m.initialConfiguration()).Error()
	}
	if err != nil {
		m.setJoinError(fmt.Errorf("make the new cluster: %w", err))
		return
	}
	m.log.Info("a new cluster is made", "member_id", m.id)
}

// initialConfiguration is the first configuration of a new cluster.
func (m *Member) initialConfiguration() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(m.id), Address: raft.ServerAddress(m.cfg.Advertise)},
	}}
}

// readBootstrapMarker is nil when there is no marker. One that cannot be read may say that a
// cluster was founded.
func (m *Member) readBootstrapMarker() (*bootstrapMarker, error) {
	text, err := os.ReadFile(m.cfg.BootstrapMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var marker bootstrapMarker
	if err == nil {
		err = json.Unmarshal(text, &marker)
	}
	if err != nil {
		return nil, fmt.Errorf("read the marker %s, which says whether a cluster was founded here: %w; mend it, or remove it if no cluster was", m.cfg.BootstrapMarker, err)
	}
	return &marker, nil
}

// writeBootstrapMarker makes the marker durable. Where its folder cannot be written, the other
// controllers are the only memory; a marker that was asked for must be written.
func (m *Member) writeBootstrapMarker() error {
	if marker, err := m.readBootstrapMarker(); err == nil && marker != nil && marker.Member == m.id {
		return nil
	}
	text, err := json.Marshal(bootstrapMarker{Member: m.id})
	if err == nil {
		err = replaceDurably(m.cfg.BootstrapMarker, append(text, '\n'))
	}
	if err != nil && m.cfg.defaultMarker {
		m.log.Warn("nothing outside of the data folder remembers that a cluster was founded here: name the other controllers with --join, or another file with --bootstrap-marker", "error", err)
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
