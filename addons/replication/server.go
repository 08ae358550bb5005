// Package replication serves replication.Controller of CSI-Addons on every controller: the roles of two sites that
// have a volume, or all volumes of a group. It translates, proposes, waits and answers; fsm decides (S29 to S56).
//
// A call that moves a role, or depends on it, names the role that it read when it began (S39). What hosts have to do is
// waited for as in ControllerPublishVolume: near the deadline the answer is ABORTED, and the retry joins.
package replication

import (
	"context"
	"slices"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	spec "github.com/csi-addons/spec/lib/go/replication"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// capability is what all RPCs belong to.
var capability = identity.Capability_VolumeReplication_VOLUME_REPLICATION.String()

// Hosts answers questions that only a host can.
type Hosts interface {
	// ReplicaNow is what the kernel of a host says of its replica of a volume, observed after it was asked.
	ReplicaNow(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (fsm.ReplicaObservation, error)
}

// Options are what the configuration says of replication between sites.
type Options struct {
	// NodeTimeout is the longest that a host's observation counts for (S56).
	NodeTimeout time.Duration
	// Disabled are names of capabilities whose RPCs are UNIMPLEMENTED.
	Disabled []string
}

// Server serves replication.Controller.
type Server struct {
	spec.UnimplementedControllerServer
	client  *cluster.Client
	hosts   Hosts
	options Options
	now     func() time.Time
}

var _ spec.ControllerServer = (*Server)(nil)

// New serves over a cluster and its hosts.
func New(c cluster.Cluster, hosts Hosts, options Options) *Server {
	return &Server{client: cluster.New(c), hosts: hosts, options: options, now: time.Now}
}

func (s *Server) site() fsm.Site { return fsm.SiteFrom(s.client.Site()) }

// checkServed is fsm.Unsupported (UNIMPLEMENTED) where replication is turned off, and while members that know no sites
// may be in the cluster.
func (s *Server) checkServed(ctx context.Context) error {
	if slices.Contains(s.options.Disabled, capability) {
		return fsm.Reject(fsm.Unsupported, "%s is turned off here", capability)
	}
	if knowsSites, err := s.client.AtFeatureLevel(ctx, fsm.Level2); err != nil {
		return err
	} else if !knowsSites {
		return fsm.Reject(fsm.Unsupported, "replication between sites needs feature level %d: finish the upgrade first", fsm.Level2)
	}
	return nil
}

// readRole reads the role that the call names. It is NotFound or NotReplicated where there is none: a relation that is made
// after that is not the one that the call is about.
func (s *Server) readRole(ctx context.Context, c *call) (role uint64, err error) {
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		if _, rej := state.ReplicationStatus(c.source, c.replicationID); rej != nil {
			return rej
		}
		role = state.ReplicationRole(c.source)
		return nil
	})
	return role, err
}

// propose has a command applied, unless nobody waits for its outcome any more (S39).
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := s.client.ProposeCommand(ctx, cmd)
	return err
}

// progress tells how far the hosts are with what a call decided.
type progress func(*fsm.State) (done bool, waitsFor string, rej *fsm.Rejection)

// await waits for the hosts of all volumes of the source.
func (s *Server) await(ctx context.Context, c *call, ask progress) error {
	wake, stop := s.client.WatchVolumes(s.volumesOf(c.source)...)
	defer stop()
	waitsFor := ""
	err := s.client.Await(ctx, wake, c.action+" "+c.name(), func(state *fsm.State) (done bool, rej *fsm.Rejection) {
		done, waitsFor, rej = ask(state)
		return done, rej
	})
	if err != nil && waitsFor != "" {
		return fsm.Reject(fsm.Busy, "%s %s: %s; the retry joins", c.action, c.name(), waitsFor)
	}
	return err
}

// volumesOf are the volumes of a source, as far as this member knows it.
func (s *Server) volumesOf(source *fsmpb.ReplicationSource) []fsm.VolumeID {
	members := []fsm.VolumeID{fsm.VolumeID(source.GetVolumeId())}
	_ = s.client.View(func(state *fsm.State) error { // without it the wait reads the state now and then
		if g, ok := state.VolumeGroup(fsm.VolumeGroupID(source.GetVolumeGroupId())); ok {
			members = g.Members
		}
		return nil
	})
	return members
}

// answer is the error of a call: UNKNOWN where nothing else is known.
func answer(err error) error { return rpcerr.OrUnknown(err) }
