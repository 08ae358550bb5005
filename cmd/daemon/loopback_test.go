package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// asked are requests by who sent them.
var asked = map[string]struct {
	peer, header string
	loopback     bool
}{
	"this host":                {peer: "127.0.0.1:4000", loopback: true},
	"this host's other":        {peer: "127.9.9.9:4000", loopback: true},
	"this host by IPv6":        {peer: "[::1]:4000", loopback: true},
	"this host by both":        {peer: "[::ffff:127.0.0.1]:4000", loopback: true},
	"a pod":                    {peer: "10.1.2.3:4000"},
	"a pod by IPv6":            {peer: "[fd00::3]:4000"},
	"a neighbour":              {peer: "[fe80::3%eth0]:4000"},
	"nobody knows":             {peer: "@"},
	"a proxy on this host":     {peer: "127.0.0.1:4000", header: "X-Forwarded-For"},
	"another proxy of RFC7239": {peer: "[::1]:4000", header: "Forwarded"},
	"a proxy that says so":     {peer: "[::1]:4000", header: "Via"},
}

func request(target, peer, header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer
	if header != "" {
		r.Header.Set(header, "10.1.2.3")
	}
	return r
}

// Any pod reaches a pod's address: a claim from there would write the log.
func TestOnlyLoopbackChangesAnything(t *testing.T) {
	for name, tc := range asked {
		t.Run(name, func(t *testing.T) {
			decided := 0
			gate := Gate{Path: "/may", Parameters: []string{"allow"}, Changes: []string{"claim", "release"},
				Decide: func(context.Context, map[string]bool) (Verdict, error) { decided++; return Verdict{Safe: true}, nil }}
			for _, query := range []string{"", "?allow=1", "?claim=0&release=false"} {
				w := httptest.NewRecorder()
				gate.ServeHTTP(w, request("/may"+query, tc.peer, tc.header))
				require.Equal(t, http.StatusOK, w.Code, "a question is for everybody")
			}
			decided = 0
			for range 2 {
				for _, query := range []string{"?claim=1", "?release=true&allow=1", "?claim=0&release=1"} {
					w := httptest.NewRecorder()
					gate.ServeHTTP(w, request("/may"+query, tc.peer, tc.header))
					if tc.loopback {
						require.Equal(t, http.StatusOK, w.Code, query)
						continue
					}
					require.Equal(t, http.StatusForbidden, w.Code, query)
					require.Contains(t, w.Body.String(), "over loopback on this host only")
				}
			}
			require.Equal(t, map[bool]int{true: 6}[tc.loopback], decided, "nothing else was asked of the log")
		})
	}
}

func TestProfilesAreForLoopback(t *testing.T) {
	for name, tc := range asked {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			onlyLoopback(pprof.Index)(w, request("/debug/pprof/", tc.peer, tc.header))
			require.Equal(t, map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[tc.loopback], w.Code)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := ServeHealth(listener, prometheus.NewRegistry(), func() error { return nil }, true, slog.New(slog.DiscardHandler))
	defer h.Close()
	for header, want := range map[string]int{"": http.StatusOK, "Via": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.Addr()+"/debug/pprof/", nil)
		require.NoError(t, err)
		if header != "" {
			r.Header.Set(header, "1.1 proxy")
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, header)
	}
}

func TestProfilesNeedAListenerThatLoopbackReaches(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:9801": true, "localhost:9801": true, "[::1]:9801": true, ":9801": true, "0.0.0.0:9801": true, "[::]:9801": true,
		"10.1.2.3:9801": false, "[fd00::1]:9801": false, "host1:9801": false,
	} {
		f := Flags{MetricsListen: address, CSIEndpoint: "/run/csi.sock"}
		require.NoError(t, f.Check(), address)
		f.Profile = true
		if good {
			require.NoError(t, f.Check(), address)
			continue
		}
		require.Equal(t, exit.Usage, exit.Code(f.Check()), address)
		require.ErrorContains(t, f.Check(), address)
	}
}
