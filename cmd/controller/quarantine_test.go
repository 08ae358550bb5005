package controller

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// S23: a controller whose state is not the majority's stays, so that its metric is seen, and serves nothing.
func TestS23_AQuarantinedControllerSaysSoUntilItIsStopped(t *testing.T) {
	b := newTestController(t)
	b.start()
	b.stopAndWait()
	require.NoError(t, os.WriteFile(filepath.Join(b.opts.dataDir, "quarantined"), []byte("another state\n"), 0o600))
	c, err := prepare(t.Context(), b.opts, io.Discard)
	require.NoError(t, err)
	why := c.open(t.Context())
	require.ErrorIs(t, why, store.ErrQuarantined)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.finish(c.awaitStop(ctx, why)) }()
	require.Eventually(t, func() bool { return strings.Contains(get(t, c, "/readyz"), "another state") }, time.Minute, 10*time.Millisecond)
	require.Contains(t, get(t, c, "/metrics"), "\nholdfast_raft_diverged 1\n")
	for _, l := range []net.Listener{c.raftListener, c.apiListener} {
		_, err = net.Dial("tcp", l.Addr().String())
		require.Error(t, err)
	}
	stop()
	require.NoError(t, <-ended)

	other := errors.New("another error ends it at once")
	require.ErrorIs(t, c.awaitStop(t.Context(), other), other)
}

func get(t *testing.T, c *controller, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + c.health.Addr() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
