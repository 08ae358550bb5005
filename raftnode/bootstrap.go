package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// bootstrapper makes a new cluster of this member alone, at most once in the life of a
// data directory.
type bootstrapper struct {
	*core
	bootstrapping atomic.Bool // it is to make a new cluster once all addresses of Join were asked
}

// prepareBootstrap decides, in an empty data directory, whether this member may bootstrap a
// cluster. Without Join addresses it does so now; with them membershipLoop does, after it
// asked them all.
func (b *bootstrapper) prepareBootstrap(bootstrap func() error) error {
	marker, err := b.readBootstrapMarker()
	switch {
	case err != nil:
		return err
	case marker != nil && marker.Member != b.id && len(b.cfg.Join) > 0:
		b.log.Warn("a cluster was bootstrapped from a data folder that is lost: this member only joins", "marker", b.cfg.BootstrapMarker)
		return nil
	case marker != nil && marker.Member != b.id:
		return fmt.Errorf("a cluster was founded here before, by member %s, and its data folder is gone (%s says so): start this controller with --join and the addresses of the others, then `holdfast members replace %s`; only if that cluster is given up, remove %s",
			marker.Member, b.cfg.BootstrapMarker, marker.Member, b.cfg.BootstrapMarker)
	case len(b.cfg.Join) > 0:
		b.bootstrapping.Store(true)
		return nil
	}
	if err := b.writeBootstrapMarker(); err != nil {
		return err
	}
	return bootstrap()
}

// discoverCluster asks all addresses of Join but this member's. unanswered are those that
// could not be asked, otherFounder is one that is to bootstrap a cluster as well.
func (b *bootstrapper) discoverCluster(ctx context.Context) (unanswered []string, otherFounder string, clusterExists bool) {
	for _, addr := range b.cfg.Join {
		if addr == b.cfg.Advertise {
			continue
		}
		s, err := b.peers.queryStatusAt(ctx, addr)
		switch {
		case err != nil:
			unanswered = append(unanswered, fmt.Sprintf("%s (%s)", addr, rpcMessage(err)))
		case s.GetMemberId() == b.id: // another name of its own address
		case s.GetClusterId() != "" || len(s.GetMemberIds()) > 0:
			return nil, "", true
		case s.GetFounding():
			otherFounder = fmt.Sprintf("%s at %s", s.GetName(), addr)
		}
	}
	return unanswered, otherFounder, false
}

// bootstrapCluster bootstraps the new cluster, with this member alone.
func (b *bootstrapper) bootstrapCluster() error {
	err := b.writeBootstrapMarker()
	if err == nil {
		err = b.raft.BootstrapCluster(b.initialConfiguration()).Error()
	}
	if err != nil {
		return err
	}
	b.log.Info("a new cluster is made", "member_id", b.id)
	return nil
}

// initialConfiguration is the first configuration of a new cluster.
func (b *bootstrapper) initialConfiguration() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(b.id), Address: raft.ServerAddress(b.cfg.Advertise)},
	}}
}

// keyCurrentTerm is Raft's in its stable store.
var keyCurrentTerm = []byte("CurrentTerm")

// forgetInterrupted takes back the term that a bootstrap wrote which was killed before it wrote the first entry: Raft would take the
// member for one of a cluster, and bootstrap it never. A member that is in no configuration has given no vote in that term.
func (b *bootstrapper) forgetInterrupted() error {
	last, err := b.storage.logs.LastIndex()
	if err != nil || last > 0 || !b.cfg.Bootstrap || b.storage.clusterID() != "" {
		return err
	}
	term, err := b.storage.stable.GetUint64(keyCurrentTerm)
	if err != nil || term == 0 {
		return nil //nolint:nilerr // there is none: Raft never used the folder
	}
	if taken, err := b.storage.snapshots.List(); err != nil || len(taken) > 0 {
		return err
	}
	b.log.Warn("an interrupted bootstrap is begun again", "term", term)
	return b.storage.stable.SetUint64(keyCurrentTerm, 0)
}

// bootstrapAtOpen makes this member the only one of a new cluster, once in the life of
// a data directory (S142). An empty one without Join addresses is refused.
func (b *bootstrapper) bootstrapAtOpen(config *raft.Config, logs raft.LogStore, snapshots raft.SnapshotStore) error {
	if err := b.forgetInterrupted(); err != nil {
		return err
	}
	hasState, err := b.storage.hasState()
	switch {
	case err != nil:
		return err
	case hasState && b.cfg.Bootstrap:
		if err := b.writeBootstrapMarker(); err != nil {
			return err
		}
		b.nameCluster(b.storage.clusterID())
		return nil
	case hasState:
		b.nameCluster(b.storage.clusterID())
		return nil
	case b.cfg.Bootstrap:
		return b.prepareBootstrap(func() error {
			return raft.BootstrapCluster(config, logs, b.storage.stable, snapshots, b.transport, b.initialConfiguration())
		})
	case len(b.cfg.Join) == 0:
		return errors.New("the data folder is empty: name members to join through, or make a new cluster")
	}
	return nil
}
