package node

import (
	"context"
	"crypto/ecdh"
	"log/slog"
	"net/netip"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/drbd"
	"github.com/holdfast-storage/holdfast/executor/fencepeer"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replication is what a host needs for replicas of replicated volumes: DRBD, and the host's key.
type replication struct {
	drbd *drbd.Replicator
	key  *ecdh.PrivateKey
}

// checkReplication refuses values that flag parsing cannot, and finds this host's address in a network.
func (o *options) checkReplication() error {
	if o.selfFence != "" && o.selfFence != "reboot" {
		return exit.Usagef("--self-fence %q: choose reboot, or leave it out", o.selfFence)
	}
	if o.verifyInterval < 0 {
		return exit.Usagef("--verify-interval is below zero")
	}
	if err := o.resolveReplicationAddress(); err != nil || o.replicationAddress == "" {
		return err
	}
	if _, err := netip.ParseAddr(o.replicationAddress); err != nil {
		return exit.Usagef("--replication-address %q is no IP address", o.replicationAddress)
	}
	for _, path := range []struct{ flag, value string }{{"fence-socket", o.fencePeerSocket}, {"handler", o.handler}, {"drbd-dir", o.drbdDir}} {
		if !filepath.IsAbs(path.value) {
			return exit.Usagef("--%s %q is not an absolute path: the kernel runs the handler in a folder of its own", path.flag, path.value)
		}
	}
	return nil
}

// openReplication prepares DRBD where --replication-address is set.
func (p *components) openReplication(o *options, log *slog.Logger) error {
	if o.replicationAddress == "" {
		return nil
	}
	key, err := drbd.OpenKey(o.dataDir)
	if err != nil {
		return exit.Wrap(exit.Refused, err)
	}
	socket := o.fencePeerSocket
	if socket == fencepeer.DefaultSocket {
		socket = "" // the handler's own default
	}
	p.replication = &replication{key: key, drbd: drbd.New(drbd.Config{Dir: o.drbdDir, Handler: o.handler, Socket: socket, Log: log, Options: drbd.Options{KoCount: o.koCount}})}
	return nil
}

// secret is the shared secret with which this host and a peer authenticate each other for one volume.
func (r *replication) secret(peer []byte, id fsm.VolumeID) (string, error) {
	return drbd.SharedSecret(r.key, peer, id)
}

// configureReplication sets the executor's configuration for replication. Whether the host can hold
// replicas is checked at each registration: the kernel must be able to run the handler (S13).
func (n *node) configureReplication(c *agent.Config) {
	r := n.components.replication
	if r == nil {
		return
	}
	c.Replicator, c.ReplicationAddress, c.PublicKey, c.DeriveSecret = r.drbd, n.replicationAddress, r.key.PublicKey().Bytes(), r.secret
	c.VerifyInterval, c.Reached, c.NodeTimeout = n.verifyInterval, n.client.Connected, n.nodeTimeout
	if n.selfFence == "reboot" {
		c.SelfFence = func() { reboot(n.log) }
	}
}

// listenFencePeer listens for the kernel's fence-peer handler.
func (n *node) listenFencePeer() (err error) {
	if n.components.replication == nil {
		return nil
	}
	n.fencePeer, err = fencepeer.Listen(n.fencePeerSocket, func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
		return n.executor.FencePeer(ctx, id)
	}, n.log)
	return exit.Wrap(exit.Unavailable, err)
}

// serveFencePeer serves the fence-peer handler until ctx ends.
func (n *node) serveFencePeer(ctx context.Context) error {
	if n.fencePeer == nil {
		return nil
	}
	return n.fencePeer.Serve(ctx)
}

// reboot is the last resort when a former primary's replica cannot be torn down (S9). Filesystems
// are not synced: the replica's pending writes must be discarded.
func reboot(log *slog.Logger) {
	log.Error("rebooting: an outdated replica could not be torn down")
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		log.Error("cannot reboot this host", "error", err)
	}
}
