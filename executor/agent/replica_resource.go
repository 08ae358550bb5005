package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// resourceConfig is the content of the volume's resource file. The file must name a peer, also
// for a replica without one, which is never told to connect.
func (rw *replicaWorker) resourceConfig(id fsm.VolumeID, d *fsm.DesiredReplica, h *plan.ObservedReplica, secret string) executor.ResourceConfig {
	peer := d.Peer
	if peer == nil {
		peer = placeholderPeer(d.Address)
	}
	return executor.ResourceConfig{
		Volume: id, Protocol: d.Protocol, Minor: d.Minor, Port: d.Port, BackingPath: backingPath(h.Backing),
		Node: rw.Node, Address: d.Address, PeerNode: peer.Node, PeerAddress: peer.Address, Secret: secret,
	}
}

// placeholderPeer stands for the peer of a replica that has none. Its address is reserved for
// documentation, and of the same family as the host's own.
func placeholderPeer(own string) *fsm.ReplicaPeer {
	if a, err := netip.ParseAddr(own); err == nil && a.Is6() {
		return &fsm.ReplicaPeer{Node: "nobody", Address: "2001:db8::1"}
	}
	return &fsm.ReplicaPeer{Node: "nobody", Address: "192.0.2.1"}
}

// configure writes the resource's file, with a secret that is stored nowhere else.
func (rw *replicaWorker) configure(ctx context.Context, v *volume, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	if rw.DeriveSecret == nil {
		return fsm.Reject(fsm.Precondition, "this host has no key for the replicas of its volumes")
	}
	secret, key, err := rw.secretOf(v.id, want.Peer)
	if err != nil {
		return fmt.Errorf("derive the secret of volume %s: %w", v.id, err)
	}
	r, before := rw.resourceConfig(v.id, want.DesiredReplica, h, secret), v.replica.config
	if before != nil && before.PeerAddress != r.PeerAddress && h.Connection == plan.ConnConnecting {
		if err := rw.Replicator.Disconnect(ctx, v.id); err != nil { // the kernel may be connecting to another host
			return err
		}
	}
	v.replica.config, v.replica.adjusted = nil, false
	if err := rw.Replicator.Configure(ctx, r); err != nil {
		return err
	}
	v.replica.config, v.replica.peerKey = &r, key
	return nil
}

// secretOf is the peers' shared secret, and the public key that it was derived from. A replica
// without a peer has a random secret.
func (rw *replicaWorker) secretOf(id fsm.VolumeID, peer *fsm.ReplicaPeer) (secret, key string, err error) {
	if peer != nil {
		secret, err = rw.DeriveSecret(peer.PublicKey, id)
		return secret, string(peer.PublicKey), err
	}
	random := make([]byte, 16)
	_, err = rand.Read(random)
	return hex.EncodeToString(random), "", err
}
