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

// replication is what a host needs to hold replicas of replicated volumes.
type replication struct {
	drbd *drbd.Replicator
	key  *ecdh.PrivateKey
}

// checkReplication refuses what no flag parser sees.
func (o *options) checkReplication() error {
	if o.selfFence != "" && o.selfFence != "reboot" {
		return exit.Usagef("--self-fence %q: choose reboot, or leave it out", o.selfFence)
	}
	if o.verifyInterval < 0 {
		return exit.Usagef("--verify-interval is below zero")
	}
	if o.replicationAddress == "" {
		return nil
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

// openReplication makes what is needed where replicated volumes are asked for.
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
		socket = "" // the handler knows that one
	}
	p.replication = &replication{key: key, drbd: drbd.New(drbd.Config{Dir: o.drbdDir, Handler: o.handler, Socket: socket, Log: log})}
	return nil
}

// secret is what this host and a peer know each other by, for one volume.
func (r *replication) secret(peer []byte, id fsm.VolumeID) (string, error) {
	return drbd.SharedSecret(r.key, peer, id)
}

// configureReplication gives an executor its part. Whether the host is fit to hold
// replicas is looked at with each session: the kernel must be able to ask (S13).
func (n *node) configureReplication(c *agent.Config) {
	r := n.components.replication
	if r == nil {
		return
	}
	c.Replicator, c.ReplicationAddress, c.PublicKey, c.DeriveSecret = r.drbd, n.replicationAddress, r.key.PublicKey().Bytes(), r.secret
	c.VerifyInterval = n.verifyInterval
	if n.selfFence == "reboot" {
		c.SelfFence = func() { reboot(n.log) }
	}
}

// listenFencePeer listens for the kernel's handler.
func (n *node) listenFencePeer() (err error) {
	if n.components.replication == nil {
		return nil
	}
	n.fencePeer, err = fencepeer.Listen(n.fencePeerSocket, func(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
		return n.executor.FencePeer(ctx, id)
	}, n.log)
	return exit.Wrap(exit.Unavailable, err)
}

// serveFencePeer answers the kernel's handler until ctx ends.
func (n *node) serveFencePeer(ctx context.Context) error {
	if n.fencePeer == nil {
		return nil
	}
	return n.fencePeer.Serve(ctx)
}

// reboot is the last resort of a host that lost and cannot let go: nothing is synced,
// as what it has is not to be kept.
func reboot(log *slog.Logger) {
	log.Error("rebooting: a replica that lost could not be taken down")
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		log.Error("the kernel does not reboot", "error", err)
	}
}
