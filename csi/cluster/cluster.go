// Package cluster is what the controller services share: they propose, read and wait
// through it only.
package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is all that the services need of the log and the state.
type Cluster interface {
	// Site is the site that the endpoint acts for.
	Site() string
	// Actor is in whose name Propose has commands applied.
	Actor() string
	// Propose has a command applied, on this member too when it returns. It fills the
	// request id and the actor. A rejection is the error *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read calls fn with a state that holds everything acknowledged before the call.
	Read(ctx context.Context, fn func(*fsm.State) error) (index uint64, err error)
	// View calls fn with the state of this member. After Propose it includes the outcome.
	View(fn func(*fsm.State) error) error
	// WatchVolumes wakes when something about one of the volumes may have changed, until stop.
	WatchVolumes(ids ...fsm.VolumeID) (wake <-chan struct{}, stop func())
	// WatchSnapshot wakes when something about the snapshot may have changed, until stop.
	WatchSnapshot(id fsm.SnapshotID) (wake <-chan struct{}, stop func())
	// WatchGroup wakes when something about the group or a member may have changed, until stop.
	WatchGroup(id fsm.GroupSnapshotID) (wake <-chan struct{}, stop func())
}

// pollInterval is how often a waiting call reads the state without being woken: a lost
// wake-up only delays the answer.
const pollInterval = time.Second

// Client is a cluster as the services use it.
type Client struct {
	Cluster
	// PollInterval is how often a waiting call reads the state without being woken.
	PollInterval time.Duration
}

// New is a client of the cluster.
func New(c Cluster) *Client { return &Client{Cluster: c, PollInterval: pollInterval} }

// ProposeCommand has one command applied. One that expired before it was applied is answered
// from the state, by fsm (S4). Without an answer in time it is UNAVAILABLE.
func (c *Client) ProposeCommand(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	namesSites, err := c.AtFeatureLevel(ctx, fsm.Level2)
	if err != nil {
		return nil, err
	}
	if namesSites {
		cmd.Site = c.Site()
	}
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
	out, err := c.Propose(ctx, cmd)
	if isExpired(err) {
		return c.answerExpired(ctx, cmd)
	}
	c.endReclaimInTheWay(ctx, cmd, err)
	reportIndex(ctx, LogIndexTrailer, out.GetIndex())
	return out, unavailableOnTimeout(err, "the log did not take the command in time")
}

// endReclaimInTheWay asks for the end of a reclaim because of which the command was Busy: the caller's retry
// finds it ended (S61).
func (c *Client) endReclaimInTheWay(ctx context.Context, cmd *fsmpb.Command, refused error) {
	var rejection *fsm.Rejection
	if !errors.As(refused, &rejection) || rejection.Reason != fsm.Busy {
		return
	}
	var id fsm.VolumeID
	_ = c.View(func(state *fsm.State) error {
		id = state.ReclaimInTheWay(cmd)
		return nil
	})
	if id == "" {
		return
	}
	end := &fsmpb.Command{Body: &fsmpb.Command_EndReclaim{EndReclaim: &fsmpb.EndReclaim{VolumeId: string(id)}}}
	end.SchemaVersion = fsm.LeastLevel(end)
	_, _ = c.Propose(ctx, end) // where it fails, the retry asks again
}

func (c *Client) answerExpired(ctx context.Context, cmd *fsmpb.Command) (out *fsmpb.Outcome, err error) {
	err = c.ReadState(ctx, func(state *fsm.State) error {
		answer, rejection := state.AnswerExpired(cmd)
		if rejection != nil {
			return rejection
		}
		out = answer
		return nil
	})
	return out, err
}

// AtFeatureLevel tells whether the cluster runs at a feature level, or at a higher one; what that level introduced
// may then be proposed. What this member has applied may be old, as after its start: that the cluster is below the
// level is read from a state that is not stale. Otherwise a command would be proposed in no site's name (S32).
func (c *Client) AtFeatureLevel(ctx context.Context, level uint32) (reached bool, err error) {
	ask := func(state *fsm.State) error {
		if state.Cluster().ID == "" {
			return rpcerr.Unavailable("the cluster is being set up: it has no feature level yet")
		}
		reached = state.Cluster().FeatureLevel >= level
		return nil
	}
	if err := c.View(ask); err == nil && reached {
		return true, nil
	}
	err = c.ReadState(ctx, ask)
	return reached, err
}

// ReadState reads a state that is not stale.
func (c *Client) ReadState(ctx context.Context, fn func(*fsm.State) error) error {
	index, err := c.Read(ctx, fn)
	reportIndex(ctx, ReadIndexTrailer, index)
	return unavailableOnTimeout(err, "the state could not be read in time")
}

// unavailableOnTimeout is UNAVAILABLE when the time ran out before the quorum answered,
// also for a caller with a short deadline (S28).
func unavailableOnTimeout(err error, what string) error {
	var rejection *fsm.Rejection
	if !errors.As(err, &rejection) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return rpcerr.Unavailable("%s: there may be no quorum", what)
	}
	return err
}

// isExpired tells whether a command expired before it was applied (S4).
func isExpired(err error) bool {
	var rejection *fsm.Rejection
	return errors.As(err, &rejection) && rejection.Reason == fsm.Expired
}

// Await asks the state again and again until the question's answer is done or a rejection, or is
// fsm.Busy (ABORTED) when ctx ends: the operation continues and the retry joins it.
func (c *Client) Await(ctx context.Context, wake <-chan struct{}, what string, question Question) error {
	tick := time.NewTicker(c.PollInterval)
	defer tick.Stop()
	for {
		done := false
		err := c.View(func(state *fsm.State) error {
			finished, rejection := question(state)
			if rejection != nil {
				return rejection
			}
			done = finished
			return nil
		})
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fsm.Reject(fsm.Busy, "%s: its hosts are still at work; the retry joins", what)
		case <-wake:
		case <-tick.C:
		}
	}
}

// AwaitVolume is Await of what the hosts do for a volume.
func (c *Client) AwaitVolume(ctx context.Context, id fsm.VolumeID, what string, question Question) error {
	wake, stop := c.WatchVolumes(id)
	defer stop()
	return c.Await(ctx, wake, what+" volume "+string(id), question)
}

// Question asks the state whether its hosts did what is waited for. A rejection says that they
// will not.
type Question func(*fsm.State) (done bool, rej *fsm.Rejection)
