package raftnode

import (
	"context"
	"testing"
)

// S140: raft blocks until its notice of leadership is received.
func TestS140_LeadershipNotificationsAreConsumed(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	ctx, cancel := context.WithCancel(t.Context())
	notify, ended := make(chan bool), make(chan struct{})
	go func() { defer close(ended); n.tracker.run(ctx, notify) }()
	for i := range 100 {
		select {
		case notify <- i%2 == 0:
		case <-testContext(t).Done():
			t.Fatal("nobody takes the notice")
		}
	}
	cancel()
	<-ended
}
