package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A parameter that was misspelt is not taken for one that was not given, and nothing but GET is served.
func TestAGateKnowsItsParameters(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	decided := 0
	gate := Gate{Path: "/may", Parameters: []string{"claim"}, Decide: func(context.Context, map[string]bool) (Verdict, error) {
		decided++
		return Verdict{Safe: true}, nil
	}}
	h := ServeHealth(listener, prometheus.NewRegistry(), func() error { return nil }, false, slog.New(slog.DiscardHandler), gate)
	defer h.Close()
	for query, want := range map[string]struct {
		code int
		body string
	}{
		"": {http.StatusOK, `"safe":true`}, "?claim=1": {http.StatusOK, `"safe":true`},
		"?claim=maybe": {http.StatusBadRequest, "claim is not a boolean"}, "?clam=1": {http.StatusBadRequest, `no parameter \"clam\"`}, "?claim": {http.StatusBadRequest, "not a boolean"},
	} {
		for range 2 {
			resp, err := http.Get("http://" + h.Addr() + "/may" + query)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want.code, resp.StatusCode, query)
			require.Contains(t, string(body), want.body, query)
		}
	}
	require.Equal(t, 4, decided)
	resp, err := http.Post("http://"+h.Addr()+"/may", "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}
