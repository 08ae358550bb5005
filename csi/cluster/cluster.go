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
	// Propose has a command applied, on this member too when it returns. It fills the
	// request id and the actor. A rejection is the error *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read calls fn with a state that holds everything acknowledged before the call.
	Read(ctx context.Context, fn func(*fsm.State) error) (index uint64, err error)
	// View calls fn with the state of this member. After Propose it includes the outcome.
	View(fn func(*fsm.State) error) error
	// WatchVolume wakes when something about the volume may have changed, until stop.
	WatchVolume(id fsm.VolumeID) (wake <-chan struct{}, stop func())
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
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
	out, err := c.Propose(ctx, cmd)
	if isExpired(err) {
		return c.answerExpired(ctx, cmd)
	}
	reportIndex(ctx, LogIndexTrailer, out.GetIndex())
	return out, unavailableOnTimeout(err, "the log did not take the command in time")
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

// AtFeatureLevel tells whether this member knows that the cluster runs at a feature
// level, or at a higher one; what that level introduced may then be proposed.
func (c *Client) AtFeatureLevel(level uint32) bool {
	var runs uint32
	err := c.View(func(state *fsm.State) error {
		runs = state.Cluster().FeatureLevel
		return nil
	})
	return err == nil && runs >= level
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

// Question asks the state whether its hosts did what is waited for. A rejection says that they
// will not.
type Question func(*fsm.State) (done bool, rej *fsm.Rejection)
