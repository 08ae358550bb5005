package daemon

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestAnUnreadyProcessIsAlive: liveness does not depend on a quorum, so that a missing quorum restarts no
// process; only readiness tells whether the process serves.
func TestAnUnreadyProcessIsAlive(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		listener, err := Listen(t.Context(), "metrics", "metrics-listen", address)
		if err != nil && strings.HasPrefix(address, "[") {
			t.Logf("this host has no IPv6: %v", err)
			continue
		}
		require.NoError(t, err)
		h := ServeHealth(listener, prometheus.NewRegistry(), func() error { return errors.New("no leader is known") }, false, slog.New(slog.DiscardHandler))
		defer h.Close()
		for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/debug/pprof/": http.StatusNotFound} {
			resp, err := http.Get("http://" + h.Addr() + path)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, path)
		}
	}
}
